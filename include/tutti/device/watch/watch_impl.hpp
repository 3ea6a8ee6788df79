// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/watch/watch.hpp.
#pragma once

#include <thread>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/kernel_report.hpp"
#include "tutti/device/watch/watch.hpp"

namespace tutti::detail {

TUTTI_INLINE device_watch::device_watch(device_board const& board, int rank, std::vector<process_watch> peers)
    : board_{board}, rank_{rank}, recorded_{board, rank}, peers_{std::move(peers)} {
  thread_.start([this] { run(); });
}

TUTTI_INLINE void device_watch::know(std::uint32_t call, watched_call const& now,
                                     function_ref<std::uint32_t(int)> expected) {
  std::lock_guard const lock(guard_);
  auto const [entry, is_new] = known_.try_emplace(call, now);
  watched_call& known = entry->second;
  known.timeout = now.timeout;
  known.captured |= now.captured;
  known.kernels_wait = now.kernels_wait;
  known.sequence = now.sequence;
  known.again = !is_new;
  if (!is_new) return;
  for (int q = 0; q < board_.ranks(); ++q) known.expected.push_back(expected(q));
  ages_.push_back(call);
  if (ages_.size() > max_known) forget_oldest();
}

TUTTI_INLINE void device_watch::raise(fault const& f, std::source_location where) const {
  board_.raise(f);
  throw fault_found(where);
}

TUTTI_INLINE void device_watch::expect_no_report(std::source_location where) const {
  if (auto const found = reported()) raise(*found, where);
}

TUTTI_INLINE void device_watch::expect_same_call(std::uint64_t sequence, std::uint32_t call,
                                                 std::source_location where) const {
  for (int q = 0; q < board_.ranks(); ++q) {
    std::uint32_t const theirs = board_.noted(q, sequence);
    if (theirs == 0 || theirs == call || recorded_.same_call(call, q, theirs).value_or(true)) continue;
    raise(recorded_.mismatch_with(q, call, theirs), where);
  }
}

TUTTI_INLINE error device_watch::fault_found(std::source_location where) const {
  fault const found = await_fault([&] { return board_.find_fault(); }, [] { std::this_thread::sleep_for(nap_length); });
  int const peer = found.peer == rank_ ? found.rank : found.peer;
  return error({.code = found.code,
                .rank = rank_,
                .peer = peer,
                .what = found.text,
                .way_out = way_out(found.code),
                .where = where});
}

TUTTI_INLINE void device_watch::run() {
  for (running_clock::rest rest; thread_.rest(faulty() ? release_every : look_every); rest.end()) {
    std::lock_guard const lock(guard_);
    if (faulty()) release();
    else examine();
  }
}

TUTTI_INLINE void device_watch::release() const noexcept {
  auto const entry = known_.find(board_.rank(rank_).now.load());
  for (int q = 0; q < board_.ranks(); ++q) {
    board_.between(rank_, q).unread.store(0);
    std::uint32_t const value = entry == known_.end() ? 0 : entry->second.expected[static_cast<std::size_t>(q)];
    if (value != 0)
      for (auto& ready : board_.between(q, rank_).ready) ready.store(value);
  }
}

TUTTI_INLINE void device_watch::examine() {
  for (int q = 0; q < board_.ranks(); ++q)
    if (q != rank_ && peers_[static_cast<std::size_t>(q)].ended() && !left(q))
      return board_.raise({error_code::rank_lost, rank_, q,
                           join({"the process of rank ", q, " ended ", recorded_.state_of(q), ", while rank ", rank_,
                                 " is ", recorded_.state_of(rank_)})});
  if (auto const found = reported()) return board_.raise(*found);
  device_page const& self = board_.rank(rank_);
  std::uint32_t const call = self.now.load(), beat = self.beat.load();
  auto const now = deadline::clock::now();
  if (call != call_ || beat != beat_ || call == 0) {
    call_ = call, beat_ = beat, since_ = now;
    announced_.clear();
    return;
  }
  auto const entry = known_.find(call);
  if (entry == known_.end() || now - since_ < standing) return;
  // Between two of these loads the stream may have run on, so the words count once they are always the same.
  if (auto announced = announced_words(); announced != announced_) {
    announced_ = std::move(announced), announced_since_ = now;
  } else if (now - announced_since_ >= standing && !entry->second.kernels_wait) {
    for (int q = 0; q < board_.ranks(); ++q) {
      std::uint32_t const expected = entry->second.expected[static_cast<std::size_t>(q)];
      for (std::uint32_t const said : announced_[static_cast<std::size_t>(q)])
        if (expected != 0 && said != 0 && said != expected)
          return board_.raise(recorded_.mismatch_with(q, call, board_.rank(q).now.load()));
    }
  }
  if (now - since_ < standing_long && now - since_ < entry->second.timeout) return;
  for (int q = 0; q < board_.ranks(); ++q)
    if (q != rank_ && left(q) && awaits(q, entry->second) && !may_have_left_after(entry->second))
      return board_.raise({error_code::rank_left, rank_, q,
                           join({"rank ", q, " left ", recorded_.state_of(q), ", while rank ", rank_, " is ",
                                 recorded_.state_of(rank_)})});
  if (now - since_ < entry->second.timeout) return;
  // If no rank is missing, the last one may have arrived only now, when an earlier call of its stream gave up. Allow it a little
  // longer.
  fault const late = timeout_of(entry->second);
  if (late.peer >= 0 || now - since_ >= entry->second.timeout + standing_long) board_.raise(late);
}

TUTTI_INLINE std::vector<std::array<std::uint32_t, 2>> device_watch::announced_words() const {
  std::vector<std::array<std::uint32_t, 2>> out;
  for (int q = 0; q < board_.ranks(); ++q) {
    auto const& ready = board_.between(q, rank_).ready;
    out.push_back({ready[0].load(), ready[1].load()});
  }
  return out;
}

TUTTI_INLINE bool device_watch::awaits(int q, watched_call const& call) const noexcept {
  if (call.kernels_wait && has_made(q, call)) return false;
  return board_.between(rank_, q).unread.load() != 0 ||
         (call.expected[static_cast<std::size_t>(q)] != 0 && board_.between(q, rank_).ready[0].load() == 0 &&
          board_.between(q, rank_).ready[1].load() == 0);
}

TUTTI_INLINE std::optional<fault> device_watch::reported() const {
  std::uint32_t const word = board_.rank(rank_).report.load();
  if (word == 0) return {};
  auto const what = kernel_report::from(word);
  std::string text = what.text();
  if (what.kind == kernel_report::missing) text += join({", which is ", recorded_.state_of(what.peer)});
  return fault{what.code(), rank_, what.peer, std::move(text)};
}

TUTTI_INLINE fault device_watch::timeout_of(watched_call const& call) const {
  std::string absent;
  int first = -1;
  bool held_up = false;
  for (int q = 0; q < board_.ranks(); ++q) {
    std::uint32_t const theirs = board_.rank(q).now.load();
    if (q == rank_ || recorded_.same_call(call_, q, theirs).value_or(false)) continue;
    bool const may_be_held_up = theirs == 0 && has_made(q, call);
    if (!awaits(q, call) && !(call.kernels_wait && may_be_held_up)) continue;
    if (first < 0) first = q;
    held_up |= may_be_held_up;
    absent += may_be_held_up ? join({"; rank ", q, " has made this call, but its device is not in it"})
                             : join({"; rank ", q, " has not arrived: it is ", recorded_.state_of(q)});
  }
  if (first < 0) absent = "; all ranks that it needs have arrived, but at least one of them makes no progress";
  if (held_up)
    absent +=
        "; earlier work can hold up a device, for example a call of another cuda_ipc: the calls of several must have "
        "the same order on all ranks";
  double const seconds = std::chrono::duration<double>(call.timeout).count();
  return {error_code::timeout, rank_, first,
          join({recorded_.described(rank_, call_), " did not complete within ", seconds, " s", absent})};
}

TUTTI_INLINE std::string device_watch::way_out(error_code code) {
  switch (code) {
    case error_code::mismatch:
      return "all ranks must make the same calls in the same order, with equal counts, types and operations; for "
             "blocks of different sizes, use the _v calls";
    case error_code::timeout:
      return "find out what keeps the ranks that have not arrived, such as a call on other ranks, or raise "
             "TUTTI_TIMEOUT or device_options::timeout";
    case error_code::rank_lost: return "check the output of the rank that ended; make a new group of the survivors";
    case error_code::rank_left: return "all ranks must make the same calls before they end";
    case error_code::bad_argument: return join({kernel_report::correction, "; this group can no longer be used"});
    default: return "this group can no longer be used";
  }
}

TUTTI_INLINE void device_watch::forget_oldest() {
  while (true) {
    std::uint32_t const oldest = ages_.front();
    ages_.pop_front();
    watched_call& call = known_.at(oldest);
    if (!std::exchange(call.again, false)) {
      if (!call.captured) known_.erase(oldest);
      return;
    }
    ages_.push_back(oldest);
  }
}

}  // namespace tutti::detail
