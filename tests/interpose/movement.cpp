// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives of MPI that move values, also in place, with ranks that describe the same values by different types, with
// gaps and out of order. With the argument `strict`, also what MPICH 4.0 gets wrong: it ignores the displacement of a
// single rank.
// ranks: 1 2 3 7
// on tutti: MPI_Allgather MPI_Allgatherv MPI_Alltoall MPI_Alltoallv MPI_Barrier MPI_Bcast MPI_Gather MPI_Gatherv MPI_Scatter MPI_Scatterv
#include <mpi.h>
#include <numeric>
#include <string>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

bool strict = false;
constexpr int unit = 6;  // the integers in an element of each of the types below
constexpr int hole = -1;

// A layout of the integers of an element in memory.
struct form {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int extent = 0;           // in integers
  std::vector<int> places;  // of the integers, in their order
  std::string name;

  // Elements first, first+1, ..., each of consecutive integers.
  std::vector<int> fill(int first, int n) const {
    std::vector<int> out(static_cast<std::size_t>(extent * n), hole);
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < unit; ++k)
        out[static_cast<std::size_t>(i * extent + places[static_cast<std::size_t>(k)])] = (first + i) * unit + k;
    return out;
  }
  std::vector<int> empty(int n) const { return std::vector<int>(static_cast<std::size_t>(extent * n), hole); }
};

std::vector<int> iota(int n) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

std::vector<form> make_forms() {
  std::vector<form> out(4);
  MPI_Type_contiguous(unit, MPI_INT, &out[0].type);
  out[0] = {out[0].type, unit, iota(unit), "contiguous"};

  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_contiguous(3, pair, &out[1].type);
  MPI_Type_free(&pair);
  out[1] = {out[1].type, unit, iota(unit), "contiguous pairs"};

  MPI_Datatype vector = MPI_DATATYPE_NULL;
  MPI_Type_vector(3, 2, 3, MPI_INT, &vector);
  MPI_Type_create_resized(vector, 0, 10 * sizeof(int), &out[2].type);
  MPI_Type_free(&vector);
  out[2] = {out[2].type, 10, {0, 1, 3, 4, 6, 7}, "vector with gaps"};

  int const lengths[] = {3, 3}, begins[] = {3, 0};
  MPI_Type_indexed(2, lengths, begins, MPI_INT, &out[3].type);
  out[3] = {out[3].type, unit, {3, 4, 5, 0, 1, 2}, "halves out of order"};
  for (form& f : out) MPI_Type_commit(&f.type);
  return out;
}

struct uneven {
  std::vector<int> counts, begins;  // elements; a gap of one before each block, in reverse order
  int total = 0, end = 0;

  explicit uneven(int ranks, int base) : counts(static_cast<std::size_t>(ranks)), begins(counts) {
    for (int q = ranks - 1; q >= 0; --q) {
      auto const at = static_cast<std::size_t>(q);
      counts[at] = (base * (q + 1)) % 5;
      begins[at] = ++end;
      end += counts[at];
      total += counts[at];
    }
  }
};

// Blocks of `of`, filled from first(q), in a buffer for all ranks.
template <class First>
std::vector<int> filled(form const& f, uneven const& of, First&& first) {
  auto out = f.empty(of.end);
  for (std::size_t q = 0; q < of.counts.size(); ++q) {
    auto const block = f.fill(first(static_cast<int>(q)), of.counts[q]);
    std::copy(block.begin(), block.end(), out.begin() + of.begins[q] * f.extent);
  }
  return out;
}

