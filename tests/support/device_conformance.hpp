// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks by each rank of collectives on its device memory, whichever class carries them out: they must give the
// bits of one_shot on the host. Throws if they differ.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "support/device_algorithms.hpp"
#include "support/device_collectives.hpp"
#include "support/expect.hpp"
#include "tutti/device/front/collectives.hpp"
#include "tutti/device/front/ragged.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// By an algorithm that calls name, compared with the same algorithm on the host.
template <class T, detail::device_ranks R, class Comm, class Algorithm = automatic>
class device_conformance {
 public:
  using array = detail::device_array<typename R::device_type, T>;

  device_conformance(R& ranks, Comm& comm, std::size_t count, int root, detail::device_options_of<R> const& how)
      : ranks_(ranks), comm_(comm), n_(count), root_(root), how_(how) {
    for (std::size_t q = 0; q < size(); ++q) counts_.push_back(q % 3 == 2 ? 0 : n_ / 2 + 7 * q);
    for (std::size_t const c : counts_) sum_ += c;
  }

  template <class Op>
  void check_all_reduce(Op const& op) {
    compare(
        "all_reduce", n_, n_, [&](auto& in, auto& out) { all_reduce<Algorithm>(ranks_, in, out, op, how_); },
        [&](auto& in, auto& out) { all_reduce(comm_, in, out, op, by_same); });
    compare_in_place(
        "all_reduce", n_, [&](auto& data) { all_reduce<Algorithm>(ranks_, data, op, how_); },
        [&](auto& data) { all_reduce(comm_, data, op, by_same); });
  }

  template <class Op>
  void check_reduce(Op const& op) {
    compare(
        "reduce", n_, n_, [&](auto& in, auto& out) { reduce<Algorithm>(ranks_, in, out, op, root_, how_); },
        [&](auto& in, auto& out) { reduce(comm_, in, out, op, root_, by_same); });
  }

  template <class Op>
  void check_reductions(Op const& op) {
    if constexpr (has<collective::all_reduce, Op>) check_all_reduce(op);
    if constexpr (has<collective::reduce, Op>) check_reduce(op);
    if (how_.algorithm == algorithm_id::two_shot) return;
    if constexpr (has<collective::reduce_scatter, Op>) {
      compare(
          "reduce_scatter", n_ * size(), n_,
          [&](auto& in, auto& out) { reduce_scatter<Algorithm>(ranks_, in, out, op, how_); },
          [&](auto& in, auto& out) { reduce_scatter(comm_, in, out, op, by_same); });
      compare_in_place(
          "reduce_scatter", n_ * size(),
          [&](auto& data) { reduce_scatter<Algorithm>(ranks_, data, block(data), op, how_); },
          [&](auto& data) { reduce_scatter(comm_, data, block(data), op, by_same); });
    }
    if constexpr (!detail::has_finish<Op, accumulator_for<Op, T>>) {
      if constexpr (has<collective::scan, Op>) {
        compare(
            "scan", n_, n_, [&](auto& in, auto& out) { scan<Algorithm>(ranks_, in, out, op, how_); },
            [&](auto& in, auto& out) { scan(comm_, in, out, op, by_same); });
        compare_in_place(
            "scan", n_, [&](auto& data) { scan<Algorithm>(ranks_, data, op, how_); },
            [&](auto& data) { scan(comm_, data, op, by_same); });
      }
      if constexpr (has<collective::exclusive_scan, Op>)
        compare(
            "exclusive_scan", n_, n_,
            [&](auto& in, auto& out) { exclusive_scan<Algorithm>(ranks_, in, out, op, how_); },
            [&](auto& in, auto& out) { exclusive_scan(comm_, in, out, op, by_same); });
    }
    if constexpr (by_default)
      compare(
          "reduce_scatter_v", sum_, own(),
          [&](auto& in, auto& out) { reduce_scatter_v(ranks_, in, out, counts_, op, how_); },
          [&](auto& in, auto& out) { reduce_scatter_v(comm_, in, out, counts_, op, by_same); });
  }

