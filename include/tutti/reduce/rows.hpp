// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Epilogues of all_reduce that see whole rows of a message, such as the normalisations of a transformer: each row is reduced
// to a total, and its elements are then finished by it.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/operation.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {

// What is done with a row x0, x1, ... of float values. It is called on the device, so its functions are __host__ __device__
// (TUTTI_HOST_DEVICE).
//
//   total                     of some elements; total{} is that of none
//   of(x)                     the total of one element
//   combine(a, b)             the total of both: of earlier and later elements, in a fixed order, so it need only be associative
//   row(total, length)        what `finish` needs of the whole row: any value
//   finish(x, row, columns...)  the value to store; `columns` are the elements of this column in the arrays of with_columns
//
// docs/gpu.md has a softmax as an example.
template <class Step>
concept row_step = std::is_trivially_copyable_v<Step> && std::default_initializable<typename Step::total> &&
                   std::is_trivially_copyable_v<typename Step::total> &&
                   requires(Step const& step, typename Step::total const& total, float x, std::size_t length) {
                     { step.of(x) } -> std::same_as<typename Step::total>;
                     { step.combine(total, total) } -> std::same_as<typename Step::total>;
                     step.row(total, length);
                   };

// y = x / sqrt(mean of x^2 + epsilon) [* weight] (Zhang and Sennrich 2019). Columns: none, or the weight.
struct rms_norm {
  float epsilon = 1e-6f;

  using total = float;
  TUTTI_HOST_DEVICE float of(float x) const { return x * x; }
  TUTTI_HOST_DEVICE float combine(float a, float b) const { return a + b; }
  TUTTI_HOST_DEVICE float row(float squares, std::size_t length) const {
    return 1 / std::sqrt(squares / static_cast<float>(length) + epsilon);
  }
  TUTTI_HOST_DEVICE float finish(float x, float factor) const { return x * factor; }
  TUTTI_HOST_DEVICE float finish(float x, float factor, float weight) const { return x * factor * weight; }
};
static_assert(row_step<rms_norm>);

namespace detail {

struct no_residual {};
struct no_scale {};

// Results are divided by one scale.
template <class F>
struct scale_of_tensor {
  F scale;
};
// Each row has a scale, its largest finite result over the largest number of their 8-bit type, which is stored.
struct scales_of_rows {
  float* scales;
};

// A step, and the arrays that it works with.
template <class Step, class Column = float, int Columns = 0, class Residual = no_residual, class Scale = no_scale>
struct row_epilogue {
  using step_type = Step;
  using column = Column;
  using residual_type = Residual;
  static constexpr int column_count = Columns;
  static constexpr bool has_residual = !std::is_same_v<Residual, no_residual>;
  static constexpr bool scales_rows = std::is_same_v<Scale, scales_of_rows>;
  static constexpr bool scales_all = !scales_rows && !std::is_same_v<Scale, no_scale>;

  Step step;
  Column const* columns[Columns > 0 ? Columns : 1];
  Residual* residual;
  Scale scale;
};

template <class>
inline constexpr bool is_row_epilogue = false;
template <class Step, class Column, int Columns, class Residual, class Scale>
inline constexpr bool is_row_epilogue<row_epilogue<Step, Column, Columns, Residual, Scale>> = true;

template <class E>
concept row_step_or_epilogue = is_row_epilogue<E> || row_step<E>;

template <row_step Step>
constexpr row_epilogue<Step> as_row_epilogue(Step const& step) {
  return {step, {}, nullptr, {}};
}
template <class Step, class Column, int Columns, class Residual, class Scale>
constexpr auto as_row_epilogue(row_epilogue<Step, Column, Columns, Residual, Scale> const& epilogue) {
  return epilogue;
}

template <class Step, class Column, int Columns, class Residual, class Scale, class NewScale>
constexpr row_epilogue<Step, Column, Columns, Residual, NewScale> scaled_by(
    row_epilogue<Step, Column, Columns, Residual, Scale> const& epilogue, NewScale scale) {
  row_epilogue<Step, Column, Columns, Residual, NewScale> out{epilogue.step, {}, epilogue.residual, scale};
  for (int k = 0; k < Columns; ++k) out.columns[k] = epilogue.columns[k];
  return out;
}
template <class Step, class Column, int Columns, class Residual, class Scale, class NewResidual>
constexpr row_epilogue<Step, Column, Columns, NewResidual, Scale> added_to(
    row_epilogue<Step, Column, Columns, Residual, Scale> const& epilogue, NewResidual* residual) {
  row_epilogue<Step, Column, Columns, NewResidual, Scale> out{epilogue.step, {}, residual, epilogue.scale};
  for (int k = 0; k < Columns; ++k) out.columns[k] = epilogue.columns[k];
  return out;
}

// An operation, or `fused`, followed by an epilogue on rows of this many elements.
template <class How, class Epilogue>
struct row_wise {
  How how;
  std::size_t length;
  Epilogue epilogue;
};

}  // namespace detail

