// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls collectives and compares every element with the contract. It runs inside a rank, so it throws; the launcher
// reports the message to the test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/types_and_ops.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Describes one check; printed if it fails.
struct trial {
  tutti::options options{};
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  bool shared = false;  // buffers from comm.allocate

  std::string text(collective what, int rank, int ranks) const {
    return std::string(name(what)) + " by " + std::string(name(options.algorithm)) + ", " +
           std::string(name(options.protocol)) + ", count " + std::to_string(count) + ", root " + std::to_string(root) +
           (in_place ? ", in place" : "") + (shared ? ", shared" : "") + ", rank " + std::to_string(rank) + " of " +
           std::to_string(ranks);
  }
};

// Whether a call can use this algorithm and protocol; rejected combinations have tests of their own.
template <class Comm>
bool possible(Comm& comm, dynamic_schedule const& s, collective c, algorithm_id id, protocol how, std::size_t bytes) {
  if (comm.size() == 1) return true;
  using Transport = std::remove_reference_t<decltype(comm.engine().transport())>;
  std::size_t const blocks = deals(c) ? static_cast<std::size_t>(comm.size()) : 1;
  switch (how) {
    case protocol::packet:
      return detail::shares_packets<Transport> && id == algorithm_id::one_shot &&
             bytes * blocks <= detail::max_packet_bytes;
    case protocol::direct: return detail::maps_memory<Transport> && s.direct;
    case protocol::pull:
      if constexpr (detail::maps_memory<Transport>) return s.direct && s.fetchable && comm.engine().transport().pulls();
      else return false;
    default: return true;
  }
}

// An array between two guards that must not be written, in private memory or from comm.allocate.
template <class T, class Comm>
class guarded {
 public:
  guarded(Comm& comm, std::size_t count, bool shared) : size_(count) {
    if (shared) shared_.push_back(comm.template allocate<T>(count + 2 * guard));
    else private_ = std::make_unique_for_overwrite<T[]>(count + 2 * guard);
    std::memset(static_cast<void*>(begin()), pattern, (count + 2 * guard) * sizeof(T));
  }
  std::span<T> span() { return {begin() + guard, size_}; }
  bool intact() {
    unsigned char untouched[guard * sizeof(T)];
    std::memset(untouched, pattern, sizeof untouched);
    T const* const end = begin() + guard + size_;
    return std::memcmp(begin(), untouched, sizeof untouched) == 0 && std::memcmp(end, untouched, sizeof untouched) == 0;
  }

 private:
  static constexpr std::size_t guard = 8;
  static constexpr unsigned char pattern = 0x5a;
  T* begin() { return shared_.empty() ? private_.get() : shared_.front().data(); }

  std::size_t size_;
  std::unique_ptr<T[]> private_;
  std::vector<decltype(std::declval<Comm&>().template allocate<T>(0))> shared_;
};

// op over ranks [0, ranks) of their contributions for element i, in rank order.
template <class T, class Op>
T folded(int ranks, std::size_t i, Op const& op) {
  using A = accumulator_for<Op, T>;
  auto const raw = [&](int q) {
    A value = static_cast<A>(make_value<T>(q, i));
    if constexpr (detail::has_prepare<Op, A>) value = static_cast<A>(static_cast<T>(op.prepare(value)));
    return value;
  };
  A all = raw(0);
  for (int q = 1; q < ranks; ++q) all = op(all, raw(q));
  if constexpr (detail::has_finish<Op, A>) all = op.finish(all, ranks);
  return static_cast<T>(all);
}

// Values that many checks write or compare with, computed once: f(0), f(1) and so on.
template <class T>
class known_values {
 public:
  template <class F>
  std::span<T const> range(std::size_t first, std::size_t count, F const& f) {
    std::size_t const end = first + count;
    if (end > room_) {
      room_ = std::max(end, 2 * room_);
      auto more = std::make_unique_for_overwrite<T[]>(room_);
      std::copy_n(values_.get(), size_, more.get());
      values_ = std::move(more);
    }
    for (; size_ < end; ++size_) values_[size_] = f(size_);
    return {values_.get() + first, count};
  }

 private:
  std::unique_ptr<T[]> values_;
  std::size_t size_ = 0, room_ = 0;
};

