// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The members that a rank of elastic training has seen, which of them are ranks, and who is told of changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tutti/training/elastic/member.hpp"

namespace tutti::detail {

// Two threads use it: that of the loop, and the one that watches for ranks that keep others waiting.
class roster {
 public:
  explicit roster(std::function<void(training::transition const&)> report) : report_(std::move(report)) {}

  std::atomic<std::uint64_t> completed = 0;  // steps of this rank

  // Reports a change, if it is one. What the function that is told throws is kept for expect_reported().
  [[gnu::cold]] void note(int number, int rank, training::member_state now, std::string const& why);

  // Throws what a report has thrown since the last call.
  [[gnu::cold]] void expect_reported();

  // -- The ranks, by the numbers of their members. A new rank does not know those of the others until it has met them.

  std::vector<int> const& numbers() const { return numbers_; }
  // Ranks that are numbered as they are.
  [[gnu::cold]] void begin(int ranks);
  // After them come those that are about to receive the state.
  [[gnu::cold]] void append(std::vector<int> const& numbers);
  // All take part.
  [[gnu::cold]] void welcome(std::vector<int> numbers);
  // `survivors`: the ranks that are left, in order. `why`: what this rank has caught, if anything.
  [[gnu::cold]] void lose_all_but(std::vector<int> const& survivors, std::exception_ptr const& why);
  [[gnu::cold]] void suspect(int rank, bool suspected);

  // -- All members.

  // By number.
  [[gnu::cold]] std::vector<training::member> members() const;
  // The numbers of those that have failed.
  [[gnu::cold]] std::vector<int> failed() const;

 private:
  void set_numbers(std::vector<int> numbers);

  std::function<void(training::transition const&)> const report_;
  mutable std::recursive_mutex talking_;  // the function that is called may ask for the members
  std::vector<training::member> members_;
  std::vector<int> numbers_;    // by rank
  std::exception_ptr trouble_;  // the first of the reports
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/elastic/roster_impl.hpp"
#endif
