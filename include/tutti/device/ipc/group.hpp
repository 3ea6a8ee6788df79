// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shared state of ranks that read each other's device memory: that memory, the board by which their streams
// synchronise, and its watch.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/call/check_arguments.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_or_none.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/unwinding.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/ipc/card.hpp"
#include "tutti/device/ipc/peer_memory.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/fault_copy.hpp"
#include "tutti/device/model/guarded_device.hpp"
#include "tutti/device/model/zeros.hpp"
#include "tutti/device/watch/board.hpp"
#include "tutti/device/watch/watch.hpp"

namespace tutti::detail {

template <sharing_device D, transport Transport>
class device_group {
 public:
  device_group(communicator<Transport>& comm, D const& on, std::size_t arena_bytes, std::source_location where)
      : comm_{comm},
        on_{on},
        peers_{comm, on, [this](std::source_location here) { watch_->expect_no_fault(here); }},
        arena_bytes_{arena_bytes} {
    device_card mine{.host = host_identity::of_this_process(), .process = ::getpid(), .arena_bytes = arena_bytes};
    if constexpr (cooperative_device<D>) mine.multiprocessors = on.multiprocessors();
    all_or_none(comm, "share its device", where, [&] {
      if (!is_possible_size<std::byte>(arena_bytes))
        throw error({.code = error_code::bad_argument,
                     .what = join({"an arena of ", arena_bytes, " bytes is larger than memory can be"}),
                     .way_out = "pass a smaller {.arena = ...}"});
      arena_memory_ = std::make_shared<device_array<D, std::byte> const>(on, head_bytes + arena_bytes);
      write_zeros(on, arena_memory_->data(), head_bytes, timeout());
      mine.arena = on.share(arena_memory_->data());
      if (comm.rank() != 0) return;
      memory_ = std::make_shared<device_board_memory const>(comm.size());
      mine.board = memory_->where();
      mine.own = &memory_;
    });
    auto const cards = exchange_cards(comm, mine, where);
    expect_one_host(comm.rank(), cards, where);
    multiprocessors_ = std::ranges::min(cards, {}, &device_card::multiprocessors).multiprocessors;
    if constexpr (streams_share_queues<D>) expect_own_queues(comm.rank(), cards, where);
    try {
      all_or_none(comm, "share its device", where, [&] {
        if (comm.rank() != 0) memory_ = find_board(mine, cards[0], comm.size());
        exposed_ = static_cast<std::byte*>(on.expose(memory_->base(), memory_->bytes()));
        for (int q = 0; q < comm.size(); ++q) {
          owners_.push_back(cards[static_cast<std::size_t>(q)].arena.owner);
          arena_at_.push_back(peers_.open(q, cards[static_cast<std::size_t>(q)].arena));
        }
        last_.emplace(on);
        std::vector<process_watch> watches(cards.size());
        for (std::size_t q = 0; q < cards.size(); ++q)
          if (cards[q].process != mine.process) watches[q].begin(static_cast<pid_t>(cards[q].process));
        watch_.emplace(board(), comm.rank(), std::move(watches));
      });
    } catch (...) {
      watch_.reset();
      hide_board();
      if (!peers_.close_all_at_all_ranks()) keep_until_the_process_ends(arena_memory_);
      throw;
    }
  }
  device_group(device_group const&) = delete;
  device_group& operator=(device_group const&) = delete;

  // Waits until the calls of this rank have ended and peers have read what they need. CUDA leaves it undefined to free
  // memory that another rank has open, so a rank frees nothing until all have closed their handles; a rank that cannot
  // close them does not announce that it has left.
  ~device_group() {
    device_board const all = board();
    int const rank = comm_.rank();
    if (unwinding_.begun()) give_up_calls();
    bool idle = wait_for([&] { return drained(); }, timeout());
    if (!idle) {
      all.raise({error_code::timeout, rank, rank,
                 join({"rank ", rank, " closed cuda_ipc, but its calls did not complete in time"})});
      idle = wait_for([&] { return drained(); }, std::chrono::seconds(1));
    }
    if (idle) {
      hide_board();
      peers_.close_all();
      all.rank(rank).status.store(presence::left);
    }
    // Ranks may not leave after a fault, which the watch may find while this rank waits.
    static_cast<void>(wait_for([&] { return all_have_left() || all.faulty(); }, timeout()));
    bool const alone =
        all_have_left() || (all.faulty() && wait_for([&] { return all_have_left(); }, std::chrono::seconds(1)));
    watch_.reset();
    if (!idle) keep_until_the_process_ends(memory_);
    if (idle && alone) return;
    keep_until_the_process_ends(arena_memory_);
    peers_.keep();
  }

