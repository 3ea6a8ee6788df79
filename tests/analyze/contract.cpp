// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The contract that follows from the table of collectives is what MPI-4.1 specifies, written down here independently.
#include "tutti/analyze/contract.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;

namespace {

// The chunks of a buffer, each with the contributions that it contains: "0.2 1.2" is chunk 2 of ranks 0 and 1.
using chunk_list = std::vector<std::string>;
std::string contribution_of(int rank, int chunk) { return std::to_string(rank) + "." + std::to_string(chunk) + " "; }
std::string of_ranks_below(int end, int chunk) {
  std::string out;
  for (int q = 0; q < end; ++q) out += contribution_of(q, chunk);
  return out;
}

// The output of a rank according to the standard. A chunk that the rank does not receive is empty.
chunk_list specified(collective c, shape s, int rank) {
  auto const p = static_cast<std::size_t>(s.ranks);
  chunk_list out(p);
  for (int chunk = 0; chunk < s.ranks; ++chunk) {
    std::string& result = out[static_cast<std::size_t>(chunk)];
    switch (c) {
      case collective::all_reduce:
      case collective::barrier: result = of_ranks_below(s.ranks, chunk); break;
      case collective::reduce: result = rank == s.root ? of_ranks_below(s.ranks, chunk) : ""; break;
      case collective::broadcast: result = rank == s.root ? "" : contribution_of(s.root, chunk); break;
      case collective::reduce_scatter: result = chunk == rank ? of_ranks_below(s.ranks, rank) : ""; break;
      case collective::all_gather: result = contribution_of(chunk, chunk); break;
      case collective::gather: result = rank == s.root ? contribution_of(chunk, chunk) : ""; break;
      case collective::scatter: result = chunk == rank ? contribution_of(s.root, rank) : ""; break;
      case collective::all_to_all: result = contribution_of(chunk, rank); break;
      case collective::scan: result = of_ranks_below(rank + 1, chunk); break;
      case collective::exclusive_scan: result = of_ranks_below(rank, chunk); break;
    }
  }
  return out;
}

chunk_list promised(collective c, shape s, int rank) {
  chunk_list out;
  for (int chunk = 0; chunk < s.ranks; ++chunk) {
    std::string result;
    promise const due = promise_of(c, s, rank, chunk);
    if (has(output_of(c, s, rank), rank, chunk))
      for (int q = due.first; q < due.first + due.count; ++q) {
        CHECK(has(input_of(c, s, q), q, due.chunk));
        result += contribution_of(q, due.chunk);
      }
    out.push_back(result);
  }
  return out;
}

}  // namespace

TEST_CASE("every rank is promised what the standard specifies") {
  for (collective const c : every_collective)
    for (int ranks = 1; ranks <= 5; ++ranks)
      for (int root = 0; root < (rooted(c) ? ranks : 1); ++root)
        for (int rank = 0; rank < ranks; ++rank) {
          CAPTURE(name(c));
          CAPTURE(rank);
          shape const s{.ranks = ranks, .root = root};
          CHECK(promised(c, s, rank) == specified(c, s, rank));
        }
}

TEST_CASE("ranks pass no more than the standard asks for") {
  shape const s{.ranks = 3, .root = 1};
  CHECK(input_of(collective::broadcast, s, 0) == holding::none);
  CHECK(input_of(collective::scatter, s, 2) == holding::none);
  CHECK(input_of(collective::all_gather, s, 1) == holding::own);
  CHECK(input_of(collective::gather, s, 1) == holding::own);
  CHECK(input_of(collective::reduce_scatter, s, 0) == holding::all);
  CHECK(output_of(collective::gather, s, 0) == holding::none);
  CHECK(output_of(collective::reduce, s, 2) == holding::none);
}

TEST_CASE("the order of combination, repetition and completion follow from the result") {
  shape const any{.ranks = 4}, ordered{.ranks = 4, .ordered = true};
  for (collective const c : every_collective) {
    CAPTURE(name(c));
    bool const is_barrier = c == collective::barrier, scans = c == collective::scan || c == collective::exclusive_scan;
    CHECK(may_repeat(c) == is_barrier);
    CHECK(in_rank_order(c, ordered) == !is_barrier);
    CHECK(in_rank_order(c, any) == (!is_barrier && !reduces(c)));
    CHECK(completes(c) == (reduces(c) && !scans));
    CHECK(renumbers(c) == (c == collective::all_to_all));
  }
}
