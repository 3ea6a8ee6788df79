// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The members that a rank of elastic training has seen, and who is told of changes.
#pragma once

#include <atomic>
#include <cstdint>
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

  // Reports a change, if it is one. A negative number is that of a member which is not known yet.
  [[gnu::cold]] void note(int number, int rank, training::member_state now, std::string const& why);
  // By number.
  [[gnu::cold]] std::vector<training::member> members() const;
  // The numbers of those that have failed.
  [[gnu::cold]] std::vector<int> failed() const;

 private:
  std::function<void(training::transition const&)> const report_;
  mutable std::recursive_mutex talking_;  // the function that is called may ask for the members
  std::vector<training::member> members_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/elastic/roster_impl.hpp"
#endif