  void check_movement() {
    std::size_t const all = n_ * size();
    bool const at_root = ranks_.rank() == root_;
    if constexpr (has<collective::broadcast>)
      compare_in_place(
          "broadcast", n_, [&](auto& data) { broadcast<Algorithm>(ranks_, data, root_, how_); },
          [&](auto& data) { broadcast(comm_, data, root_, by_same); });
    if constexpr (has<collective::all_gather>)
      compare(
          "all_gather", n_, all, [&](auto& in, auto& out) { all_gather<Algorithm>(ranks_, in, out, how_); },
          [&](auto& in, auto& out) { all_gather(comm_, in, out, by_same); });
    if constexpr (has<collective::all_gather>)
      compare_in_place(
          "all_gather", all, [&](auto& data) { all_gather<Algorithm>(ranks_, block(data), data, how_); },
          [&](auto& data) { all_gather(comm_, block(data), data, by_same); });
    if constexpr (has<collective::gather>)
      compare(
          "gather", n_, at_root ? all : 0,
          [&](auto& in, auto& out) { gather<Algorithm>(ranks_, in, out, root_, how_); },
          [&](auto& in, auto& out) { gather(comm_, in, out, root_, by_same); });
    if constexpr (has<collective::scatter>)
      compare(
          "scatter", at_root ? all : 0, n_,
          [&](auto& in, auto& out) { scatter<Algorithm>(ranks_, in, out, root_, how_); },
          [&](auto& in, auto& out) { scatter(comm_, in, out, root_, by_same); });
    if constexpr (has<collective::all_to_all>)
      compare(
          "all_to_all", all, all, [&](auto& in, auto& out) { all_to_all<Algorithm>(ranks_, in, out, how_); },
          [&](auto& in, auto& out) { all_to_all(comm_, in, out, by_same); });
    if constexpr (by_default)
      compare(
          "all_gather_v", own(), sum_, [&](auto& in, auto& out) { all_gather_v(ranks_, in, out, counts_, {}, how_); },
          [&](auto& in, auto& out) { all_gather_v(comm_, in, out, counts_, {}, by_same); });
    if constexpr (by_default)
      compare(
          "gather_v", own(), at_root ? sum_ : 0,
          [&](auto& in, auto& out) { gather_v(ranks_, in, out, counts_, {}, root_, how_); },
          [&](auto& in, auto& out) { gather_v(comm_, in, out, counts_, {}, root_, by_same); });
    if constexpr (by_default)
      compare(
          "scatter_v", at_root ? sum_ : 0, own(),
          [&](auto& in, auto& out) { scatter_v(ranks_, in, counts_, out, {}, root_, how_); },
          [&](auto& in, auto& out) { scatter_v(comm_, in, counts_, out, {}, root_, by_same); });
    if constexpr (!by_default) return;
    std::vector<std::size_t> const sent(size(), own());
    std::vector<std::size_t> places;  // with gaps
    for (std::size_t q = 0, end = 0; q < size(); end += counts_[q] + 3, ++q) places.push_back(end + 3);
    compare(
        "all_to_all_v", own() * size(), sum_ + 3 * size(),
        [&](auto& in, auto& out) { all_to_all_v(ranks_, in, sent, out, counts_, {}, places, how_); },
        [&](auto& in, auto& out) { all_to_all_v(comm_, in, sent, out, counts_, {}, places, by_same); });
    barrier(ranks_, how_);
  }

 private:
  static constexpr bool by_default = std::is_same_v<Algorithm, automatic>;
  // Not every class has all algorithms.
  template <collective C>
  static constexpr bool carries() {
    if constexpr (requires { R::template has_algorithm<Algorithm, C>; }) return R::template has_algorithm<Algorithm, C>;
    else return true;
  }
  // Whether the algorithm serves the collective, with this operation.
  template <collective C, class Op = void>
  static constexpr bool has = by_default || (serves_with<Algorithm, C, Op>() && carries<C>());
  static constexpr options by(algorithm_id algorithm) { return {.algorithm = algorithm}; }
  static constexpr algorithm_id host_algorithm() {
    if constexpr (by_default) return algorithm_id::one_shot;
    else return find_algorithm(Algorithm::name);
  }
  static constexpr options by_same = by(host_algorithm());

