// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows of a message on a device: a block combines the sources of a row, reduces it to a total, and finishes its elements.
#pragma once

#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/for_device.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/reduce/convert.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/rows.hpp"

namespace tutti::detail {

inline constexpr std::size_t row_bytes_kept = 16 << 10;  // in shared memory

// Shared memory of a block: elements of a row, and that of its reductions.
template <class Group, class In, class Rows>
struct row_room;
template <class Group, class In>
struct row_room<Group, In, no_rows> {};
template <class Group, class In, class Epilogue>
struct row_room<Group, In, rows_of<Epilogue>> {
  using kept = std::conditional_t<Epilogue::has_residual, typename Epilogue::residual_type, In>;
  static constexpr std::size_t most = row_bytes_kept / sizeof(kept);

  alignas(access_bytes) kept elements[most];
  typename Group::template reduction<typename Epilogue::step_type::total> total;
  typename Group::template reduction<float> largest;
};

// For each column.
template <int>
struct float_of_column {
  using type = float;
};

template <class T>
inline constexpr float greatest_number = std::numeric_limits<T>::max();

// A row of `sources` arrays that begins at from(k), whose results go to the arrays that begin at to(k). With FanIn 1, the only
// source has been combined and rounded.
//
// What each member computes depends on the types and the length alone, not on alignments: arithmetic is the same for elements
// that were loaded together and one by one.
template <int FanIn, class From, class To, class Fused, class Epilogue>
struct row_pass {
  From const& from;
  int sources;
  To const& to;
  int destinations;
  std::size_t row;  // of the epilogue's arrays
  rows_of<Epilogue> const& rows;
  Fused const& how;

  using in = std::iter_value_t<std::remove_cvref_t<decltype(std::declval<From const&>()(0))>>;
  using out = std::remove_pointer_t<std::remove_cvref_t<decltype(std::declval<To const&>()(0))>>;
  using step = typename Epilogue::step_type;
  using total = typename step::total;
  using kept = std::conditional_t<Epilogue::has_residual, typename Epilogue::residual_type, in>;
  using column = typename Epilogue::column;
  static constexpr std::size_t pack =
      Epilogue::column_count > 0 ? device_pack<in, out, kept, column> : device_pack<in, out, kept>;
  static constexpr int at_once = FanIn == 1 ? 1 : 4;  // sources whose elements are in flight together
  static_assert(std::is_same_v<accumulator_for<decltype(Fused::op), in>, float>,
                "rows are of elements that are combined in float: float, bfloat16, half, 8-bit types");

  template <class Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, row_room<Group, in, rows_of<Epilogue>>& shared) const {
    static_assert(
        !(Epilogue::scales_rows || Epilogue::scales_all) || std::is_same_v<out, float8_e4m3> ||
            std::is_same_v<out, float8_e5m2>,
        "results with a scale are of the type float8_e4m3 or float8_e5m2, whose bits are those of CUDA's types");
    bool const aligned = is_aligned();
    total mine{};
    for_packs(group, [&](std::size_t at, std::size_t count) {
      kept values[pack];
      bool const whole = aligned && count == pack;
      read(at, count, whole, values);
      keep(shared, at, count, values);
      TUTTI_UNROLL
      for (std::size_t i = 0; i < pack; ++i)
        if (i < count) mine = rows.epilogue.step.combine(mine, rows.epilogue.step.of(widened<float>(values[i])));
    });
    step const& by = rows.epilogue.step;
    auto const whole_row = by.row(
        shared.total.of_all(group, mine, [&by](total const& a, total const& b) { return by.combine(a, b); }), length());
    float const inverse = inverse_scale(group, aligned, whole_row, shared);
    for_results(group, aligned, whole_row, shared, [&](std::size_t at, std::size_t count, bool whole, float(&y)[pack]) {
      out results[pack];
      TUTTI_UNROLL
      for (std::size_t i = 0; i < pack; ++i) {
        if constexpr (Epilogue::scales_rows || Epilogue::scales_all) results[i] = narrowed<out>(y[i] * inverse);
        else results[i] = narrowed<out>(y[i]);
      }
      TUTTI_NO_UNROLL
      for (int k = 0; k < destinations; ++k) store_some<pack>(to(k) + at, count, whole, results);
    });
  }

