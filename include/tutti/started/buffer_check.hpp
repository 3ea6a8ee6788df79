// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TUTTI_CHECK=buffers: checks that the program leaves the memory of started calls alone until they have ended.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/plan.hpp"

namespace tutti::detail {

// The memory of a call, checked each time that the call starts.
class buffers_in_use {
 public:
  buffers_in_use(std::string call, int rank, std::source_location where)
      : call_(std::move(call)), rank_(rank), where_(where) {}
  buffers_in_use(buffers_in_use const&) = delete;
  buffers_in_use& operator=(buffers_in_use const&) = delete;
  ~buffers_in_use() { leave(); }

  void reads(void const* data, std::size_t bytes) { add(reads_, data, bytes); }
  void writes(void const* data, std::size_t bytes) { add(writes_, data, bytes); }

  // Throws if a call in flight in this process uses the memory, unless both only read it.
  void begin() {
    std::lock_guard const lock(of_process().changes);
    for (buffers_in_use const* other : of_process().in_flight) {
      expect_apart(writes_, "writes", *other, other->writes_, "writes");
      expect_apart(writes_, "writes", *other, other->reads_, "reads");
      expect_apart(reads_, "reads", *other, other->writes_, "writes");
    }
    of_process().in_flight.push_back(this);
    sum_ = sum_of_inputs();
  }
  // The error of the call if an input has changed meanwhile.
  std::exception_ptr end() noexcept {
    leave();
    if (sum_of_inputs() == sum_) return nullptr;
    return std::make_exception_ptr(
        error({.code = error_code::buffer_in_use,
               .rank = rank_,
               .what = join({"an input of ", call_, " was changed before the call had ended"}),
               .way_out = "do not write to it until wait() has returned or test() returns true",
               .where = where_}));
  }
  void leave() noexcept {
    std::lock_guard const lock(of_process().changes);
    std::erase(of_process().in_flight, this);
  }

 private:
  struct memory {
    std::byte const* begin;
    std::byte const* end;
    bool overlaps(memory const& other) const { return begin < other.end && other.begin < end; }
  };
  using memories = std::vector<memory>;

  struct list {
    std::mutex changes;
    std::vector<buffers_in_use const*> in_flight;
  };
  static list& of_process() {
    static list* const all = new list;  // some communicators end with the process
    return *all;
  }

  static void add(memories& to, void const* data, std::size_t bytes) {
    auto const* const begin = static_cast<std::byte const*>(data);
    if (begin != nullptr && bytes > 0) to.push_back({begin, begin + bytes});
  }

  void expect_apart(memories const& own, char const* verb, buffers_in_use const& other, memories const& others,
                    char const* its_verb) const {
    for (memory const& mine : own)
      for (memory const& its : others)
        if (mine.overlaps(its))
          throw error({.code = error_code::buffer_in_use,
                       .rank = rank_,
                       .what = join({call_, " ", verb, " memory that ", other.call_, ", started on rank ", other.rank_,
                                     " at ", other.where_.file_name(), ":", other.where_.line(), ", ", its_verb,
                                     " and is still using"}),
                       .way_out = "wait for that call first, or use other memory",
                       .where = where_});
  }

  // A checksum of the inputs, except for memory that this call writes itself.
  std::uint64_t sum_of_inputs() const noexcept {
    std::uint64_t sum = 0;
    for (memory const& in : reads_) {
      if (std::any_of(writes_.begin(), writes_.end(), [&](memory const& out) { return out.overlaps(in); })) continue;
      for (std::byte const* at = in.begin; at < in.end; at += sizeof sum) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, std::min(sizeof word, static_cast<std::size_t>(in.end - at)));
        sum = mix(sum, word);
      }
    }
    return sum;
  }

  std::string call_;
  int rank_;
  std::source_location where_;
  memories reads_, writes_;
  std::uint64_t sum_ = 0;
};

}  // namespace tutti::detail
