// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The jobs of one launch for the virtual ranks of a device: the blocks that a collective moves or combines, and the threads
// of the grid that take each. With several devices, a job runs on the device of one of the ranks whose memory it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/combining.hpp"
#include "tutti/device/kernel/for_device.hpp"
#include "tutti/device/kernel/shares.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/rows.hpp"

namespace tutti::detail {

// The prologue of an operation: a contribution is rounded to T after op.prepare, as on the host.
template <class T, class Op>
struct prepared {
  Op op;

  template <class A>
  TUTTI_HOST_DEVICE A operator()(A const& x) const {
    expect_for_device<Op const, A const>(preparing{});
    return widened<A>(narrowed<T>(rounded(static_cast<A>(op.prepare(x)))));
  }
};
template <class Op>
struct finished {
  Op op;
  int ranks;

  template <class A>
  TUTTI_HOST_DEVICE A operator()(A const& x) const {
    expect_for_device<Op const, A const>(finishing{});
    return static_cast<A>(op.finish(x, ranks));
  }
};

// Two stages, one after the other; the first may ask which source it is applied to.
template <class First, class Then>
struct both {
  First first;
  Then then;

  template <class A>
  TUTTI_HOST_DEVICE A operator()(A const& x) const {
    expect_for_device<A const>(first);
    expect_for_device<A const>(then);
    return static_cast<A>(then(static_cast<A>(first(x))));
  }
  template <class A>
    requires requires(First const& f, A const& x) { f(0, x); }
  TUTTI_HOST_DEVICE A operator()(int k, A const& x) const {
    expect_for_device<int const, A const>(first);
    expect_for_device<A const>(then);
    return static_cast<A>(then(static_cast<A>(first(k, x))));
  }
  template <class A, class S, int Arrays>
  TUTTI_HOST_DEVICE auto operator()(A const& x, S (&values)[Arrays]) const {
    expect_for_device<A const>(first);
    expect_for_device<A const, S[Arrays]>(then);
    return then(static_cast<A>(first(x)), values);
  }
};
template <class First, class Then>
auto one_after_other(First const& first, Then const& then) {
  if constexpr (std::is_same_v<First, unchanged>) return then;
  else if constexpr (std::is_same_v<Then, unchanged>) return first;
  else return both<First, Then>{first, then};
}
template <class First, class Step, class S, int Arrays, held Elements>
auto one_after_other(First const& first, arrays_step<Step, S, Arrays, Elements> then) {
  arrays_step<both<First, Step>, S, Arrays, Elements> out{{first, then.step}, {}};
  for (int k = 0; k < Arrays; ++k) out.arrays[k] = then.arrays[k];
  return out;
}

// Merges the prologue and epilogue of the operation with those of the call, so that one pass applies both: the prologue of the call
// before that of the operation, and its epilogue after.
template <class T, class Op, class Before, class After>
auto in_stages(fused<Op, Before, After> const& how, int ranks) {
  using A = accumulator_for<Op, T>;
  auto const before = [&] {
    if constexpr (has_prepare<Op, A>) return one_after_other(how.before, prepared<T, Op>{how.op});
    else return how.before;
  }();
  auto const after = [&] {
    if constexpr (has_finish<Op, A>) return one_after_other(finished<Op>{how.op, ranks}, how.after);
    else return how.after;
  }();
  return fused{how.op, before, after};
}
template <class T, class Op>
auto in_stages(Op const& op, int ranks) {
  return in_stages<T>(fused{op}, ranks);
}

template <class T, class How, class Epilogue>
auto in_stages(row_wise<How, Epilogue> const& op, int ranks) {
  auto const how = in_stages<T>(op.how, ranks);
  return row_wise<std::remove_const_t<decltype(how)>, Epilogue>{how, op.length, op.epilogue};
}

// Whether the operation finishes its result, which has no meaning for the prefixes of a scan.
template <class Op, class T>
inline constexpr bool finishes_result = has_finish<Op, accumulator_for<Op, T>>;
template <class Op, class Before, class After, class T>
inline constexpr bool finishes_result<fused<Op, Before, After>, T> = finishes_result<Op, T>;

// Values that are only moved travel as the widest words that their alignment allows.
template <class T>
using word_of =
    std::conditional_t<alignof(T) % 8 == 0, std::uint64_t,
                       std::conditional_t<alignof(T) % 4 == 0, std::uint32_t,
                                          std::conditional_t<alignof(T) % 2 == 0, std::uint16_t, std::uint8_t>>>;
template <class T>
inline constexpr std::size_t words_in = sizeof(T) / sizeof(word_of<T>);
inline constexpr fused<bit_or> word_moves{};  // of one source, so nothing is combined

// A block of the buffer of a rank.
struct place {
  int rank, block;
};

// The jobs of a collective, from its row in the table. Job j combines the blocks from(j, k) in the order of k, and stores the
// result to the blocks to(j, k), with the bits of schedule<one_shot, C>. A buffer that only the root has is that of rank 0.
template <collective C>
struct local_jobs {
  static constexpr bool dealt = deals(C), collected = collects(C), combined = reduces(C);
  static constexpr contributions result = row_of(C).result;
  static constexpr bool of_pairs = result == contributions::transposed;  // a job for each pair of ranks
  static constexpr bool from_root = row_of(C).input == only_root(holding::all);
  static constexpr bool to_root = row_of(C).output == only_root(holding::all);
  static constexpr bool to_all = collected && !to_root && !of_pairs;  // a block goes to every rank
  // Whether no job reads what another writes in a call in place.
  static constexpr bool in_place = !of_pairs && !is_prefix(C);

  int ranks;

