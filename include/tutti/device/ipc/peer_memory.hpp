// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of the devices of ranks that peers have opened and read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_or_none.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/growth.hpp"
#include "tutti/device/watch/symmetric_places.hpp"

namespace tutti::detail {

// Keeps memory that others may use as long as they live.
inline void keep_until_the_process_ends(std::shared_ptr<void const> memory) {
  static auto* const all = new std::vector<std::shared_ptr<void const>>;
  static std::mutex guard;
  std::lock_guard const lock(guard);
  all->push_back(std::move(memory));
}

template <class D>
struct team_memory_type {
  using type = void;
};
template <teaming_device D>
struct team_memory_type<D> {
  using type = typename decltype(std::declval<D const&>().make_team_memory(0, 0, 0))::element_type;
};

// Its owner destroys it once all ranks have closed what they had opened, or calls keep().
template <sharing_device D, transport Transport>
class peer_memory {
 public:
  // Memory of this rank's device, and the addresses of the others' in this process.
  struct shared_memory {
    device_memory_handle own{};
    std::size_t bytes = 0;
    std::vector<std::byte*> at;       // by rank
    std::byte* everywhere = nullptr;  // the address of all at once, if a switch combines them
  };

  // `expect_usable`: throws if the ranks have a fault.
  peer_memory(communicator<Transport>& comm, D const& on, std::function<void(std::source_location)> expect_usable)
      : comm_{comm}, on_{on}, expect_usable_{std::move(expect_usable)} {}
  peer_memory(peer_memory const&) = delete;
  peer_memory& operator=(peer_memory const&) = delete;

  // -- Each rank calls these on its own.
  std::byte* open(int q, device_memory_handle const& handle) {
    if (q == comm_.rank()) return static_cast<std::byte*>(handle.address);
    opened_.push_back({handle, on_.open(handle)});
    return static_cast<std::byte*>(opened_.back().memory);
  }
  void close_all() noexcept {
    close(0);
    if constexpr (teaming_device<D>)
      for (auto const& team : teams_) team->close();
  }
  // Own memory lives until the process ends.
  void keep() {
    for (auto& memory : owned_) keep_until_the_process_ends(std::move(memory));
    for (auto& memory : teams_) keep_until_the_process_ends(std::move(memory));
    for (auto& memory : growing_) memory.hand_over(keep_until_the_process_ends);
  }

  // -- All ranks call these together.
  // All close what they have opened. Returns whether all have, so that each may free its own memory.
  [[nodiscard]] bool close_all_at_all_ranks() noexcept { return close_from(0); }
  // Registers memory, which peers then read in place. It may be null if `bytes` is 0.
  void share(void* memory, std::size_t bytes, std::source_location where) {
    expect_same_size(bytes, where);
    if (bytes > 0) registered_.push_back(shared(memory, bytes, where));
  }
  // Allocates such memory.
  std::byte* allocate(std::size_t bytes, std::source_location where) {
    expect_same_size(bytes, where);
    if constexpr (teaming_device<D>)
      if (why_no_team_.empty() && bytes > 0 && add_team(bytes, where))
        return static_cast<std::byte*>(registered_.back().own.address);
    registered_.push_back(add_prepared(bytes, [](std::byte*) {}, where));
    return registered_.back().at[static_cast<std::size_t>(comm_.rank())];
  }
  // Whether a switch combines such memory, and why not; neither if none has been allocated yet.
  bool asks_switch() const { return !teams_.empty(); }
  std::string const& why_no_team() const { return why_no_team_; }
  // Calls `prepare` with the memory before others can see it, and returns its address for each rank.
  template <class Prepare>
  std::vector<std::byte*> allocate(std::size_t bytes, Prepare const& prepare, std::source_location where) {
    expect_same_size(bytes, where);
    registered_.push_back(add_prepared(bytes, prepare, where));
    return registered_.back().at;
  }
  // The same for memory that calls do not use in place.
  template <class Prepare>
  std::vector<std::byte*> add(std::size_t bytes, Prepare const& prepare, std::source_location where) {
    expect_same_size(bytes, where);
    return add_prepared(bytes, prepare, where).at;
  }
  // Memory that is not shared and lives until the last call has ended, of the same size at all ranks.
  growing_memory<D>& add_growing() { return growing_.emplace_back(on_); }
  std::byte* grow(growing_memory<D>& memory, std::size_t bytes, std::source_location where) {
    return memory.get(bytes, [&](function_ref<void()> allocate) {
      all_or_none(comm_, "allocate memory for a call", where, allocate);
    });
  }

  // Finds registered memory that contains these bytes.
  struct registered_place {
    shared_memory const* memory = nullptr;
    std::size_t index = 0, offset = 0;