// A step with arrays of one row, which it only reads: weights, biases.
template <row_step Step, element Column, std::same_as<Column>... Rest>
constexpr auto with_columns(Step const& step, Column const* first, Rest const*... rest) {
  constexpr int columns = 1 + static_cast<int>(sizeof...(Rest));
  return detail::row_epilogue<Step, Column, columns>{step, {first, rest...}, nullptr, {}};
}

// Adds the residual to each element before the step, and replaces the residual by the sum, rounded to its type: the step
// sees the rounded value. The residual has as many elements as the message; each rank has its own, all equal.
template <detail::row_step_or_epilogue E, element Residual>
constexpr auto with_residual(E const& epilogue, Residual* residual) {
  return detail::added_to(detail::as_row_epilogue(epilogue), residual);
}

// Quantises results: divides them by `scale`, a number or what from_memory returns, and stores them in an 8-bit type, limited to
// its range.
template <detail::row_step_or_epilogue E, class F>
  requires std::convertible_to<F, float>
constexpr auto with_scale(E const& epilogue, F scale) {
  return detail::scaled_by(detail::as_row_epilogue(epilogue), detail::scale_of_tensor<F>{scale});
}

// Quantises the results of each row by a scale of its own, which it stores to scales[row]: the largest finite magnitude of the row
// over the largest number of the type, or 1/512 of the reciprocal of that number if this is more. A result is worth its element
// times the scale. Infinity becomes the largest number of the type, NaN stays NaN, and neither affects other elements of the row.
template <detail::row_step_or_epilogue E>
constexpr auto with_row_scales(E const& epilogue, float* scales) {
  return detail::scaled_by(detail::as_row_epilogue(epilogue), detail::scales_of_rows{scales});
}

// Applies an epilogue to the rows of the combination of all ranks. Only all_reduce takes it.
//
// Arguments  `how` is an operation, or fused without arrays, on elements that are combined in float. The message has whole rows of
//            `length` elements. `epilogue` is a row_step, or one with columns, a residual, scales
// Order      element i of the message is combined as without rows and rounded to the type of the input, so the results are those
//            of all_reduce followed by an epilogue on its output, on every path. A row is then divided into packs (16 bytes of its
//            widest array), of which thread t of 256 takes packs t, t + 256, ...; its elements are combined in this order, then the
//            totals of the threads in theirs. This depends only on the types and the length of the row, so all ranks get the
//            same bits
// Cost       n elements of s bytes, p ranks. By one_shot each rank reads (p - 1) n s bytes over the links, and everyone does all
//            rows; by two_shot 2 (p - 1) / p n s, because ranks combine the rows that they own, exchange the sums, and do all
//            rows. In memory: the residual is read and written once, the results are written once, and a row stays in the
//            block's shared memory, unless it has more than 16 KiB. Then its elements are read again, and once more for
//            with_row_scales: from the residual, or without one, over the links (by one_shot from all ranks, by two_shot the sums)
// Room       among processes with a device each, a row of the input must fit half of the arena by one_shot, 1 / (2 p) of it by two_shot
// Throws     error: bad_argument, also if a row does not fit; those of all_reduce
//
//   tutti::all_reduce(ranks, partial, hidden, tutti::by_rows(tutti::sum{}, width,
//                     tutti::with_residual(tutti::with_columns(tutti::rms_norm{1e-5f}, weight), residual)));
template <class How, detail::row_step_or_epilogue E>
constexpr auto by_rows(How how, std::size_t length, E const& epilogue) {
  static_assert(detail::arrays_of<How> == 0, "an epilogue on rows has its own arrays; use fused without arrays");
  using all = decltype(detail::as_row_epilogue(epilogue));
  return detail::row_wise<How, all>{std::move(how), length, detail::as_row_epilogue(epilogue)};
}

namespace detail {

template <class>
inline constexpr bool is_row_wise = false;
template <class How, class E>
inline constexpr bool is_row_wise<row_wise<How, E>> = true;

// The rows of a call, for a kernel.
struct no_rows {};
template <class Epilogue>
struct rows_of {
  using epilogue_type = Epilogue;

  std::size_t length;
  Epilogue epilogue;
};
template <class How>
constexpr no_rows rows_in(How const&) {
  return {};
}
template <class How, class E>
constexpr rows_of<E> rows_in(row_wise<How, E> const& op) {
  return {op.length, op.epilogue};
}

// The operation alone.
template <class How>
constexpr How const& without_rows(How const& how) {
  return how;
}
template <class How, class E>
constexpr How const& without_rows(row_wise<How, E> const& op) {
  return op.how;
}

}  // namespace detail
}  // namespace tutti
