// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which gradients of a step are ready, and which bucket is reduced next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/training/bucket_plan.hpp"

namespace tutti::detail {

// A bucket is full when all its gradients are ready. Full buckets are taken in the order of the plan, which is that of
// all ranks, whatever the order in which gradients become ready on each.
class backward_pass {
 public:
  // `names` are those of the parameters, for messages.
  backward_pass(std::vector<std::string> names, int rank);

  // Begins a step whose gradients are grouped in this way.
  void begin(training::bucket_plan const& plan);

  // The number of parameters.
  std::size_t number() const { return names_.size(); }
  // Throws bad_argument if there is no such parameter.
  void expect_parameter(std::size_t parameter, std::source_location where) const;
  // The gradient of a parameter is ready. While gradients are accumulated, this only records that it is used. Throws
  // bad_argument if it was reported before.
  void report(std::size_t parameter, std::source_location where);
  // Whether a gradient of this step is ready; and whether any was reported, also by a pass whose gradients stay on their rank.
  bool has_reports() const { return !order_.empty() || ended_; }
  // Throws bad_argument if one is ready. `call`: of the program.
  void expect_no_reports(std::string_view call, std::source_location where) const;
  bool has_begun() const { return std::ranges::find(used_, std::uint8_t{1}) != used_.end(); }
  bool next_is_full() const { return next_ < left_.size() && left_[next_] == 0; }
  bool all_taken() const { return next_ == left_.size(); }
  std::size_t take_next() { return next_++; }
  bool is_taken(std::size_t bucket) const { return bucket < next_; }
  std::size_t taken() const { return next_; }
  // The pass has ended: all buckets count as taken, and no further gradient may be reported.
  void end();
  bool has_ended() const { return ended_; }

  // Throws bad_argument with the names of all parameters that no pass of this step has reported. `call`: of the program.
  void expect_all(std::string_view call, std::source_location where) const;
  // Throws bad_argument while gradients are accumulated.
  void expect_last(std::string_view call, std::source_location where) const;

  // -- Passes whose gradients stay on their rank.
  void begin_accumulation(std::source_location where);
  void end_accumulation() { --accumulations_; }
  bool accumulates() const { return accumulations_ > 0; }

  std::string const& name(std::size_t parameter) const { return names_[parameter]; }
  // For each parameter whether any pass of this step has reported it: 1 or 0.
  std::vector<std::uint8_t>& used() { return used_; }
  // All parameters: those that were reported, in the order of their reports; then the others, as in `before`.
  std::vector<std::size_t> observed_order(std::span<std::size_t const> before) const;

 private:
  std::vector<std::string> names_;
  int rank_;
  std::vector<std::size_t> bucket_of_, left_;  // for each bucket the number of gradients that are not ready
  std::vector<std::uint8_t> reported_, used_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
  bool ended_ = false;
  int accumulations_ = 0;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/backward_pass_impl.hpp"
#endif
