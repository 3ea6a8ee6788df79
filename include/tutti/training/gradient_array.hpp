// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All gradients of a model, in one array that is divided into buckets.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/training/bucket.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/parameter.hpp"
#include "tutti/training/peer_array.hpp"

namespace tutti::detail {

// Zero at first.
template <class T, class Transport>
class gradient_array {
 public:
  gradient_array() = default;
  // `shapes`: of each parameter, at least one extent each; they must outlive this object. `order` and `others`: as for
  // plan_buckets.
  gradient_array(communicator<Transport> const& comm, std::span<std::size_t const> order,
                 std::span<std::vector<std::size_t> const> shapes, training::bucket_sizes const& sizes,
                 std::span<training::bucket_sizes const> others)
      : plan_(training::plan_buckets(counts_of(shapes), order, sizes, sizeof(T), others)),
        values_(comm, plan_.elements) {
    list_parts(shapes);
  }

  // Divides the gradients into other buckets; they stay where they are. All arguments but `sizes` are those of before, and these are
  // among the others.
  void divide(std::span<std::size_t const> order, std::span<std::vector<std::size_t> const> shapes,
              training::bucket_sizes const& sizes, std::span<training::bucket_sizes const> others) {
    plan_ = training::plan_buckets(counts_of(shapes), order, sizes, sizeof(T), others);
    list_parts(shapes);
  }

  training::bucket_plan const& plan() const noexcept { return plan_; }
  // The number of parameters.
  std::size_t size() const noexcept { return plan_.places.size(); }

  std::span<T> all() { return values_.all(); }
  std::span<T> of_parameter(std::size_t parameter) {
    auto const& place = plan_.places.at(parameter);
    return all().subspan(place.begin, place.count);
  }
  // `where`: the program's call that needs it.
  training::bucket<T> of_bucket(std::size_t index, std::source_location where) {
    auto const& bucket = plan_.buckets[index];
    return {index, all().subspan(bucket.begin, bucket.count), parts_[index], where};
  }

 private:
  static std::vector<std::size_t> counts_of(std::span<std::vector<std::size_t> const> shapes) {
    std::vector<std::size_t> out;
    for (auto const& shape : shapes) out.push_back(elements_of_shape(shape));
    return out;
  }
  void list_parts(std::span<std::vector<std::size_t> const> shapes) {
    parts_.clear();
    for (auto const& b : plan_.buckets) {
      auto& parts = parts_.emplace_back();
      for (std::size_t const i : b.parameters) parts.push_back({i, of_parameter(i), shapes[i]});
    }
  }

  training::bucket_plan plan_;
  peer_array<T, Transport> values_;
  std::vector<std::vector<training::bucket_part<T>>> parts_;  // of each bucket
};

}  // namespace tutti::detail
