// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All gradients of a model, in one array that is divided into buckets.
#pragma once

#include <cstddef>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/training/bucket_plan.hpp"

namespace tutti::detail {

// Zero at first. Peers read it in place if the communicator has enough of such memory.
template <class T, class Transport>
class gradient_array {
 public:
  gradient_array() = default;
  gradient_array(communicator<Transport> const& comm, training::bucket_plan plan) : plan_(std::move(plan)) {
    try {
      shared_.emplace(comm.template allocate<T>(plan_.elements));
    } catch (std::bad_alloc const&) {
      own_.resize(plan_.elements);
    }
  }

  training::bucket_plan const& plan() const noexcept { return plan_; }
  // The number of parameters.
  std::size_t size() const noexcept { return plan_.places.size(); }

  std::span<T> all() { return shared_ ? std::span<T>(*shared_) : std::span<T>(own_); }
  std::span<T> of_parameter(std::size_t parameter) {
    auto const& place = plan_.places.at(parameter);
    return all().subspan(place.begin, place.count);
  }
  std::span<T> of_bucket(std::size_t index) {
    auto const& bucket = plan_.buckets[index];
    return all().subspan(bucket.begin, bucket.count);
  }

 private:
  training::bucket_plan plan_;
  std::optional<shared_array<T, Transport>> shared_;
  std::vector<T> own_;
};

}  // namespace tutti::detail