  // Ends the calls of all ranks, because this one leaves its calls by an exception, unless it has none in flight.
  [[gnu::cold]] void give_up_calls() const noexcept {
    if (!has_windows_ && drained()) return;
    int const rank = comm_.rank();
    board().raise(
        {error_code::rank_left, rank, rank, join({"rank ", rank, " gave up its calls because of an exception"})});
  }

  device_board board() const { return {memory_->base(), comm_.size()}; }
  device_watch& watch() { return *watch_; }
  std::chrono::nanoseconds timeout_for(std::chrono::nanoseconds asked) const {
    return comm_.engine().timeout_for(asked);
  }
  std::chrono::nanoseconds timeout() const { return timeout_for({}); }
  // Whether every rank has a device of its own; the same answer at all ranks.
  bool own_devices() const {
    for (std::size_t a = 0; a < owners_.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (owners_[a] == owners_[b]) return false;
    return true;
  }
  // The fewest of all ranks.
  int multiprocessors() const { return multiprocessors_; }
  bool same_device(int q) const {
    return owners_[static_cast<std::size_t>(q)] == owners_[static_cast<std::size_t>(comm_.rank())];
  }

  // The arena of a rank, without its head.
  std::byte* arena(int q) const { return arena_at_[static_cast<std::size_t>(q)] + head_bytes; }
  std::size_t arena_bytes() const { return arena_bytes_; }

  // Other memory of the ranks.
  peer_memory<D, Transport>& memory() { return peers_; }
  peer_memory<D, Transport> const& memory() const { return peers_; }

  // The device address of a word of the board.
  std::uint32_t* on_device(std::atomic<std::uint32_t>& word) const {
    return reinterpret_cast<std::uint32_t*>(exposed_ + (reinterpret_cast<std::byte*>(&word) - memory_->base()));
  }
  guarded_device<D> guarded() const {
    device_board const all = board();
    auto const [launches, ended, seen] = counts();
    return {&on_, on_device(all.first_fault()), &seen->raised, launches, on_device(all.rank(comm_.rank()).beat)};
  }
  // In device memory: the numbers of launches, and of blocks that have finished the current one, and what is known of the fault word.
  struct launch_counts {
    std::uint32_t *launches, *ended;
    fault_copy* seen;
  };
  launch_counts counts() const {
    std::byte* const head = arena_memory_->data();
    auto* const words = reinterpret_cast<std::uint32_t*>(head);
    return {words, words + 1, reinterpret_cast<fault_copy*>(head + device_line)};
  }

  // Orders this call after the previous one, whatever their streams. Whoever launches a captured graph orders it.
  void order(stream_of<D> stream) {
    if (!on_.capturing(stream)) last_->before(stream);
  }
  void note_end(stream_of<D> stream) {
    if (!on_.capturing(stream)) last_->record(stream);
  }

  // Kernels of the program may wait for those of this rank, which counts them as given up if it leaves by an exception.
  void expect_kernels_of_windows() { has_windows_ = true; }

  // What every rank passes, at all ranks.
  template <class Card>
  std::vector<Card> exchange(Card const& mine, std::source_location where) {
    return exchange_cards(comm_, mine, where);
  }

 private:
  static constexpr std::size_t head_bytes = 256;  // for the counters

  void hide_board() noexcept {
    if (exposed_ != nullptr) on_.hide(memory_->base());
    exposed_ = nullptr;
  }

  bool drained() const noexcept {
    for (int q = 0; q < comm_.size(); ++q)
      if (board().between(comm_.rank(), q).unread.load() != 0) return false;
    try {
      return last_->reached();
    } catch (...) {  // nothing runs on that device any more
      return true;
    }
  }
  bool all_have_left() const noexcept {
    for (int q = 0; q < comm_.size(); ++q)
      if (board().rank(q).status.load() != presence::left) return false;
    return true;
  }
  template <class Ready>
  static bool wait_for(Ready const& ready, std::chrono::nanoseconds most) {
    return wait_until_done([&] { return ready() ? progress::done : progress::stuck; }, patience_sharing_cores,
                           deadline::after(most), sleep_for(nap_length));
  }

  communicator<Transport>& comm_;
  D const& on_;
  std::shared_ptr<device_array<D, std::byte> const> arena_memory_;
  std::shared_ptr<device_board_memory const> memory_;
  std::byte* exposed_ = nullptr;
  peer_memory<D, Transport> peers_;
  std::size_t arena_bytes_;
  std::vector<std::byte*> arena_at_;  // by rank
  std::vector<std::array<std::byte, 16>> owners_;
  int multiprocessors_ = 0;
  std::optional<device_event<D>> last_;  // the end of the last call
  bool has_windows_ = false;
  std::optional<device_watch> watch_;
  unwinding unwinding_;
};

}  // namespace tutti::detail
