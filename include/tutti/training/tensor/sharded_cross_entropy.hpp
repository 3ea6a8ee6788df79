// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sharded_cross_entropy: softmax and cross entropy of logits whose classes are divided among ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <ranges>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/training/tensor/sharded_dimension.hpp"
#include "tutti/training/tensor/sharded_words.hpp"
#include "tutti/training/tensor/tensor_parallel.hpp"

namespace tutti::training {

// Rows of logits, one for each class, of which rank r has the columns part(classes, p, r): what a linear layer returns whose
// columns are divided. The logits stay where they are, and only three numbers per row travel.
//
// Each rank passes    `logits`, rows x its own classes, row-major, float or double; `targets`, the class of each row, from
//                     0 to classes - 1, the same on all ranks; `losses`, one for each row
// Bits                all ranks get the same. Exponentials are those of a single process, and are added up in double, so the
//                     sums differ from its own by at most 2^-52 x classes, relatively: the losses and probabilities by
//                     their last bit, if they are float.
// Throws              error: bad_argument for a target that is no class, or an array of another size, before any
//                     communication; and as all_reduce
// Cost                forward an all_reduce of rows elements (max) and one of 2 x rows doubles; backward nothing
// Source              Shoeybi et al. 2019, see tensor_parallel.hpp
//
//   sharded_cross_entropy const loss{.classes = 50257};
//   loss.forward(group, logits, targets, losses);            // logits become probabilities
//   loss.backward(group, logits, targets, losses_gradient);  // and then gradients
struct sharded_cross_entropy {
  std::size_t classes;

  // losses[i] = log of the sum of exp(logits[i][k]) over all k, less logits[i][targets[i]]. Replaces the logits by
  // probabilities, exp(logits[i][k]) divided by that sum. A row with a NaN has a loss of NaN.
  template <class Transport, std::ranges::contiguous_range Logits, std::ranges::contiguous_range Targets,
            std::ranges::contiguous_range Losses>
  void forward(communicator<Transport>& group, Logits&& logits, Targets const& targets, Losses&& losses,
               std::source_location where = std::source_location::current()) const {
    using T = detail::element_of_array<Logits>;
    static_assert(std::floating_point<T>, "logits are float or double; convert narrower types first");
    std::span<T> const values(logits), out(losses);
    std::size_t const rows = out.size();
    extent const own = expect_sizes(group, values.size(), detail::span_of_words(targets), rows, where);
    auto const row = [&](std::size_t i) { return values.subspan(i * own.count, own.count); };

    std::vector<T> greatest(rows, -std::numeric_limits<T>::infinity());
    for (std::size_t i = 0; i < rows; ++i)
      for (T const x : row(i)) greatest[i] = std::max(greatest[i], x);
    all_reduce(group, greatest, max{}, {}, where);

    std::vector<double> found(2 * rows);  // the sums of all rows, and the logits of their targets, from one rank each
    std::span const sums(found.data(), rows), of_targets(found.data() + rows, rows);
    detail::for_each_own_word(own, detail::span_of_words(targets), [&](std::size_t i, std::size_t k) {
      of_targets[i] = static_cast<double>(row(i)[k]) - static_cast<double>(greatest[i]);
    });
    for (std::size_t i = 0; i < rows; ++i)
      for (T& x : row(i)) {
        x = std::exp(x - greatest[i]);
        sums[i] += static_cast<double>(x);
      }
    all_reduce(group, found, sum{}, {}, where);

    for (std::size_t i = 0; i < rows; ++i) {
      out[i] = static_cast<T>(std::log(sums[i]) - of_targets[i]);
      for (T& x : row(i)) x = static_cast<T>(static_cast<double>(x) / sums[i]);
    }
  }

  // Replaces the probabilities, which forward() has left, by the gradient with respect to the logits, given that with respect
  // to the loss of each row.
  template <class Comm, std::ranges::contiguous_range Logits, std::ranges::contiguous_range Targets,
            std::ranges::contiguous_range Losses>
  void backward(Comm const& group, Logits&& probabilities, Targets const& targets, Losses const& losses_gradient,
                std::source_location where = std::source_location::current()) const {
    using T = detail::element_of_array<Logits>;
    std::span<T> const values(probabilities);
    std::span<T const> const scales(losses_gradient);
    extent const own = expect_sizes(group, values.size(), detail::span_of_words(targets), scales.size(), where);
    detail::for_each_own_word(own, detail::span_of_words(targets),
                              [&](std::size_t i, std::size_t k) { values[i * own.count + k] -= 1; });
    for (std::size_t i = 0; i < scales.size(); ++i)
      for (T& x : values.subspan(i * own.count, own.count)) x *= scales[i];
  }

 private:
  // The classes whose logits this rank has.
  template <class Comm, class I>
  extent expect_sizes(Comm const& group, std::size_t logits, std::span<I const> targets, std::size_t losses,
                      std::source_location where) const {
    extent const own = part(classes, group.size(), group.rank());
    detail::expect_size(logits, targets.size(), own.count, "this rank's logits", group.rank(), where);
    detail::expect_size(losses, targets.size(), 1, "the losses", group.rank(), where);
    detail::expect_words(targets, classes, "target", "classes", group.rank(), where);
    return own;
  }
};

}  // namespace tutti::training
