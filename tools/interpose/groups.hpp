// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The groups among the ranks of one machine: their memory, and a directory in shared memory where members find it. Nobody
// waits for another member, so a rank may join in a call that must not wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "room_shm.hpp"

namespace interpose {

class groups {
 public:
  // Addresses that are valid at all ranks.
  using address = std::uint64_t;

  // On one rank of the machine: makes an empty directory. The others get its address.
  static address make_directory(room_shm& machine);

  groups(room_shm& machine, address made) : machine_(machine), directory_(made) {}
  groups(groups const&) = delete;
  groups& operator=(groups const&) = delete;

  // This rank's place in a group, which it leaves at the end. Its transport must be gone by then.
  class membership {
   public:
    membership() = default;
    membership(groups& all, address group) : all_(&all), group_(group) {}
    membership(membership&& other) noexcept : all_(std::exchange(other.all_, nullptr)), group_(other.group_) {}
    membership& operator=(membership&& other) noexcept {
      std::swap(all_, other.all_);
      std::swap(group_, other.group_);
      return *this;
    }
    ~membership() {
      if (all_ != nullptr) all_->leave(group_);
    }

    explicit operator bool() const { return all_ != nullptr; }
    std::unique_ptr<room_shm> enter(std::vector<int> const& members) const;

   private:
    groups* all_ = nullptr;
    address group_ = 0;
  };

  // Joins the group of this identity, which only its members know; the first of them makes its memory. Returns nothing, at
  // all members alike, if there was no memory for it: no group is made after that.
  // Throws tutti::error if a rank ended while it held the lock of the directory.
  membership join(std::uint64_t identity, std::vector<int> const& members);

  // Whether no rank has called it before.
  bool is_first_notice();
  // Whether no rank has called it with this number within the last 10 s. The number is less than 16.
  bool is_first_report(int kind);

 private:
  struct group;
  struct directory;
  class lock;

  // An object in shared memory.
  template <class T>
  T& at(address place) const {
    return *reinterpret_cast<T*>(const_cast<std::byte*>(machine_.at_shared_address(place)));
  }
  // The word that refers to the group of this identity, or to nothing if there is none.
  address& find(std::uint64_t identity) const;
  // The word that refers to the groups that a rank made and has to free.
  address& ended_of(std::uint32_t maker) const;
  bool make(address& place, std::uint64_t identity, std::vector<int> const& members);
  void leave(address group) noexcept;
  // Frees the memory of groups that this rank made and all members have left.
  void clean_up() noexcept;

  room_shm& machine_;
  address directory_;
  std::mutex threads_;
};

}  // namespace interpose
