// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// power_sgd: a hook that sends gradients of matrices as products of two narrow ones.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/bucket.hpp"
#include "tutti/training/hooks/low_rank.hpp"

namespace tutti::training {

// The same on all ranks.
struct power_sgd_options {
  std::size_t rank = 1;    // of the products
  std::uint64_t seed = 1;  // of the first q of each matrix
};

// Every rank adds to its gradient m, a matrix, what it could not send before (the residual). The mean of all m travels as
// a product p transposed(q), with `rank` columns each:
//
//   p = the mean of m q, orthonormalised      q is that of the last step (warm start), made orthonormal
//   q = the mean of transposed(m) p
//
// This is one step of a power iteration for the greatest singular values of the mean of all m. (Vogels, Karimireddy and
// Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization", NeurIPS 2019, algorithms 1 and 2.)
//
// A parameter of shape {a, b, c...} is a matrix of a rows and b c... columns. It is sent as it is, in the message of the p,
// if that takes no more numbers: rank (rows + columns) >= rows columns; so is one without a shape.
//
// Gradients are float. A single rank sends nothing and rounds nothing. All ranks orthonormalise the same bits, so all have
// the same bits. The state belongs to parameters, not to buckets: it remains when the buckets are rebuilt.
//
// Residual and what was sent add up to m, up to rounding: each element within rank 2^-23 times the norm of its column. What
// this rank has sent is the product with its own q; the mean of all these is the product that all ranks get. The residual
// is m without its part in the span of p, so its norm is at most that of m. (PyTorch subtracts the product with the mean q.
// The mean of residuals is the same, hence also the training, but theirs contain the differences between ranks.) Where a
// residual is no number (NaN, infinity) it is zero.
//
// Cost      all_reduces of rank rows (and what is not compressed) and of rank columns numbers; about 8 rank operations
//           and four passes over memory for each element. The second one starts in finish().
//
//   tutti::training::data_parallel model(comm, parameters, {}, tutti::training::power_sgd({.rank = 2}));
class power_sgd {
 public:
  // Throws bad_argument if the rank is zero.
  explicit power_sgd(power_sgd_options const& options = {},
                     std::source_location where = std::source_location::current());

  template <class T, class Transport>
  work operator()(bucket<T> const& some, communicator<Transport>& comm) {
    static_assert(std::same_as<T, float>,
                  "power_sgd compresses gradients of type float; use another hook for other types");
    if (comm.size() == 1) return {};
    return all_reduce(async(comm), first_message(some, comm.rank()), mean{}, {}, some.where);
  }
  template <class Transport>
  work second_round(bucket<float> const& some, communicator<Transport>& comm) {
    if (comm.size() == 1) return {};
    std::span<float> const message = second_message(some);
    if (message.empty()) return {};
    return all_reduce(async(comm), message, mean{}, {}, some.where).then([this, some] { write_means(some); });
  }
  void take_back(bucket<float> const& unused);
  std::size_t message_bytes(bucket<float> const& some) const;

  // What a checkpoint stores for each parameter; both are empty for one that is not compressed.
  struct matrix_state {
    std::vector<float> residual{};  // what this rank has not sent yet
    std::vector<float> q{};         // the same on all ranks

    friend bool operator==(matrix_state const&, matrix_state const&) = default;
  };
  std::vector<matrix_state> const& state() const noexcept { return matrices_; }
  // To continue from a checkpoint, make the model with the same parameters, and restore this before the first step. The
  // bits are those of a run without interruption if the buckets are the same, as with rebuild = false.
  void restore(std::vector<matrix_state> saved) { matrices_ = std::move(saved); }
  // As that of error_feedback.
  void rescale(double by);

 private:
  struct messages {
    std::vector<float> first{}, second{};  // they must stay until their call has ended
  };

  tutti::detail::low_rank_message message_of(bucket_part<float> const& part) const;
  // Calls f(part, its part of the first message, its part of the second) for each gradient of the bucket.
  template <class F>
  void for_each_part(bucket<float> const& some, F&& f);

  matrix_state& state_of(bucket_part<float> const& part, int rank, std::source_location where);
  // What the calls reduce. The second also writes the means that the first has brought.
  std::span<float> first_message(bucket<float> const& some, int rank);
  std::span<float> second_message(bucket<float> const& some);
  // When the second has been reduced.
  void write_means(bucket<float> const& some);

  power_sgd_options options_;
  std::vector<matrix_state> matrices_;  // of each parameter
  std::vector<messages> messages_;      // of each bucket
};

}  // namespace tutti::training

#if !defined(TUTTI_COMPILED)
#include "tutti/training/hooks/power_sgd_impl.hpp"
#endif