// Elements [first, first + count) of a rank's contribution, and of all that were folded.
template <class T>
std::span<T const> contribution(int rank, std::size_t first, std::size_t count) {
  thread_local std::map<int, known_values<T>> known;
  return known[rank].range(first, count, [&](std::size_t i) { return make_value<T>(rank, i); });
}
template <class T, class Op>
std::span<T const> folded_range(int ranks, std::size_t first, std::size_t count, Op const& op) {
  thread_local std::map<int, known_values<T>> known;
  return known[ranks].range(first, count, [&](std::size_t i) { return folded<T>(ranks, i, op); });
}

template <class Comm>
class conformance {
 public:
  explicit conformance(Comm& comm) : comm_(comm) {}

  // Any collective, with an operation for those that need one.
  template <class T, class Op>
  void check(collective what, trial const& t, Op const& op) {
    switch (what) {
      case collective::all_reduce: return reduction<T, collective::all_reduce>(t, op, comm_.size());
      case collective::reduce: return reduction<T, collective::reduce>(t, op, comm_.size());
      case collective::scan: return reduction<T, collective::scan>(t, op, comm_.rank() + 1);
      case collective::exclusive_scan: return reduction<T, collective::exclusive_scan>(t, op, comm_.rank());
      case collective::reduce_scatter: return reduce_scatter<T>(t, op);
      case collective::broadcast: return broadcast<T>(t);
      case collective::all_gather: return all_gather<T>(t);
      case collective::gather: return gather<T>(t);
      case collective::scatter: return scatter<T>(t);
      case collective::all_to_all: return all_to_all<T>(t);
      case collective::barrier: return tutti::barrier(comm_, t.options);
    }
  }

  // Only all_reduce, for tests over many types and operations, because every algorithm serves it.
  template <class T, class Op>
  void check_all_reduce(trial const& t, Op const& op) {
    reduction<T, collective::all_reduce>(t, op, comm_.size());
  }

  // The _v form, if there is one; blocks of 0, 1, ... times t.count elements and some more.
  template <class T, class Op>
  void check_ragged(collective what, trial const& t, Op const& op) {
    switch (what) {
      case collective::reduce_scatter: return reduce_scatter_v<T>(t, op);
      case collective::all_gather: return all_gather_v<T>(t);
      case collective::gather: return gather_v<T>(t);
      case collective::scatter: return scatter_v<T>(t);
      case collective::all_to_all: return all_to_all_v<T>(t);
      default: return;
    }
  }

