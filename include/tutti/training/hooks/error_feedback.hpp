// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error_feedback: a hook that sends gradients through a lossy codec, and what a step has lost with the next one.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/core/text.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/bucket.hpp"
#include "tutti/training/hooks/codecs.hpp"

namespace tutti::training {

// Every rank encodes its gradients plus what it could not send before (the residual), and keeps the difference between that
// and what the others will decode. All ranks get all messages, decode them and add them up in rank order, so all have the
// same bits. (Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014.)
//
// Gradients are float. A single rank sends nothing and rounds nothing. Where buckets are built anew, once after the first
// step, residuals start at zero; set data_parallel_options::rebuild = false to keep them.
//
// Residual and what was sent add up to the original: exactly for top_k and eight_bit_blocks, within half a unit in the
// last place of the residual for one_bit_signs. Where they are no numbers (NaN, infinity) the residual is zero.
//
// Cost      an all_gather of codec.message_bytes(n) from each rank, and p decodings of n values for p ranks
//
//   tutti::training::data_parallel model(comm, parameters, {},
//                                        tutti::training::error_feedback(tutti::training::top_k{.share = 0.01}));
template <gradient_codec Codec>
class error_feedback {
 public:
  explicit error_feedback(Codec codec = {}) : codec_(std::move(codec)) {}

  template <class T, class Transport>
  work operator()(bucket<T> const& some, communicator<Transport>& comm) {
    static_assert(std::same_as<T, float>, "codecs compress gradients of type float; use another hook for other types");
    if (comm.size() == 1) return {};
    state& s = state_of(some, comm.rank());
    std::size_t const n = some.gradients.size(), bytes = codec_.message_bytes(n);
    for (std::size_t i = 0; i < n; ++i) s.residual[i] += some.gradients[i];
    s.mine.resize(bytes);
    s.all.resize(bytes * static_cast<std::size_t>(comm.size()));
    s.decoded.resize(n);
    codec_.encode(s.residual, s.mine.data());
    codec_.decode(s.mine.data(), s.decoded);
    for (std::size_t i = 0; i < n; ++i) {
      float const lost = s.residual[i] - s.decoded[i];
      s.residual[i] = std::isfinite(lost) ? lost : 0;
    }
    return all_gather(async(comm), s.mine, s.all).then([this, &s, to = some.gradients, ranks = comm.size()] {
      add_up(s, to, ranks);
    });
  }

  std::size_t message_bytes(bucket<float> const& some) const { return codec_.message_bytes(some.gradients.size()); }

  // What this rank has not sent yet, for each bucket: a checkpoint stores it. To continue from one, make the model with
  // the same parameters and rebuild = false, and restore it before the first step.
  std::vector<std::vector<float>> residuals() const {
    std::vector<std::vector<float>> out;
    for (state const& s : states_) out.push_back(s.residual);
    return out;
  }
  void restore_residuals(std::vector<std::vector<float>> const& saved) {
    states_.clear();
    for (auto const& residual : saved) states_.push_back({.residual = residual});
  }

 private:
  struct state {
    std::vector<float> residual{};
    std::vector<std::byte> mine{}, all{};  // encoded; they must stay until the call has ended
    std::vector<float> decoded{};
  };

  state& state_of(bucket<float> const& some, int rank) {
    if (std::exchange(layout_, some.layout) != some.layout) states_.clear();
    if (states_.size() <= some.index) states_.resize(some.index + 1);
    state& out = states_[some.index];
    if (out.residual.empty()) out.residual.resize(some.gradients.size());
    if (out.residual.size() != some.gradients.size())
      tutti::detail::refuse(rank,
                            tutti::detail::join({"the residual of bucket ", some.index, " has ", out.residual.size(),
                                                 " values, but the bucket has ", some.gradients.size()}),
                            "restore residuals of the same parameters, bucket sizes and order of buckets", {});
    return out;
  }
  void add_up(state& s, std::span<float> to, int ranks) const {
    std::size_t const bytes = s.mine.size();
    for (int r = 0; r < ranks; ++r) {
      codec_.decode(s.all.data() + static_cast<std::size_t>(r) * bytes, s.decoded);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = r == 0 ? s.decoded[i] : to[i] + s.decoded[i];
    }
    for (float& x : to) x /= static_cast<float>(ranks);
  }

  Codec codec_;
  std::size_t layout_ = 0;
  std::deque<state> states_;  // of each bucket; those in flight stay where they are
};

}  // namespace tutti::training