void check(MPI_Comm comm, form const& sent, form const& received, int n) {
  int const rank = rank_of(comm), ranks = size_of(comm), root = ranks - 1;
  std::string const what = " of " + std::to_string(n) + ", " + sent.name + " to " + received.name;
  bool const is_root = rank == root;

  auto data = is_root ? sent.fill(5, n) : received.empty(n);
  MPI_Bcast(data.data(), n, is_root ? sent.type : received.type, root, comm);
  expect(data, (is_root ? sent : received).fill(5, n), "MPI_Bcast" + what);

  auto const mine = sent.fill(rank * n, n);
  auto const all = received.fill(0, ranks * n);
  auto out = received.empty(ranks * n);
  MPI_Allgather(mine.data(), n, sent.type, out.data(), n, received.type, comm);
  expect(out, all, "MPI_Allgather" + what);
  out = received.empty(ranks * n);
  auto const own = received.fill(rank * n, n);
  std::copy(own.begin(), own.end(), out.begin() + rank * n * received.extent);
  auto const start = out;
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out.data(), n, received.type, comm);
  expect(out, all, "MPI_Allgather in place" + what);

  out = is_root ? start : std::vector<int>();
  MPI_Gather(is_root ? MPI_IN_PLACE : mine.data(), n, sent.type, out.data(), n, received.type, root, comm);
  if (is_root) expect(out, all, "MPI_Gather in place" + what);
  out = received.empty(ranks * n);
  MPI_Gather(mine.data(), n, sent.type, out.data(), n, received.type, root, comm);
  expect(out, is_root ? all : received.empty(ranks * n), "MPI_Gather" + what);

  auto const dealt = sent.fill(0, ranks * n);
  out = received.empty(n);
  MPI_Scatter(is_root ? dealt.data() : nullptr, n, sent.type, out.data(), n, received.type, root, comm);
  expect(out, received.fill(rank * n, n), "MPI_Scatter" + what);
  out = received.empty(n);
  MPI_Scatter(dealt.data(), n, sent.type, is_root ? MPI_IN_PLACE : out.data(), n, received.type, root, comm);
  expect(out, is_root ? received.empty(n) : received.fill(rank * n, n), "MPI_Scatter in place" + what);

  std::vector<int> outgoing, incoming;
  for (int q = 0; q < ranks; ++q) {
    auto const there = sent.fill(rank * 100 + q * n, n), here = received.fill(q * 100 + rank * n, n);
    outgoing.insert(outgoing.end(), there.begin(), there.end());
    incoming.insert(incoming.end(), here.begin(), here.end());
  }
  out = received.empty(ranks * n);
  MPI_Alltoall(outgoing.data(), n, sent.type, out.data(), n, received.type, comm);
  expect(out, incoming, "MPI_Alltoall" + what);
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, outgoing.data(), n, sent.type, comm);
  out.clear();
  for (int q = 0; q < ranks; ++q) {
    auto const here = sent.fill(q * 100 + rank * n, n);
    out.insert(out.end(), here.begin(), here.end());
  }
  expect(outgoing, out, "MPI_Alltoall in place" + what);
}