 private:
  int rank() const { return comm_.rank(); }
  std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }
  std::size_t self() const { return static_cast<std::size_t>(comm_.rank()); }

  template <class T>
  static void fill(std::span<T> data, int rank, std::size_t first = 0) {
    std::copy_n(contribution<T>(rank, first, data.size()).data(), data.size(), data.data());
  }
  template <class T>
  void compare(collective what, trial const& t, std::span<T const> got, std::span<T const> expected) {
    if (got.empty() || std::memcmp(got.data(), expected.data(), got.size_bytes()) == 0) return;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!same_bits(got[i], expected[i])) fail(what, t, "wrong element " + std::to_string(i));
  }
  // Block q, of t.count elements, has those from `first` on of rank q's contribution.
  template <class T>
  void compare_contributions(collective what, trial const& t, std::span<T const> got, std::size_t first) {
    for (std::size_t q = 0; q < ranks(); ++q)
      compare<T>(what, t, got.subspan(q * t.count, t.count), contribution<T>(int(q), first, t.count));
  }
  template <class T>
  void expect_untouched(collective what, trial const& t, guarded<T, Comm>& in, guarded<T, Comm>& out) {
    if (!in.intact() || !out.intact()) fail(what, t, "memory around a buffer was written");
  }
  [[noreturn]] void fail(collective what, trial const& t, std::string const& why) {
    throw std::runtime_error(why + ": " + t.text(what, rank(), comm_.size()));
  }

  template <class T, collective C, class Op>
  void reduction(trial const& t, Op const& op, int up_to) {
    guarded<T, Comm> in(comm_, t.count, t.shared), out(comm_, t.count, t.shared);
    auto& target = t.in_place ? in : out;
    fill(in.span(), rank());
    if constexpr (C == collective::all_reduce) tutti::all_reduce(comm_, in.span(), target.span(), op, t.options);
    else if constexpr (C == collective::reduce) tutti::reduce(comm_, in.span(), target.span(), op, t.root, t.options);
    else if constexpr (C == collective::scan) tutti::scan(comm_, in.span(), target.span(), op, t.options);
    else tutti::exclusive_scan(comm_, in.span(), target.span(), op, t.options);
    bool const gets = C == collective::reduce ? rank() == t.root : up_to > 0;
    if (gets) compare<T>(C, t, target.span(), folded_range<T>(up_to, 0, t.count, op));
    if (!gets || !t.in_place) compare<T>(C, t, in.span(), contribution<T>(rank(), 0, t.count));
    expect_untouched(C, t, in, out);
  }

  template <class T, class Op>
  void reduce_scatter(trial const& t, Op const& op) {
    guarded<T, Comm> in(comm_, t.count * ranks(), t.shared), out(comm_, t.count, t.shared);
    fill(in.span(), rank());
    auto const target = t.in_place ? in.span().subspan(self() * t.count, t.count) : out.span();
    tutti::reduce_scatter(comm_, in.span(), target, op, t.options);
    compare<T>(collective::reduce_scatter, t, target, folded_range<T>(comm_.size(), self() * t.count, t.count, op));
    expect_untouched(collective::reduce_scatter, t, in, out);
  }

  template <class T>
  void broadcast(trial const& t) {
    guarded<T, Comm> data(comm_, t.count, t.shared), none(comm_, 0, false);
    fill(data.span(), rank());
    tutti::broadcast(comm_, data.span(), t.root, t.options);
    compare<T>(collective::broadcast, t, data.span(), contribution<T>(t.root, 0, t.count));
    expect_untouched(collective::broadcast, t, data, none);
  }

  template <class T>
  void all_gather(trial const& t) {
    guarded<T, Comm> in(comm_, t.count, t.shared), out(comm_, t.count * ranks(), t.shared);
    auto const mine = t.in_place ? out.span().subspan(self() * t.count, t.count) : in.span();
    fill(mine, rank());
    tutti::all_gather(comm_, mine, out.span(), t.options);
    compare_contributions<T>(collective::all_gather, t, out.span(), 0);
    expect_untouched(collective::all_gather, t, in, out);
  }

  template <class T>
  void gather(trial const& t) {
    bool const root = rank() == t.root;
    guarded<T, Comm> in(comm_, t.count, t.shared), out(comm_, root ? t.count * ranks() : 0, t.shared);
    auto const mine = root && t.in_place ? out.span().subspan(self() * t.count, t.count) : in.span();
    fill(mine, rank());
    tutti::gather(comm_, mine, out.span(), t.root, t.options);
    if (root) compare_contributions<T>(collective::gather, t, out.span(), 0);
    expect_untouched(collective::gather, t, in, out);
  }

  template <class T>
  void scatter(trial const& t) {
    bool const root = rank() == t.root;
    guarded<T, Comm> in(comm_, root ? t.count * ranks() : 0, t.shared), out(comm_, t.count, t.shared);
    auto const mine = root && t.in_place ? in.span().subspan(self() * t.count, t.count) : out.span();
    fill(in.span(), rank());
    tutti::scatter(comm_, in.span(), mine, t.root, t.options);
    compare<T>(collective::scatter, t, mine, contribution<T>(t.root, self() * t.count, t.count));
    expect_untouched(collective::scatter, t, in, out);
  }

  template <class T>
  void all_to_all(trial const& t) {
    guarded<T, Comm> in(comm_, t.count * ranks(), t.shared), out(comm_, t.count * ranks(), t.shared);
    auto& target = t.in_place ? in : out;
    fill(in.span(), rank());
    tutti::all_to_all(comm_, in.span(), target.span(), t.options);
    compare_contributions<T>(collective::all_to_all, t, target.span(), self() * t.count);
    expect_untouched(collective::all_to_all, t, in, out);
  }

  // Block q of a _v form, and the starts of blocks.
  std::vector<std::size_t> block_counts(trial const& t, int salt = 0) const {
    std::vector<std::size_t> out(ranks());
    for (std::size_t q = 0; q < ranks(); ++q)
      out[q] = t.count * ((q + static_cast<std::size_t>(salt)) % 3) + (q * q + static_cast<std::size_t>(salt)) % 5;
    return out;
  }
  static std::vector<std::size_t> begins(std::vector<std::size_t> const& counts, std::size_t gap) {
    std::vector<std::size_t> out(counts.size());
    for (std::size_t q = 1; q < counts.size(); ++q) out[q] = out[q - 1] + counts[q - 1] + gap;
    return out;
  }
  static std::size_t total(std::vector<std::size_t> const& counts, std::size_t gap) {
    std::size_t sum = gap * counts.size();
    for (std::size_t const n : counts) sum += n;
    return sum;
  }
  // Block q has elements of rank q's contribution, from first[q] on.
  template <class T>
  void compare_blocks(collective what, trial const& t, std::span<T const> got, std::vector<std::size_t> const& counts,
                      std::vector<std::size_t> const& at, std::vector<std::size_t> const& first) {
    for (std::size_t q = 0; q < ranks(); ++q)
      compare<T>(what, t, got.subspan(at[q], counts[q]), contribution<T>(int(q), first[q], counts[q]));
  }

  template <class T>
  void all_gather_v(trial const& t) {
    std::size_t const gap = t.in_place ? 0 : 2;
    auto const counts = block_counts(t), at = begins(counts, gap);
    guarded<T, Comm> in(comm_, counts[self()], t.shared), out(comm_, total(counts, gap), t.shared);
    auto const mine = t.in_place ? out.span().subspan(at[self()], counts[self()]) : in.span();
    fill(mine, rank());
    tutti::all_gather_v(comm_, mine, out.span(), counts, t.in_place ? std::span<std::size_t const>{} : at, t.options);
    compare_blocks<T>(collective::all_gather, t, out.span(), counts, at, std::vector<std::size_t>(ranks(), 0));
    expect_untouched(collective::all_gather, t, in, out);
  }

  template <class T>
  void gather_v(trial const& t) {
    bool const root = rank() == t.root;
    auto const counts = block_counts(t), at = begins(counts, 1);
    guarded<T, Comm> in(comm_, counts[self()], t.shared), out(comm_, root ? total(counts, 1) : 0, t.shared);
    auto const mine = root && t.in_place ? out.span().subspan(at[self()], counts[self()]) : in.span();
    fill(mine, rank());
    std::span<std::size_t const> const none;
    tutti::gather_v(comm_, mine, out.span(), root ? counts : none, root ? at : none, t.root, t.options);
    if (root) compare_blocks<T>(collective::gather, t, out.span(), counts, at, std::vector<std::size_t>(ranks(), 0));
    expect_untouched(collective::gather, t, in, out);
  }

  template <class T>
  void scatter_v(trial const& t) {
    bool const root = rank() == t.root;
    auto const counts = block_counts(t), at = begins(counts, 1);
    guarded<T, Comm> in(comm_, root ? total(counts, 1) : 0, t.shared), out(comm_, counts[self()], t.shared);
    auto const mine = root && t.in_place ? in.span().subspan(at[self()], counts[self()]) : out.span();
    fill(in.span(), t.root);
    std::span<std::size_t const> const none;
    tutti::scatter_v(comm_, in.span(), root ? counts : none, mine, root ? at : none, t.root, t.options);
    compare<T>(collective::scatter, t, mine, contribution<T>(t.root, at[self()], counts[self()]));
    expect_untouched(collective::scatter, t, in, out);
  }

  template <class T, class Op>
  void reduce_scatter_v(trial const& t, Op const& op) {
    auto const counts = block_counts(t), at = begins(counts, 0);
    guarded<T, Comm> in(comm_, total(counts, 0), t.shared), out(comm_, counts[self()], t.shared);
    fill(in.span(), rank());
    auto const target = t.in_place ? in.span().subspan(at[self()], counts[self()]) : out.span();
    tutti::reduce_scatter_v(comm_, in.span(), target, counts, op, t.options);
    compare<T>(collective::reduce_scatter, t, target, folded_range<T>(comm_.size(), at[self()], counts[self()], op));
    expect_untouched(collective::reduce_scatter, t, in, out);
  }

  template <class T>
  void all_to_all_v(trial const& t) {
    // Rank r sends block_counts(salt r)[q] elements to rank q.
    auto const send = block_counts(t, rank());
    std::vector<std::size_t> receive(ranks()), first(ranks());
    for (std::size_t q = 0; q < ranks(); ++q) {
      auto const sent = block_counts(t, int(q));
      receive[q] = sent[self()];
      first[q] = begins(sent, 1)[self()];
    }
    auto const from = begins(send, 1), at = begins(receive, 0);
    guarded<T, Comm> in(comm_, total(send, 1), t.shared), out(comm_, total(receive, 0), t.shared);
    fill(in.span(), rank());
    tutti::all_to_all_v(comm_, in.span(), send, out.span(), receive, from, {}, t.options);
    compare_blocks<T>(collective::all_to_all, t, out.span(), receive, at, first);
    expect_untouched(collective::all_to_all, t, in, out);
  }

  Comm& comm_;
};

}  // namespace tutti::testing