  // Only combines the sources, and stores their sums.
  template <class Group>
  TUTTI_HOST_DEVICE void sum_up(Group const& group) const {
    bool const aligned = is_aligned();
    for_packs(group, [&](std::size_t at, std::size_t count) {
      in sums[pack];
      bool const whole = aligned && count == pack;
      combine(at, count, whole, sums);
      store_some<pack>(to(0) + at, count, whole, sums);
    });
  }

 private:
  TUTTI_HOST_DEVICE std::size_t length() const { return rows.length; }
  TUTTI_HOST_DEVICE kept* residual() const { return rows.epilogue.residual + row * length(); }

  TUTTI_HOST_DEVICE bool is_aligned() const {
    bool all = true;
    for (int k = 0; k < sources; ++k) all = all && is_aligned_for<pack>(from(k));
    for (int k = 0; k < destinations; ++k) all = all && is_aligned_for<pack>(to(k));
    for (int k = 0; k < Epilogue::column_count; ++k) all = all && is_aligned_for<pack>(rows.epilogue.columns[k]);
    if constexpr (Epilogue::has_residual) all = all && is_aligned_for<pack>(residual());
    return all;
  }

  // Calls f(the first of some elements, their number) for the packs of this member; the last of the row can be shorter.
  template <class Group, class F>
  TUTTI_HOST_DEVICE void for_packs(Group const& group, F const& f) const {
    std::size_t const stride = static_cast<std::size_t>(group.size()) * pack;
    TUTTI_NO_UNROLL
    for (std::size_t at = static_cast<std::size_t>(group.rank()) * pack; at < length(); at += stride)
      f(at, length() - at < pack ? length() - at : pack);
  }

  // The elements that the step sees. Stores the new residual.
  TUTTI_HOST_DEVICE void read(std::size_t at, std::size_t count, bool whole, kept (&values)[pack]) const {
    in sums[pack];
    combine(at, count, whole, sums);
    if constexpr (Epilogue::has_residual) {
      load_some<pack>(residual() + at, count, whole, values);
      TUTTI_UNROLL
      for (std::size_t i = 0; i < pack; ++i)
        values[i] = narrowed<kept>(widened<float>(sums[i]) + widened<float>(values[i]));
      store_some<pack>(residual() + at, count, whole, values);
    } else {
      TUTTI_UNROLL
      for (std::size_t i = 0; i < pack; ++i) values[i] = sums[i];
    }
  }
  TUTTI_HOST_DEVICE void combine(std::size_t at, std::size_t count, bool whole, in (&sums)[pack]) const {
    if constexpr (FanIn == 1) {
      load_some<pack>(from(0) + at, count, whole, sums);
    } else {
      float all[pack];
      expect_for_device<float const, float const>(how.op);
      TUTTI_NO_UNROLL
      for (int first = 0; first < sources; first += at_once) {
        in loaded[at_once][pack];
        TUTTI_UNROLL
        for (int k = 0; k < at_once; ++k)
          if (first + k < sources) load_some<pack>(from(first + k) + at, count, whole, loaded[k]);
        TUTTI_UNROLL
        for (int k = 0; k < at_once; ++k) {
          if (first + k >= sources) break;
          TUTTI_UNROLL
          for (std::size_t i = 0; i < pack; ++i) {
            float const x = contribution(how.before, first + k, widened<float>(loaded[k][i]));
            all[i] = first + k == 0 ? x : static_cast<float>(how.op(all[i], x));
          }
        }
      }
      float ended[pack];
      apply_epilogue(how.after, at, all, ended);
      TUTTI_UNROLL
      for (std::size_t i = 0; i < pack; ++i) sums[i] = narrowed<in>(rounded(ended[i]));
    }
  }