void check_uneven(MPI_Comm comm, form const& sent, form const& received, int base) {
  int const rank = rank_of(comm), ranks = size_of(comm), root = ranks / 2;
  bool const is_root = rank == root;
  auto const at = static_cast<std::size_t>(rank);
  std::string const what = ", " + sent.name + " to " + received.name;
  uneven const blocks(ranks, base);
  int const n = blocks.counts[at];
  auto const first = [](int q) { return q * 100; };
  auto const mine = sent.fill(first(rank), n);
  auto const all = filled(received, blocks, first);
  uneven only = blocks;  // only this rank's block
  for (int q = 0; q < ranks; ++q)
    if (q != rank) only.counts[static_cast<std::size_t>(q)] = 0;

  auto out = received.empty(blocks.end);
  MPI_Allgatherv(mine.data(), n, sent.type, out.data(), blocks.counts.data(), blocks.begins.data(), received.type,
                 comm);
  if (ranks > 1 || strict) expect(out, all, "MPI_Allgatherv" + what);
  out = filled(received, only, first);
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out.data(), blocks.counts.data(), blocks.begins.data(),
                 received.type, comm);
  expect(out, all, "MPI_Allgatherv in place" + what);

  out = received.empty(blocks.end);
  MPI_Gatherv(mine.data(), n, sent.type, out.data(), blocks.counts.data(), blocks.begins.data(), received.type, root,
              comm);
  if (is_root) expect(out, all, "MPI_Gatherv" + what);
  out = filled(received, only, first);
  MPI_Gatherv(is_root ? MPI_IN_PLACE : mine.data(), n, sent.type, out.data(), blocks.counts.data(),
              blocks.begins.data(), received.type, root, comm);
  if (is_root) expect(out, all, "MPI_Gatherv in place" + what);

  auto const dealt = filled(sent, blocks, first);
  out = received.empty(n);
  MPI_Scatterv(dealt.data(), blocks.counts.data(), blocks.begins.data(), sent.type, out.data(), n, received.type, root,
               comm);
  expect(out, received.fill(first(rank), n), "MPI_Scatterv" + what);
  out = received.empty(n);
  MPI_Scatterv(dealt.data(), blocks.counts.data(), blocks.begins.data(), sent.type, is_root ? MPI_IN_PLACE : out.data(),
               n, received.type, root, comm);
  if (!is_root) expect(out, received.fill(first(rank), n), "MPI_Scatterv in place" + what);

  // Rank r sends (r + q + base) % 5 elements to rank q, and gets as many.
  uneven pairs(ranks, 0);
  pairs.end = 0;
  for (int q = 0; q < ranks; ++q) {
    pairs.counts[static_cast<std::size_t>(q)] = (rank + q + base) % 5;
    pairs.begins[static_cast<std::size_t>(q)] = ++pairs.end;
    pairs.end += pairs.counts[static_cast<std::size_t>(q)];
  }
  auto const outgoing = filled(sent, pairs, [&](int q) { return rank * 100 + q * 10; });
  auto const incoming = [&](form const& f) { return filled(f, pairs, [&](int q) { return q * 100 + rank * 10; }); };
  out = received.empty(pairs.end);
  MPI_Alltoallv(outgoing.data(), pairs.counts.data(), pairs.begins.data(), sent.type, out.data(), pairs.counts.data(),
                pairs.begins.data(), received.type, comm);
  expect(out, incoming(received), "MPI_Alltoallv" + what);
  out = outgoing;
  MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_DATATYPE_NULL, out.data(), pairs.counts.data(), pairs.begins.data(),
                sent.type, comm);
  expect(out, incoming(sent), "MPI_Alltoallv in place" + what);
}

// The block that a rank sends lies between the blocks that it receives.
void check_between_blocks(MPI_Comm comm) {
  int const rank = rank_of(comm), ranks = size_of(comm);
  auto const p = static_cast<std::size_t>(ranks);
  std::vector<int> memory(2 * p + 1, hole), right(memory), counts(p, 1), begins;
  for (int q = 0; q < ranks; ++q) {
    begins.push_back(2 * q);
    right[static_cast<std::size_t>(2 * q)] = q;
  }
  memory[1] = right[1] = rank;
  MPI_Allgatherv(&memory[1], 1, MPI_INT, memory.data(), counts.data(), begins.data(), MPI_INT, comm);
  expect(memory, right, "MPI_Allgatherv from between the blocks");
}

}  // namespace

int main(int argc, char** argv) {
  strict = argc > 1 && std::string(argv[1]) == "strict";
  return run(MPI_THREAD_SINGLE, [](int) {
    std::vector<form> forms = make_forms();
    on_communicators([&](MPI_Comm comm) {
      for (std::size_t s = 0; s < forms.size(); ++s)
        for (std::size_t r = 0; r < forms.size(); ++r) {
          auto const shift = static_cast<std::size_t>(rank_of(comm));
          form const& sent = forms[(s + shift) % forms.size()];
          form const& received = forms[(r + 2 * shift) % forms.size()];
          for (int const n : {0, 3, 1000}) check(comm, sent, received, n);
          for (int const base : {1, 2}) check_uneven(comm, sent, received, base);
        }
      check_between_blocks(comm);
      MPI_Barrier(comm);
    });
    for (form& f : forms) MPI_Type_free(&f.type);
  });
}
