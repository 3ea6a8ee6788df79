// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/call_watchdog.hpp.
#pragma once

#include <algorithm>
#include <csignal>
#include <exception>
#include <future>
#include <memory>
#include <pthread.h>
#include <system_error>
#include <thread>

#include "tutti/core/environment.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/system/call_watchdog.hpp"

namespace tutti::detail {

TUTTI_INLINE bool wants_watchdog() {
  return environment_flag("TUTTI_WATCHDOG", true, "0 to let calls of the MPI that never return hang, or unset it");
}

TUTTI_INLINE void watched_calls::start(int rank, std::chrono::nanoseconds limit, char const* way_out) {
  if (!wants_watchdog()) return;
  way_out_ = way_out;
  for (call_note& note : notes) note.set_terms(limit, {});
  rank_ = rank;
  call_watchdog::of_process().add(*this);
}

TUTTI_INLINE void watched_calls::add_peer(int peer, process_watch const& process) {
  std::lock_guard const lock(call_watchdog::of_process().busy_);
  peers_.emplace_back(peer, process);
}

TUTTI_INLINE void watched_calls::watch_as(watched_calls const& other, std::span<int const> peers) {
  std::lock_guard const lock(call_watchdog::of_process().busy_);
  peers_.clear();
  for (auto const& one : other.peers_)
    if (std::ranges::find(peers, one.first) != peers.end()) peers_.push_back(one);
  numbering_ = other.numbering_;
}

TUTTI_INLINE void watched_calls::set_numbering(std::string text) {
  std::lock_guard const lock(call_watchdog::of_process().busy_);
  numbering_ = std::move(text);
}

TUTTI_INLINE void watched_calls::set_record(record_function record) {
  std::lock_guard const lock(call_watchdog::of_process().busy_);
  record_ = std::move(record);
}

TUTTI_INLINE void watched_calls::stop() noexcept { call_watchdog::of_process().remove(*this); }

TUTTI_INLINE call_watchdog& call_watchdog::of_process() noexcept {
  static one_per_process<call_watchdog> all;
  return all.get();
}

TUTTI_INLINE void call_watchdog::add(watched_calls& calls) {
  std::lock_guard const lock(busy_);
  all_.push_back(&calls);
  if (runs_) return;
  // Signals of the process are for the program's own threads.
  sigset_t every, before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  try {
    std::thread watcher([this] {
      while (true) {
        std::this_thread::sleep_for(between_looks);
        look();
      }
    });
    ::pthread_setname_np(watcher.native_handle(), "tutti-watchdog");
    watcher.detach();
    runs_ = true;
  } catch (std::system_error const&) {  // without a further thread, nobody watches
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TUTTI_INLINE void call_watchdog::remove(watched_calls& calls) noexcept {
  std::lock_guard const lock(busy_);
  std::erase(all_, &calls);
}

TUTTI_INLINE void call_watchdog::look() {
  std::lock_guard const lock(busy_);
  for (watched_calls* const calls : all_)
    for (call_note& note : calls->notes) look_at(*calls, note);
}

TUTTI_INLINE void call_watchdog::look_at(watched_calls const& calls, call_note& note) {
  char const* now = note.call_.load(std::memory_order_relaxed);
  if (now != call_note::seen) {
    note.looks_ = note.looks_since_ = 0;
    note.lost_ = -1;
    if (now != nullptr && note.call_.compare_exchange_strong(now, call_note::seen, std::memory_order_relaxed))
      note.current_ = now;
    return;
  }
  ++note.looks_;
  if (note.lost_ >= 0) ++note.looks_since_;
  else if (auto const lost = std::ranges::find_if(calls.peers_, [](auto const& p) { return p.second.ended(); });
           lost != calls.peers_.end())
    note.lost_ = lost->first;
  auto const limit = note.limit_.load(std::memory_order_relaxed);
  if (note.looks_since_ >= looks_after_loss || note.looks_ >= limit / between_looks) give_up(calls, note);
}

// Nobody catches it: the process ends as by any error that its program does not catch.
TUTTI_INLINE void call_watchdog::give_up(watched_calls const& calls, call_note const& note) {
  bool const lost = note.lost_ >= 0;
  std::string const end =
      "this process ends, because a thread cannot leave such a call (TUTTI_WATCHDOG=0 lets it hang)";
  error const found({.code = lost ? error_code::rank_lost : error_code::timeout,
                     .rank = calls.rank_,
                     .peer = note.lost_,
                     .what = lost ? join({"rank ", note.lost_, " ended while rank ", calls.rank_,
                                          " was inside the MPI (", note.current_, "), which does not return"})
                                  : join({"rank ", calls.rank_, " has been inside the MPI (", note.current_, ") for ",
                                          std::chrono::duration<double>(between_looks * note.looks_).count(), " s"}),
                     .way_out = lost ? join({"check the output of rank ", note.lost_, "; ", end, calls.numbering_})
                                     : join({calls.way_out_, "; ", end, calls.numbering_}),
                     .where = note.where_.load()});
  if (calls.record_) record(calls, found.what());
  throw found;
}

TUTTI_INLINE void call_watchdog::record(watched_calls const& calls, std::string const& why) try {
  auto const written = std::make_shared<std::promise<void>>();
  std::thread([=, write = calls.record_] {
    try {
      write(why);
    } catch (...) {  // the error says more
    }
    written->set_value();
  }).detach();
  written->get_future().wait_for(time_to_record);
} catch (std::exception const&) {  // no thread, or no memory
}

}  // namespace tutti::detail