  std::size_t size() const { return static_cast<std::size_t>(ranks_.size()); }
  std::size_t own() const { return counts_[static_cast<std::size_t>(ranks_.rank())]; }
  template <class Data>
  auto block(Data& data) const {
    return std::span(data.data() + static_cast<std::size_t>(ranks_.rank()) * n_, n_);
  }
  array result_on_device(std::vector<T> const& values) const {
    array out(ranks_.on(), values.size());
    ranks_.on().copy(how_.stream, out.data(), values.data(), values.size() * sizeof(T));
    return out;
  }
  void expect_same(std::string const& what, array const& got, std::vector<T> const& expected) const {
    std::vector<T> values(expected.size());
    ranks_.on().copy(how_.stream, values.data(), got.data(), values.size() * sizeof(T));
    ranks_.on().wait(how_.stream, detail::deadline::after(std::chrono::seconds{60}));
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!same_bits<T>(values[i], expected[i]))
        expect(false, detail::join({what, " of ", n_, " ", detail::type_name<T>(), " on rank ", ranks_.rank(), " of ",
                                    ranks_.size(), " is wrong at element ", i}));
  }
  template <class Device, class Host>
  void compare(std::string const& what, std::size_t in_count, std::size_t out_count, Device&& device, Host&& host) {
    auto const in = uneven_values<T>(ranks_.rank(), in_count), before = uneven_values<T>(99, out_count);
    array const from = result_on_device(in), to = result_on_device(before);
    device(from, to);
    auto out = before;
    host(in, out);
    expect_same(what, to, out);
    expect_same("the input of " + what, from, in);
  }
  template <class Device, class Host>
  void compare_in_place(std::string const& what, std::size_t count, Device&& device, Host&& host) {
    auto const before = uneven_values<T>(ranks_.rank(), count);
    array const there = result_on_device(before);
    device(there);
    auto data = before;
    host(data);
    expect_same(what + " in place", there, data);
  }

  R& ranks_;
  Comm& comm_;
  std::size_t n_;
  int root_;
  detail::device_options_of<R> how_;
  std::vector<std::size_t> counts_;  // of _v forms
  std::size_t sum_ = 0;
};

// With the first rank and the last as the root; all_reduce by two_shot too.
template <class T, detail::device_ranks R, class Comm, class Op>
void check_reductions_of(R& ranks, Comm& comm, std::size_t count, Op const& op,
                         detail::stream_of<typename R::device_type> stream = {}) {
  for (int const root : {0, comm.size() - 1})
    device_conformance<T, R, Comm>(ranks, comm, count, root, {.stream = stream}).check_reductions(op);
  for (algorithm_id const algorithm : {algorithm_id::one_shot, algorithm_id::two_shot})
    device_conformance<T, R, Comm>(ranks, comm, count, 0, {.stream = stream, .algorithm = algorithm})
        .check_all_reduce(op);
}
template <class Algorithm, class T, detail::device_ranks R, class Comm, class Op>
void check_named(R& ranks, Comm& comm, std::size_t count, Op const& op, detail::device_options_of<R> const& how = {}) {
  for (int const root : {0, comm.size() - 1}) {
    device_conformance<T, R, Comm, Algorithm> all(ranks, comm, count, root, how);
    all.check_reductions(op);
    all.check_movement();
  }
}
template <class T, detail::device_ranks R, class Comm>
void check_movement_of(R& ranks, Comm& comm, std::size_t count,
                       detail::stream_of<typename R::device_type> stream = {}) {
  for (int const root : {0, comm.size() - 1})
    device_conformance<T, R, Comm>(ranks, comm, count, root, {.stream = stream}).check_movement();
}

}  // namespace tutti::testing
