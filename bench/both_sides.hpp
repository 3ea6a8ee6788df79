// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective on floats, through tutti and through MPI, and what it must give. Sizes are those of nccl-tests.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include <mpi.h>

#include "tutti/tutti.hpp"

namespace bench {

inline constexpr std::array benched{tutti::collective::all_reduce, tutti::collective::broadcast,
                                    tutti::collective::reduce,     tutti::collective::reduce_scatter,
                                    tutti::collective::all_gather, tutti::collective::all_to_all,
                                    tutti::collective::barrier};

// A size is that of the larger array of a rank: the input of reduce_scatter, the output of all_gather.
struct task {
  tutti::collective what{};
  std::size_t bytes = 0;
  int ranks = 1;
  int rank = 0;
  bool in_place = false;

  std::size_t count() const { return bytes / sizeof(float); }
  std::size_t block() const { return count() / static_cast<std::size_t>(ranks); }
  std::size_t mine() const { return block() * static_cast<std::size_t>(rank); }
  bool possible() const {
    if (what == tutti::collective::barrier) return bytes == 0;
    std::size_t const unit = sizeof(float) * (tutti::by_block(what) ? static_cast<std::size_t>(ranks) : 1);
    return bytes > 0 && bytes % unit == 0;
  }
  // What tutti::explain counts: a block where every rank has one.
  std::size_t explained() const {
    return what == tutti::collective::barrier ? 1 : tutti::by_block(what) ? block() : count();
  }
  // Bytes that a link must carry, by those of the size, if the bandwidth of all links is used (nccl-tests, PERFORMANCE.md).
  double bus_factor() const {
    double const p = ranks;
    if (what == tutti::collective::all_reduce) return 2 * (p - 1) / p;
    return tutti::by_block(what) ? (p - 1) / p : 1;
  }
};

// An array and another; both of them are the same memory in part or in whole where a task is in place.
struct arrays {
  std::span<float> in, out;
};

inline arrays cut(task const& t, std::span<float> first, std::span<float> second) {
  std::span<float> const in = first.first(t.count()), out = t.in_place ? in : second.first(t.count());
  switch (t.what) {
    case tutti::collective::broadcast: return {in, in};
    case tutti::collective::all_gather:
      return {t.in_place ? out.subspan(t.mine(), t.block()) : in.first(t.block()), out};
    case tutti::collective::reduce_scatter:
      return {in, t.in_place ? in.subspan(t.mine(), t.block()) : out.first(t.block())};
    default: return {in, out};
  }
}

inline void call_tutti(tutti::communicator<tutti::shm>& comm, task const& t, arrays const& a, tutti::options const& o) {
  switch (t.what) {
    case tutti::collective::all_reduce: return tutti::all_reduce(comm, a.in, a.out, tutti::sum{}, o);
    case tutti::collective::broadcast: return tutti::broadcast(comm, a.in, 0, o);
    case tutti::collective::reduce: return tutti::reduce(comm, a.in, a.out, tutti::sum{}, 0, o);
    case tutti::collective::reduce_scatter: return tutti::reduce_scatter(comm, a.in, a.out, tutti::sum{}, o);
    case tutti::collective::all_gather: return tutti::all_gather(comm, a.in, a.out, o);
    case tutti::collective::all_to_all: return tutti::all_to_all(comm, a.in, a.out, o);
    default: return tutti::barrier(comm, o);
  }
}

inline void call_mpi(MPI_Comm comm, task const& t, arrays const& a) {
  int const n = static_cast<int>(t.count()), block = static_cast<int>(t.block());
  void const* const in = t.in_place ? MPI_IN_PLACE : a.in.data();
  float* const out = a.out.data();
  switch (t.what) {
    case tutti::collective::all_reduce: MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, comm); return;
    case tutti::collective::broadcast: MPI_Bcast(out, n, MPI_FLOAT, 0, comm); return;
    case tutti::collective::reduce:
      MPI_Reduce(t.rank == 0 ? in : a.in.data(), out, n, MPI_FLOAT, MPI_SUM, 0, comm);
      return;
    case tutti::collective::reduce_scatter:
      // In place, MPI leaves the result at the begin of the array.
      MPI_Reduce_scatter_block(in, t.in_place ? a.in.data() : out, block, MPI_FLOAT, MPI_SUM, comm);
      return;
    case tutti::collective::all_gather: MPI_Allgather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, comm); return;
    case tutti::collective::all_to_all: MPI_Alltoall(in, block, MPI_FLOAT, out, block, MPI_FLOAT, comm); return;
    default: MPI_Barrier(comm); return;
  }
}

// -- Inputs and results. Small whole numbers, so that a sum is exact in any order.

inline float pattern(std::size_t i) { return static_cast<float>(1 + i % 7); }

// What the owner of an input does before every iteration of mode `it`.
inline void rewrite(task const& t, arrays const& a, float value) {
  if (t.what == tutti::collective::broadcast && t.rank != 0) return;
  std::fill(a.in.begin(), a.in.end(), value);
}

inline void write_pattern(task const& t, arrays const& a) {
  std::fill(a.out.begin(), a.out.end(), -1.0f);
  for (std::size_t i = 0; i < a.in.size(); ++i) a.in[i] = static_cast<float>(t.rank + 1) * pattern(i);
}

// Whether the collective has turned the patterns of all ranks into its result.
inline bool right(task const& t, std::span<float const> result) {
  float const all = static_cast<float>(t.ranks * (t.ranks + 1) / 2);
  if (t.what == tutti::collective::reduce && t.rank != 0) return true;
  for (std::size_t i = 0; i < result.size(); ++i) {
    float wanted = 0;
    std::size_t const b = t.block();
    switch (t.what) {
      case tutti::collective::all_reduce:
      case tutti::collective::reduce: wanted = all * pattern(i); break;
      case tutti::collective::broadcast: wanted = pattern(i); break;
      case tutti::collective::reduce_scatter: wanted = all * pattern(t.mine() + i); break;
      case tutti::collective::all_gather: wanted = static_cast<float>(i / b + 1) * pattern(i % b); break;
      default: wanted = static_cast<float>(i / b + 1) * pattern(t.mine() + i % b);
    }
    if (result[i] != wanted) return false;
  }
  return true;
}

}  // namespace bench