    explicit operator bool() const { return memory != nullptr; }
    std::byte* at(int q) const { return memory->at[static_cast<std::size_t>(q)] + offset; }
    std::byte* everywhere() const {
      return memory == nullptr || memory->everywhere == nullptr ? nullptr : memory->everywhere + offset;
    }
    std::uint64_t word() const { return memory == nullptr ? 0 : numbered_place{index, offset}.word(); }
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
  using team_memory = typename team_memory_type<D>::type;

  struct opened {
    device_memory_handle handle;
    void* memory;
  };

  // Memory that a switch combines. If that cannot be had, no rank tries again.
  bool add_team(std::size_t bytes, std::source_location where) {
    auto const fresh = on_.make_team_memory(comm_.rank(), comm_.size(), bytes);
    deadline const until = deadline::after(comm_.engine().environment.timeout);
    first_failure failed;
    auto const at_all = [&](auto const& attempt) {
      failed = try_everywhere(comm_, where, attempt);
      return !failed;
    };
    try {
      typename team_memory::card mine{};
      bool made = at_all([&] {
        // Opt-in (TUTTI_NVLS=1): this path has not been tested on hardware with an NVLink switch.
        if (!comm_.engine().environment.sums_in_switch)
          throw error({.code = error_code::system, .what = "TUTTI_NVLS is not 1", .way_out = "set it"});
        mine = fresh->begin();
      });
      if (made) {
        auto const cards = exchange_cards(comm_, mine, where);
        made = at_all([&] { fresh->join(cards, until); }) && at_all([&] { fresh->bind(); }) &&
               at_all([&] { fresh->open(until); });
      }
      if (!made) {
        why_no_team_ = join({"rank ", failed.rank, " cannot share memory that a switch combines: ", failed.what});
        fresh->close();
        exchange_cards(comm_, '\0', where);  // all have closed before any frees its memory
        return false;
      }
    } catch (...) {  // others may be gone already
      keep_until_the_process_ends(fresh);
      throw;
    }
    shared_memory added;
    added.own.address = fresh->at()[static_cast<std::size_t>(comm_.rank())];
    added.bytes = bytes;
    added.at = fresh->at();
    added.everywhere = fresh->everywhere();
    registered_.push_back(std::move(added));
    teams_.push_back(fresh);
    return true;
  }

  using owned_memory = std::shared_ptr<device_array<D, std::byte> const>;

  void expect_same_size(std::size_t bytes, std::source_location where) {
    expect_usable_(where);
    auto const all = exchange_cards(comm_, bytes, where);
    for (std::size_t q = 0; q < all.size(); ++q)
      if (all[q] != all[0])
        refuse(comm_.rank(), join({"rank 0 registers ", all[0], " bytes, rank ", q, " registers ", all[q]}),
               "register buffers of the same size at all ranks", where);
  }
  template <class Prepare>
  shared_memory add_prepared(std::size_t bytes, Prepare const& prepare, std::source_location where) {
    owned_memory fresh;  // if one rank cannot have it, none keeps any
    all_or_none(comm_, "share its device", where, [&] {
      fresh = std::make_shared<device_array<D, std::byte> const>(on_, bytes);
      prepare(fresh->data());
    });
    shared_memory out = shared(fresh->data(), bytes, where, fresh);
    owned_.push_back(fresh);
    return out;
  }
  // `owner`: of the memory. If this fails while others may have it open, it is kept until the process ends.
  shared_memory shared(void* memory, std::size_t bytes, std::source_location where, owned_memory const& owner = {}) {
    shared_memory fresh;
    fresh.bytes = bytes;
    all_or_none(comm_, "share its device", where, [&] { fresh.own = on_.share(memory); });
    std::size_t const before = opened_.size();
    try {
      auto const handles = exchange_cards(comm_, fresh.own, where);
      all_or_none(comm_, "share its device", where, [&] {
        for (int q = 0; q < comm_.size(); ++q) fresh.at.push_back(open(q, handles[static_cast<std::size_t>(q)]));
      });
    } catch (...) {
      if (!close_from(before) && owner) keep_until_the_process_ends(owner);
      throw;
    }
    return fresh;
  }
  void close(std::size_t first) noexcept {
    for (std::size_t i = first; i < opened_.size(); ++i) on_.close(opened_[i].handle, opened_[i].memory);
    opened_.resize(first);
  }
  // All ranks close the handles they opened since `first`. Returns whether all have.
  bool close_from(std::size_t first) noexcept {
    close(first);
    try {
      exchange_cards(comm_, '\0', {});
      return true;
    } catch (...) {  // the exception being thrown says more
      return false;
    }
  }

  communicator<Transport>& comm_;
  D const& on_;
  std::function<void(std::source_location)> expect_usable_;
  std::vector<opened> opened_;
  std::vector<shared_memory> registered_;
  std::vector<owned_memory> owned_;
  std::list<growing_memory<D>> growing_;
  std::vector<std::shared_ptr<team_memory>> teams_;
  std::string why_no_team_;
};

}  // namespace tutti::detail
