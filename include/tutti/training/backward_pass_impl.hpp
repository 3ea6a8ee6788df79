// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/backward_pass.hpp.
#pragma once

#include <utility>

#include "tutti/call/communicator.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/backward_pass.hpp"

namespace tutti::detail {

TUTTI_INLINE backward_pass::backward_pass(std::vector<std::string> names, int rank)
    : names_(std::move(names)), rank_(rank) {}

TUTTI_INLINE void backward_pass::begin(training::bucket_plan const& plan) {
  bucket_of_.clear();
  for (auto const& place : plan.places) bucket_of_.push_back(place.bucket);
  left_.clear();
  for (auto const& bucket : plan.buckets) left_.push_back(bucket.parameters.size());
  reported_.assign(names_.size(), 0);
  used_.assign(names_.size(), 0);
  order_.clear();
  next_ = 0;
  ended_ = false;
}

TUTTI_INLINE void backward_pass::end() {
  next_ = left_.size();
  ended_ = true;
}

TUTTI_INLINE void backward_pass::expect_parameter(std::size_t parameter, std::source_location where) const {
  if (parameter >= names_.size())
    refuse(rank_, join({"there is no parameter ", parameter, ", only ", names_.size(), " parameters, numbered from 0"}),
           "pass the index of a parameter in the list that is trained", where);
}

TUTTI_INLINE void backward_pass::expect_no_reports(std::string_view call, std::source_location where) const {
  if (has_reports())
    refuse(rank_, join({call, " was called when gradients had already been reported ready"}),
           "call it before the first ready() of a step", where);
}

TUTTI_INLINE void backward_pass::report(std::size_t parameter, std::source_location where) {
  if (ended_)
    refuse(
        rank_,
        join({"the gradient of ", names_[parameter], " was reported ready after wait() had ended the backward pass"}),
        "report all gradients before the first wait(), and call finish() before the next pass", where);
  used_[parameter] = 1;
  if (accumulates()) return;
  if (reported_[parameter] != 0)
    refuse(rank_, join({"the gradient of ", names_[parameter], " was reported ready twice in one backward pass"}),
           "call finish() at the end of every pass; to add up the gradients of several, make all but the last within "
           "accumulate()",
           where);
  reported_[parameter] = 1;
  order_.push_back(parameter);
  --left_[bucket_of_[parameter]];
}

TUTTI_INLINE void backward_pass::expect_all(std::string_view call, std::source_location where) const {
  constexpr std::size_t listed = 8;
  std::string missing;
  std::size_t number = 0;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (used_[i] == 0 && ++number <= listed) missing += (missing.empty() ? "" : ", ") + names_[i];
  if (number == 0) return;
  if (number > listed) missing += join({" and ", number - listed, " others"});
  refuse(rank_, join({call, " was called, but no gradient was reported ready of ", missing}),
         "call ready() for each, or set find_unused if a step may leave some unused", where);
}

TUTTI_INLINE void backward_pass::expect_last(std::string_view call, std::source_location where) const {
  if (accumulates())
    refuse(rank_, join({call, " was called while gradients are accumulated"}),
           "destroy the object that accumulate() returned, then make the last backward pass", where);
}

TUTTI_INLINE void backward_pass::begin_accumulation(std::source_location where) {
  if (has_reports())
    refuse(rank_,
           order_.empty() ? "accumulate() was called between wait() and finish()"
                          : join({"accumulate() was called when the gradient of ", names_[order_.front()],
                                  " had already been reported ready for reduction"}),
           "call it before the first ready() of a step", where);
  ++accumulations_;
}

TUTTI_INLINE std::vector<std::size_t> backward_pass::observed_order(std::span<std::size_t const> before) const {
  std::vector<std::size_t> out = order_;
  for (std::size_t const parameter : before)
    if (reported_[parameter] == 0) out.push_back(parameter);
  return out;
}

}  // namespace tutti::detail
