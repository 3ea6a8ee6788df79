// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// elastic_power_sgd: means of gradients that are sent as products of narrow matrices, with a state that survives the loss of ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/reduce/binned.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/training/checkpoint/saved_array.hpp"
#include "tutti/training/elastic/shard_residuals.hpp"
#include "tutti/training/hooks/power_sgd.hpp"

namespace tutti::training {

// What power_sgd does for each rank, this does for each of a fixed number of shards of the data, whichever ranks have them. Messages
// are sums in tutti::binned, so the bits of the mean depend on the shards alone, not on the number of ranks.
//
// A gradient consists of matrices of the given shapes, one after another; all else is as with power_sgd, and as with elastic_feedback.
//
//   tutti::training::elastic_power_sgd compressed(12, {{10, 100}, {10}}, {.rank = 2});
//   ... std::vector{replicated("weights", weights), compressed.residuals(comm), compressed.factors()} ...
//
// Cost      two all_reduces, of rank rows (and what is not compressed) and of rank columns elements of 24 bytes; memory for
//           a gradient for each shard of this rank
class elastic_power_sgd {
 public:
  // Throws error: bad_argument if there are no shards, or the rank is zero.
  elastic_power_sgd(std::size_t shards, std::vector<std::vector<std::size_t>> const& shapes,
                    power_sgd_options const& options = {},
                    std::source_location where = std::source_location::current());

  // In a gradient.
  std::size_t values() const noexcept { return residuals_.values(); }

  // The arrays to list in the state of elastic_loop, or in that of checkpoints. As with elastic_feedback, residuals(comm) makes room
  // for the shards that this rank has now.
  template <class Transport>
  saved_array residuals(communicator<Transport>& comm, std::string name = "low-rank residuals") {
    return residuals_.describe(comm.rank(), comm.size(), std::move(name));
  }
  // As that of error_feedback, on all ranks.
  void rescale(double by) { residuals_.rescale(by); }
  saved_array factors(std::string name = "factors") { return replicated(std::move(name), factors_); }

  // As elastic_feedback::mean.
  template <class Transport, class Gradient>
  void mean(communicator<Transport>& comm, std::span<float> out, Gradient&& gradient_of,
            std::source_location where = std::source_location::current()) {
    residuals_.expect_ready(comm.rank(), comm.size(), out, where);
    begin_first();
    for (std::size_t k = 0; k < residuals_.own().count; ++k) {
      std::ranges::fill(out, 0.0f);
      gradient_of(residuals_.own().begin + k, out);
      add_first(k, out);
    }
    all_reduce(comm, sums_, sum{}, {}, where);
    begin_second();
    for (std::size_t k = 0; k < residuals_.own().count; ++k) add_second(k);
    all_reduce(comm, sums_, sum{}, {}, where);
    write_means(out);
  }

 private:
  struct matrix : tutti::detail::low_rank_message {
    std::size_t begin;                // of its elements, in a gradient
    std::size_t in_first, in_second;  // of its numbers, in the messages
  };

  void begin_first();
  void add_first(std::size_t k, std::span<float const> gradient);
  void begin_second();
  void add_second(std::size_t k);
  void write_means(std::span<float> out);
  // Adds what a shard has put into one_.
  void add_to_sums();
  // Means over the shards.
  void take_sums(std::span<float> out) const;

  power_sgd_options options_;
  std::vector<matrix> matrices_{};
  tutti::detail::shard_residuals residuals_;
  std::vector<float> factors_{};  // q of each matrix, the same on all ranks
  std::vector<float> first_{};    // p of each matrix, and what is not compressed
  std::vector<float> one_{};      // what a shard adds to a message
  std::vector<binned<float>> sums_{};
};

}  // namespace tutti::training

#if !defined(TUTTI_COMPILED)
#include "tutti/training/elastic/elastic_power_sgd_impl.hpp"
#endif
