// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All gradients of a model, in one array that is divided into buckets.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "tutti/call/communicator.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/peer_array.hpp"

namespace tutti::detail {

// Zero at first.
template <class T, class Transport>
class gradient_array {
 public:
  gradient_array() = default;
  gradient_array(communicator<Transport> const& comm, training::bucket_plan plan)
      : plan_(std::move(plan)), values_(comm, plan_.elements) {}

  training::bucket_plan const& plan() const noexcept { return plan_; }
  // The number of parameters.
  std::size_t size() const noexcept { return plan_.places.size(); }

  std::span<T> all() { return values_.all(); }
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
  peer_array<T, Transport> values_;
};

}  // namespace tutti::detail
