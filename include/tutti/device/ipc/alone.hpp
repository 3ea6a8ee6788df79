// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives of a single rank, which copies at most.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "tutti/device/front/call.hpp"
#include "tutti/device/front/rows.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/reduce/fused.hpp"

namespace tutti::detail {

template <device D, class In, class Out, class How, class Epilogue>
void combine_alone(D const& on, device_call<D, In, Out> const& c, row_wise<How, Epilogue> const& how) {
  Out* const to[] = {c.out};
  launch_rows(on, c.how.stream, std::span<In const* const>(&c.in, 1), std::span<Out* const>(to),
              {0, c.got.at(0, 0).count / how.length}, how);
}
// It needs a kernel only for what changes the elements.
template <device D, class In, class Out, class Op, class Before, class After>
void combine_alone(D const& on, device_call<D, In, Out> const& c, fused<Op, Before, After> const& how) {
  std::size_t const n = c.got.at(0, 0).count;
  if constexpr (std::is_same_v<In, Out> && std::is_same_v<Before, unchanged> && std::is_same_v<After, unchanged>) {
    if (n > 0 && c.in != c.out) on.copy(c.how.stream, c.out, c.in, n * sizeof(In));
  } else {
    In const* const from[] = {c.in};
    Out* const to[] = {c.out};
    if (n > 0) launch_pass<1>(on, c.how.stream, std::span<In const* const>(from), std::span<Out* const>(to), n, how);
  }
}

template <device D, class Word>
void move_alone(D const& on, device_call<D, Word, Word> const& c) {
  if (c.in == nullptr || c.out == nullptr) return;
  block_moves<Word> own{};
  own.add(c.in + c.given.at(0, 0).begin, c.out + c.got.at(0, 0).begin, c.got.at(0, 0).count);
  if (own.count > 0) on.launch(c.how.stream, own.items(), own);
}

}  // namespace tutti::detail