  // Elements stay in shared memory, as far as the row fits. Those of a longer row are read again: from the residual, which this
  // member has stored, or from the sources.
  template <class Room>
  TUTTI_HOST_DEVICE void keep(Room& shared, std::size_t at, std::size_t count, kept const (&values)[pack]) const {
    if (length() <= Room::most) store_kept(shared.elements + at, count, values);
  }
  template <class Room>
  TUTTI_HOST_DEVICE void recall(Room const& shared, std::size_t at, std::size_t count, bool whole,
                                kept (&values)[pack]) const {
    if (length() <= Room::most) return load_some<pack>(shared.elements + at, count, count == pack, values);
    if constexpr (Epilogue::has_residual) load_some<pack>(residual() + at, count, whole, values);
    else combine(at, count, whole, values);
  }
  // In shared memory, to which store_elements cannot store.
  TUTTI_HOST_DEVICE static void store_kept(kept* to, std::size_t count, kept const (&values)[pack]) {
    if (count == pack) {
      words_of<sizeof values> all;
      std::memcpy(&all, values, sizeof values);
      *reinterpret_cast<words_of<sizeof values>*>(to) = all;
      return;
    }
    TUTTI_UNROLL
    for (std::size_t i = 0; i < pack; ++i)
      if (i < count) to[i] = values[i];
  }

  // Calls f(at, count, whole, results) for the packs of this member.
  template <class Group, class Row, class Room, class F>
  TUTTI_HOST_DEVICE void for_results(Group const& group, bool aligned, Row const& whole_row, Room const& shared,
                                     F const& f) const {
    for_packs(group, [&](std::size_t at, std::size_t count) {
      bool const whole = aligned && count == pack;
      kept values[pack];
      recall(shared, at, count, whole, values);
      float results[pack];
      finish(at, count, whole, whole_row, values, results, std::make_integer_sequence<int, Epilogue::column_count>{});
      f(at, count, whole, results);
    });
  }
  template <class Row, int... K>
  TUTTI_HOST_DEVICE void finish([[maybe_unused]] std::size_t at, [[maybe_unused]] std::size_t count,
                                [[maybe_unused]] bool whole, Row const& whole_row, kept const (&values)[pack],
                                float (&results)[pack], std::integer_sequence<int, K...>) const {
    expect_for_device<step const, float const, typename float_of_column<K>::type const...>(finishing_rows{});
    [[maybe_unused]] column columns[sizeof...(K) + 1][pack];
    (load_some<pack>(rows.epilogue.columns[K] + at, count, whole, columns[K]), ...);
    TUTTI_UNROLL
    for (std::size_t i = 0; i < pack; ++i)
      results[i] = rows.epilogue.step.finish(widened<float>(values[i]), whole_row, widened<float>(columns[K][i])...);
  }

  // What results are multiplied by. Stores the scale of a row.
  template <class Group, class Row, class Room>
  TUTTI_HOST_DEVICE float inverse_scale(Group const& group, bool aligned, Row const& whole_row, Room& shared) const {
    if constexpr (Epilogue::scales_rows) {
      constexpr float greatest = greatest_number<out>, finite = greatest_number<float>;
      float mine = 0;
      for_results(group, aligned, whole_row, shared,
                  [&mine](std::size_t, std::size_t count, bool, float const(&y)[pack]) {
                    TUTTI_UNROLL
                    for (std::size_t i = 0; i < pack; ++i) {
                      float const x = y[i] < 0 ? -y[i] : y[i];
                      if (i < count && mine < x && x <= finite) mine = x;
                    }
                  });
      float const largest = shared.largest.of_all(group, mine, [](float a, float b) { return a < b ? b : a; });
      constexpr float least = 1 / (greatest * 512);
      float const scale = largest / greatest < least ? least : largest / greatest;
      if (group.rank() == 0) rows.epilogue.scale.scales[row] = scale;
      return 1 / scale;
    } else if constexpr (Epilogue::scales_all) {
      return 1 / static_cast<float>(rows.epilogue.scale.scale);
    } else {
      return 1;
    }
  }
};

}  // namespace tutti::detail