  TUTTI_HOST_DEVICE constexpr int jobs() const { return of_pairs ? ranks * ranks : ranks; }
  // The jobs of consecutive ranks.
  constexpr extent jobs_of(extent some) const {
    std::size_t const each = static_cast<std::size_t>(jobs() / ranks);
    return {some.begin * each, some.count * each};
  }
  TUTTI_HOST_DEVICE constexpr int sources(int job) const {
    return !combined                              ? 1
           : result == contributions::up_to_self  ? job + 1
           : result == contributions::before_self ? job
                                                  : ranks;
  }
  TUTTI_HOST_DEVICE constexpr place from(int job, int k) const {
    if (of_pairs) return {job / ranks, job % ranks};
    return {combined ? k : from_root ? 0 : job, dealt ? job : 0};
  }
  TUTTI_HOST_DEVICE constexpr int destinations() const { return to_all ? ranks : 1; }
  TUTTI_HOST_DEVICE constexpr place to(int job, int k) const {
    if (of_pairs) return {job % ranks, job / ranks};
    return {to_all ? k : to_root ? 0 : job, collected ? job : 0};
  }
};

// Where the blocks of a message begin, and how many elements they have.
struct even_blocks {
  static constexpr bool even = true;
  std::size_t n;

  TUTTI_HOST_DEVICE std::size_t begin(int block) const { return static_cast<std::size_t>(block) * n; }
  TUTTI_HOST_DEVICE std::size_t count(int) const { return n; }
};
// Blocks of uneven sizes, one after another.
struct ragged_blocks {
  static constexpr bool even = false;
  std::size_t begins[max_destinations + 1];

  TUTTI_HOST_DEVICE std::size_t begin(int block) const { return begins[block]; }
  TUTTI_HOST_DEVICE std::size_t count(int block) const { return begins[block + 1] - begins[block]; }
};

// In the _v forms, all blocks of job j are as long as block j.
template <collective C, class T, class Fused, class Blocks = even_blocks>
struct local_work {
  T const* in[max_destinations];
  T* out[max_destinations];
  local_jobs<C> plan;
  int first, count;  // of the jobs of this launch
  Blocks blocks;
  Fused how;
  static constexpr int fan_in = reduces(C) ? 0 : 1;

  // The number of threads that have something to do.
  std::size_t items() const {
    std::size_t const jobs = static_cast<std::size_t>(count);
    if constexpr (Blocks::even) return jobs * (blocks.count(first) / row + 1) * warp_threads;
    else return ((blocks.begin(first + count) - blocks.begin(first)) / row + 1) * warp_threads;
  }

  template <cooperating_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group) const {
    if constexpr (Blocks::even) {
      team const mine = team_of(group, count);
      TUTTI_NO_UNROLL
      for (int job = first + mine.first; job < first + count; job += mine.teams)
        carry_out(mine, job, 0, blocks.count(job));
    } else {
      share_evenly(
          group, count, [this](int job) { return blocks.begin(first + job + 1) - blocks.begin(first); }, row,
          [this](team const& mine, int job, std::size_t begin, std::size_t n) {
            carry_out(mine, first + job, begin, n);
          });
    }
  }

 private:
  static constexpr std::size_t row = warp_threads * device_pack<T>;  // elements that a warp loads at once

  // A part of a job.
  TUTTI_HOST_DEVICE void carry_out(team const& mine, int job, std::size_t begin, std::size_t n) const {
    if (plan.sources(job) == 0) return;
    auto const from = [this, job, begin](int k) {
      place const p = plan.from(job, k);
      return in[p.rank] + blocks.begin(p.block) + begin;
    };
    auto const to = [this, job, begin](int k) {
      place const p = plan.to(job, k);
      return out[p.rank] + blocks.begin(p.block) + begin;
    };
    combining<fan_in, decltype(from), decltype(to), Fused, true>{from, plan.sources(job), to, plan.destinations(), n,
                                                                 how}(mine);
  }
};

// Moves n words from one place to another, or to the same.
template <cooperating_group Group, class Word>
TUTTI_HOST_DEVICE void move_words(Group const& group, Word const* from, Word* to, std::size_t n) {
  auto const source = [from](int) { return from; };
  auto const destination = [to](int) { return to; };
  fused<bit_or> const how{};  // a constant of the host is none on a device
  combining<1, decltype(source), decltype(destination), fused<bit_or>, true>{source, 1, destination, 1, n, how}(group);
}
template <cooperating_group Group, class T>
TUTTI_HOST_DEVICE void move_elements(Group const& group, T const* from, T* to, std::size_t n) {
  using word = word_of<T>;
  move_words(group, reinterpret_cast<word const*>(from), reinterpret_cast<word*>(to), n * words_in<T>);
}

// Blocks of uneven sizes that one launch moves.
template <class Word>
struct block_moves {
  struct block {
    Word const* from;
    Word* to;
    std::size_t end;  // words of this block and of those before it
  };
  block all[max_destinations];
  int count = 0;

  void add(Word const* from, Word* to, std::size_t n) {
    if (n == 0 || from == to) return;
    all[count] = {from, to, (count > 0 ? all[count - 1].end : 0) + n};
    ++count;
  }
  // The number of threads that have something to do.
  std::size_t items() const { return count > 0 ? (all[count - 1].end / row + 1) * warp_threads : 0; }

  template <cooperating_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group) const {
    share_evenly(
        group, count, [this](int job) { return all[job].end; }, row,
        [this](team const& mine, int job, std::size_t begin, std::size_t n) {
          move_words(mine, all[job].from + begin, all[job].to + begin, n);
        });
  }

 private:
  static constexpr std::size_t row = warp_threads * device_pack<Word>;  // words that a warp moves at once
};

}  // namespace tutti::detail
