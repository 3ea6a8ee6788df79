// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// error_feedback: a hook that sends gradients through a lossy codec, and what a step has lost with the next one.
#pragma once

#include <concepts>
#include <cstddef>
#include <deque>
#include <source_location>
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
#include "tutti/training/hooks/residual.hpp"

namespace tutti::training {

// Every rank encodes its gradients plus what it could not send before (the residual), and keeps the difference between that
// and what the others will decode. All ranks get all messages, decode them and add them up in rank order, so all have the
// same bits. (Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014.)
//
// Gradients are float. A single rank sends nothing and rounds nothing. Residuals belong to parameters, not to buckets: they remain
// when the buckets change.
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
    if (buffers_.size() <= some.index) buffers_.resize(some.index + 1);
    buffers& its = buffers_[some.index];
    std::size_t const n = some.gradients.size(), bytes = codec_.message_bytes(n);
    its.mine.resize(bytes);
    its.all.resize(bytes * static_cast<std::size_t>(comm.size()));
    its.decoded.resize(n);
    for (auto const& part : some.parts) {
      auto const& residual = residual_of(part, comm.rank(), some.where);
      for (std::size_t i = 0; i < residual.size(); ++i) part.gradient[i] += residual[i];
    }
    codec_.encode(some.gradients, its.mine.data());
    codec_.decode(its.mine.data(), its.decoded);
    for (auto const& part : some.parts) {
      auto const sent = part_of(its.decoded, part, some);
      auto& residual = residuals_[part.parameter];
      for (std::size_t i = 0; i < residual.size(); ++i)
        residual[i] = tutti::detail::finite_or_zero(part.gradient[i] - sent[i]);
    }
    return all_gather(async(comm), its.mine, its.all, {}, some.where).then([this, &its, some, ranks = comm.size()] {
      add_up(its, some, ranks);
    });
  }

  void take_back(bucket<float> const& unused) {
    if (unused.index >= buffers_.size()) return;  // a single rank sends nothing
    buffers& its = buffers_[unused.index];
    codec_.decode(its.mine.data(), its.decoded);
    for (auto const& part : unused.parts) {
      auto const sent = part_of(its.decoded, part, unused);
      auto& residual = residuals_[part.parameter];
      for (std::size_t i = 0; i < residual.size(); ++i)
        residual[i] = tutti::detail::finite_or_zero(residual[i] + sent[i]);
    }
  }

  std::size_t message_bytes(bucket<float> const& some) const { return codec_.message_bytes(some.gradients.size()); }

  // What this rank has not sent yet, for each parameter: a checkpoint stores it. To continue from one, make the model with the same
  // parameters, and restore it before the first step. The bits are those of a run without interruption if the buckets are the
  // same, as with rebuild = false.
  std::vector<std::vector<float>> const& residuals() const noexcept { return residuals_; }
  void restore_residuals(std::vector<std::vector<float>> saved) { residuals_ = std::move(saved); }
  // For gradients that will be as many times as large as before: those of a scaled loss, whose scale has changed. Not in a step.
  void rescale(double by) {
    for (auto& residual : residuals_) tutti::detail::scale_residual(residual, by);
  }

 private:
  struct buffers {
    std::vector<std::byte> mine{}, all{};  // encoded; they must stay until the call has ended
    std::vector<float> decoded{};
  };

  std::vector<float>& residual_of(bucket_part<float> const& part, int rank, std::source_location where) {
    if (residuals_.size() <= part.parameter) residuals_.resize(part.parameter + 1);
    std::vector<float>& out = residuals_[part.parameter];
    if (out.empty()) out.resize(part.gradient.size());
    if (out.size() != part.gradient.size())
      tutti::detail::refuse(rank,
                            tutti::detail::join({"the residual of parameter ", part.parameter, " has ", out.size(),
                                                 " values, but its gradient has ", part.gradient.size()}),
                            "restore residuals of the same parameters", where);
    return out;
  }
  static std::span<float const> part_of(std::span<float const> decoded, bucket_part<float> const& part,
                                        bucket<float> const& some) {
    auto const begin = static_cast<std::size_t>(part.gradient.data() - some.gradients.data());
    return decoded.subspan(begin, part.gradient.size());
  }
  // Elements between the parts stay zero.
  void add_up(buffers& its, bucket<float> const& some, int ranks) const {
    std::size_t const bytes = its.mine.size();
    for (int r = 0; r < ranks; ++r) {
      codec_.decode(its.all.data() + static_cast<std::size_t>(r) * bytes, its.decoded);
      for (auto const& part : some.parts) {
        auto const sent = part_of(its.decoded, part, some);
        for (std::size_t i = 0; i < sent.size(); ++i) part.gradient[i] = r == 0 ? sent[i] : part.gradient[i] + sent[i];
      }
    }
    for (auto const& part : some.parts)
      for (float& x : part.gradient) x /= static_cast<float>(ranks);
  }

  Codec codec_;
  std::vector<std::vector<float>> residuals_;  // of each parameter
  std::deque<buffers> buffers_;                // of each bucket; those in flight stay where they are
};

}  // namespace tutti::training
