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
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/ipc/meeting.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/guarded_device.hpp"
#include "tutti/device/watch/board.hpp"
#include "tutti/device/watch/symmetric_places.hpp"
#include "tutti/device/watch/watch.hpp"

namespace tutti::detail {

// Keeps memory that others may use as long as they live.
inline void keep_until_the_process_ends(std::shared_ptr<void const> memory) {
  static auto* const all = new std::vector<std::shared_ptr<void const>>;
  static std::mutex guard;
  std::lock_guard const lock(guard);
  all->push_back(std::move(memory));
}

template <sharing_device D, transport Transport>
class device_group {
 public:
  // Memory of this rank's device, and the addresses of the others' in this process.
  struct shared_memory {
    device_memory_handle own{};
    std::size_t bytes = 0;
    std::vector<std::byte*> at;  // by rank
  };

  device_group(communicator<Transport>& comm, D const& on, std::size_t arena_bytes, std::source_location where)
      : comm_{comm}, on_{on} {
    device_card mine{.host = host_identity::of_this_process(), .process = ::getpid(), .arena_bytes = arena_bytes};
    if constexpr (cooperative_device<D>) mine.multiprocessors = on.multiprocessors();
    all_or_none(comm, where, [&] {
      arena_memory_ = std::make_shared<device_array<D, std::byte> const>(on, head_bytes + arena_bytes);
      clear(arena_memory_->data(), head_bytes);
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
      all_or_none(comm, where, [&] {
        if (comm.rank() != 0) memory_ = find_board(mine, cards[0], comm.size());
        exposed_ = static_cast<std::byte*>(on.expose(memory_->base(), memory_->bytes()));
        arena_.own = mine.arena;
        arena_.bytes = arena_bytes;
        for (int q = 0; q < comm.size(); ++q) {
          owners_.push_back(cards[static_cast<std::size_t>(q)].arena.owner);
          arena_.at.push_back(open(q, cards[static_cast<std::size_t>(q)].arena));
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
      close_from(0);
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
    if (std::uncaught_exceptions() > 0 && (has_windows_ || !drained()))
      all.raise({static_cast<int>(error_code::rank_left), rank, rank,
                 join({"rank ", rank, " gave up its calls because of an exception"})});
    bool idle = wait_for([&] { return drained(); }, timeout());
    if (!idle) {
      all.raise({static_cast<int>(error_code::timeout), rank, rank,
                 join({"rank ", rank, " closed cuda_ipc, but its calls did not complete in time"})});
      idle = wait_for([&] { return drained(); }, std::chrono::seconds(1));
    }
    if (idle) {
      hide_board();
      close(0);
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
    for (auto& memory : owned_) keep_until_the_process_ends(std::move(memory));
  }

  device_board board() const { return {memory_->base(), comm_.size()}; }
  device_watch& watch() { return *watch_; }
  std::chrono::nanoseconds timeout() const { return comm_.engine().environment.timeout; }
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
  std::byte* arena(int q) const { return arena_.at[static_cast<std::size_t>(q)] + head_bytes; }
  std::size_t arena_bytes() const { return arena_.bytes; }

  // Gives this rank's memory zeros, and waits for that.
  void clear(std::byte* memory, std::size_t bytes) const {
    std::vector<std::byte> const zeros(bytes);
    on_.copy({}, memory, zeros.data(), bytes);
    on_.wait({}, deadline::after(timeout()));
  }

  // The device address of a word of the board.
  std::uint32_t* on_device(std::atomic<std::uint32_t>& word) const {
    return reinterpret_cast<std::uint32_t*>(exposed_ + (reinterpret_cast<std::byte*>(&word) - memory_->base()));
  }
  guarded_device<D> guarded() const {
    device_board const all = board();
    return {&on_, on_device(all.first_fault()), counts().launches, on_device(all.rank(comm_.rank()).beat)};
  }
  // Counters in device memory: launches, and blocks that have finished the current launch.
  struct launch_counts {
    std::uint32_t *launches, *ended;
  };
  launch_counts counts() const {
    auto* const words = reinterpret_cast<std::uint32_t*>(arena_memory_->data());
    return {words, words + 1};
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

  // -- Registered memory, which peers read in place. All ranks call these together.
  void share(void* memory, std::size_t bytes, std::source_location where) {
    registered_.push_back(shared(memory, bytes, where));
  }
  std::byte* allocate(std::size_t bytes, std::source_location where) {
    return allocate(bytes, [](std::byte*) {}, where)[static_cast<std::size_t>(comm_.rank())];
  }
  // Calls `prepare` with the memory before others can see it, and returns its address for each rank.
  template <class Prepare>
  std::vector<std::byte*> allocate(std::size_t bytes, Prepare const& prepare, std::source_location where) {
    registered_.push_back(add_prepared(bytes, prepare, where));
    return registered_.back().at;
  }
  // The same for memory that calls do not use in place.
  template <class Prepare>
  std::vector<std::byte*> add_memory(std::size_t bytes, Prepare const& prepare, std::source_location where) {
    return add_prepared(bytes, prepare, where).at;
  }
  // Memory that is not shared and lives until the last call has ended. No rank returns before all have theirs.
  std::byte* add_memory_at_all_ranks(std::size_t bytes, std::source_location where) {
    std::byte* own = nullptr;
    all_or_none(comm_, where, [&] { own = add_own_memory(bytes); });
    return own;
  }

  // Finds registered memory that contains these bytes.
  struct registered_place {
    shared_memory const* memory = nullptr;
    std::size_t index = 0, offset = 0;

    explicit operator bool() const { return memory != nullptr; }
    std::byte* at(int q) const { return memory->at[static_cast<std::size_t>(q)] + offset; }
    std::uint64_t word() const { return memory == nullptr ? 0 : detail::symmetric_place_word(index, offset); }
  };
  registered_place find_registered(void const* data, std::size_t bytes) const {
    auto const* const begin = static_cast<std::byte const*>(data);
    for (std::size_t i = 0; i < registered_.size(); ++i) {
      std::byte const* const base = static_cast<std::byte const*>(registered_[i].own.address);
      if (begin < base || begin + bytes > base + registered_[i].bytes) continue;
      return {&registered_[i], i, static_cast<std::size_t>(begin - base)};
    }
    return {};
  }

 private:
  std::byte* add_own_memory(std::size_t bytes) {
    owned_.push_back(std::make_shared<device_array<D, std::byte> const>(on_, bytes));
    return owned_.back()->data();
  }
  static constexpr std::size_t head_bytes = 256;  // for the counters

  struct opened {
    device_memory_handle handle;
    void* memory;
  };

  template <class Prepare>
  shared_memory add_prepared(std::size_t bytes, Prepare const& prepare, std::source_location where) {
    std::byte* own = nullptr;
    all_or_none(comm_, where, [&] {
      own = add_own_memory(bytes);
      prepare(own);
    });
    return shared(own, bytes, where);
  }
  shared_memory shared(void* memory, std::size_t bytes, std::source_location where) {
    struct card {
      device_memory_handle memory;
      std::size_t bytes;
    };
    watch_->expect_no_fault(where);
    shared_memory fresh;
    fresh.bytes = bytes;
    all_or_none(comm_, where, [&] { fresh.own = on_.share(memory); });
    auto const cards = exchange_cards(comm_, card{fresh.own, bytes}, where);
    for (std::size_t q = 0; q < cards.size(); ++q)
      if (cards[q].bytes != cards[0].bytes)
        refuse(comm_.rank(),
               join({"rank 0 registers ", cards[0].bytes, " bytes, rank ", q, " registers ", cards[q].bytes}),
               "register buffers of the same size at all ranks", where);
    std::size_t const before = opened_.size();
    try {
      all_or_none(comm_, where, [&] {
        for (int q = 0; q < comm_.size(); ++q) fresh.at.push_back(open(q, cards[static_cast<std::size_t>(q)].memory));
      });
    } catch (...) {
      close_from(before);
      throw;
    }
    return fresh;
  }
  std::byte* open(int q, device_memory_handle const& handle) {
    if (q == comm_.rank()) return static_cast<std::byte*>(handle.address);
    opened_.push_back({handle, on_.open(handle)});
    return static_cast<std::byte*>(opened_.back().memory);
  }
  void close(std::size_t first) noexcept {
    for (std::size_t i = first; i < opened_.size(); ++i) on_.close(opened_[i].handle, opened_[i].memory);
    opened_.resize(first);
  }
  // All ranks close the handles they opened since `first`, and may free their own memory afterwards.
  void close_from(std::size_t first) noexcept {
    close(first);
    try {
      exchange_cards(comm_, '\0', {});
    } catch (...) {  // the exception being thrown says more
    }
  }
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
                           deadline::after(most),
                           [](auto const&) {
                             std::this_thread::sleep_for(nap_length);
                             return true;
                           });
  }

  communicator<Transport>& comm_;
  D const& on_;
  std::shared_ptr<device_array<D, std::byte> const> arena_memory_;
  std::shared_ptr<device_board_memory const> memory_;
  std::byte* exposed_ = nullptr;
  std::vector<opened> opened_;
  shared_memory arena_;
  std::vector<std::array<std::byte, 16>> owners_;
  int multiprocessors_ = 0;
  std::vector<shared_memory> registered_;
  std::vector<std::shared_ptr<device_array<D, std::byte> const>> owned_;
  std::optional<device_event<D>> last_;  // the end of the last call
  bool has_windows_ = false;
  std::optional<device_watch> watch_;
};

}  // namespace tutti::detail
