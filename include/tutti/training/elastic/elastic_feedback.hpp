// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// elastic_feedback: means of gradients that a lossy codec compresses, with residuals that survive the loss of ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/training/checkpoint/saved_array.hpp"
#include "tutti/training/elastic/shard_residuals.hpp"
#include "tutti/training/hooks/codecs.hpp"
#include "tutti/training/hooks/residual.hpp"

namespace tutti::training {

// What error_feedback does for each rank, this does for each of a fixed number of shards of the data, whichever ranks have them. The
// gradient of a shard, plus what it could not send before (the residual), is encoded, and all ranks decode all messages and add
// them up in the order of shards. So the bits of the mean depend on the shards alone, not on the number of ranks, and the state
// that a lost rank takes along is a part of an array that is divided, of which the next rank has a copy.
//
//   tutti::training::elastic_feedback compressed(12, weights.size(), tutti::training::top_k{.share = 0.01});
//   loop.run(
//       1000, [&](auto& comm) { return std::vector{replicated("weights", weights), compressed.residuals(comm)}; },
//       [&](auto& comm, std::uint64_t step) {
//         compressed.mean(comm, mean, [&](std::size_t shard, std::span<float> gradient) { ... });
//       });
//
// Cost      an all_gather_v of codec.message_bytes(n) for each shard, and as many decodings of n values on each rank; memory for n
//           values for each shard of this rank. A single rank compresses too, so that it computes the same.
template <gradient_codec Codec>
class elastic_feedback {
 public:
  // `values`: in a gradient. Throws error: bad_argument if there are no shards.
  elastic_feedback(std::size_t shards, std::size_t values, Codec codec = {},
                   std::source_location where = std::source_location::current())
      : residuals_(shards, values, where), codec_(std::move(codec)) {}

  // The array to list in the state of elastic_loop, or in that of checkpoints. Makes room for the shards that this rank has now,
  // which are tutti::part(shards, comm.size(), comm.rank()). A loop or checkpoint restores its values; they are zero at the start.
  template <class Transport>
  saved_array residuals(communicator<Transport>& comm, std::string name = "residuals") {
    return residuals_.describe(comm.rank(), comm.size(), std::move(name));
  }
  // As that of error_feedback, on all ranks.
  void rescale(double by) { residuals_.rescale(by); }

  // Collective. Writes the mean over all shards to `out`, the same bits on all ranks. Calls gradient_of(shard, gradient) for each shard
  // of this rank, which adds its gradient to zeros. Throws error: bad_argument unless residuals(comm) was called for these ranks.
  template <class Transport, class Gradient>
  void mean(communicator<Transport>& comm, std::span<float> out, Gradient&& gradient_of,
            std::source_location where = std::source_location::current()) {
    residuals_.expect_ready(comm.rank(), comm.size(), out, where);
    std::size_t const bytes = codec_.message_bytes(out.size());
    extent const own = residuals_.own();
    mine_.resize(own.count * bytes);
    all_.resize(residuals_.shards() * bytes);
    sent_.resize(out.size());
    for (std::size_t k = 0; k < own.count; ++k) {
      std::ranges::fill(out, 0.0f);
      gradient_of(own.begin + k, out);
      std::byte* const message = mine_.data() + k * bytes;
      std::span<float> const residual = residuals_.of(k);
      for (std::size_t i = 0; i < out.size(); ++i) residual[i] += out[i];
      codec_.encode(residual, message);
      codec_.decode(message, sent_);
      for (std::size_t i = 0; i < out.size(); ++i) residual[i] = tutti::detail::finite_or_zero(residual[i] - sent_[i]);
    }
    std::vector<std::size_t> counts;
    for (int r = 0; r < comm.size(); ++r) counts.push_back(residuals_.shards_of(r, comm.size()).count * bytes);
    all_gather_v(comm, mine_, all_, counts, {}, {}, where);
    for (std::size_t s = 0; s < residuals_.shards(); ++s) {
      codec_.decode(all_.data() + s * bytes, sent_);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = s == 0 ? sent_[i] : out[i] + sent_[i];
    }
    for (float& x : out) x /= static_cast<float>(residuals_.shards());
  }

 private:
  tutti::detail::shard_residuals residuals_;
  Codec codec_;
  std::vector<std::byte> mine_{}, all_{};  // encoded
  std::vector<float> sent_{};
};

}  // namespace tutti::training
