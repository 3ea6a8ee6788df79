// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One exchange for whole vectors. Two per round for blocks: to the ranks that combine, and to those that receive the result.
#include "user_reduction.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/transport/mpi/library.hpp"

namespace interpose {
namespace {

constexpr std::size_t max_round_bytes = std::size_t{256} << 10;  // fits a second-level cache
// From so many bytes on, one of three or more ranks that share cores combines for all: there, what the others save takes longer than the
// broadcast. On 4 ranks of 2 cores, a sum of 64 KiB takes 44 us instead of 109.
constexpr std::size_t min_once_bytes = std::size_t{8} << 10;

void copy(input from, std::byte* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace

template <class Deliver>
void user_reduction::in_rounds(input in, Deliver&& deliver) {
  auto const ranks = static_cast<std::size_t>(comm_.size()), rank = static_cast<std::size_t>(comm_.rank());
  std::size_t const count = in.size() / element_bytes_;
  std::size_t const most = std::max<std::size_t>(1, max_round_bytes / element_bytes_ / ranks) * ranks;
  std::size_t const longest_row = (std::min(most, count) + ranks - 1) / ranks * element_bytes_;
  message_ = std::make_unique_for_overwrite<std::byte[]>(longest_row * ranks);
  make_rows(longest_row);
  for (std::size_t begin = 0; begin < count; begin += most) {
    std::size_t const n = std::min(most, count - begin), share = (n + ranks - 1) / ranks;
    std::size_t const first = std::min(n, rank * share);
    round const r{begin * element_bytes_, n * element_bytes_, share * element_bytes_, std::min(share, n - first)};
    copy(in.subspan(r.begin, r.bytes), message_.get());
    all_to_all(comm_, message(r), rows(1, r.row));
    deliver(r);
  }
}

void user_reduction::all_reduce(input in, output out) {
  if (!splits(in.size(), comm_.size())) {
    if (comm_.size() > 2 && in.size() >= min_once_bytes && comm_.engine().transport().crowded()) {
      reduce(in, out, 0);
      return broadcast(comm_, out, 0);
    }
    all_gather(comm_, in, make_rows(in.size()));
    return copy(fold(comm_.size(), in.size()), out.data());
  }
  in_rounds(in, [&](round const& r) {
    all_gather(comm_, fold(r), message(r));
    copy(message(r).first(r.bytes), &out[r.begin]);
  });
}

void user_reduction::reduce(input in, output out, int root) {
  bool const is_root = comm_.rank() == root;
  if (!splits(in.size(), comm_.size())) {
    gather(comm_, in, is_root ? make_rows(in.size()) : output(), root);
    if (is_root) copy(fold(comm_.size(), in.size()), out.data());
    return;
  }
  in_rounds(in, [&](round const& r) {
    gather(comm_, fold(r), message(r), root);
    if (is_root) copy(message(r).first(r.bytes), &out[r.begin]);
  });
}

void user_reduction::scan(input in, output out) {
  if (!splits(in.size(), comm_.size())) {
    all_gather(comm_, in, make_rows(in.size()));
    return copy(fold(comm_.rank() + 1, in.size()), out.data());
  }
  in_rounds(in, [&](round const& r) {
    make_prefixes(r);
    all_to_all(comm_, rows(1, r.row), message(r));
    copy(message(r).first(r.bytes), &out[r.begin]);
  });
}

void user_reduction::exclusive_scan(input in, output out) {
  if (!splits(in.size(), comm_.size())) {
    all_gather(comm_, in, make_rows(in.size()));
    if (comm_.rank() > 0) copy(fold(comm_.rank(), in.size()), out.data());
    return;
  }
  in_rounds(in, [&](round const& r) {
    make_prefixes(r);
    all_to_all(comm_, rows(0, r.row), message(r));
    if (comm_.rank() > 0) copy(message(r).first(r.bytes), &out[r.begin]);
  });
}

void user_reduction::reduce_scatter(input in, output out, sizes counts) {
  std::size_t const mine = counts[static_cast<std::size_t>(comm_.rank())];
  std::vector<std::size_t> const received(counts.size(), mine);
  all_to_all_v(comm_, in, counts, make_rows(mine), received, {}, {});
  copy(fold(comm_.size(), mine), out.data());
}

output user_reduction::make_rows(std::size_t bytes) {
  rows_ = std::make_unique_for_overwrite<std::byte[]>(bytes * static_cast<std::size_t>(comm_.size() + 1));
  return rows(1, bytes);
}

output user_reduction::fold(int ranks, std::size_t row_bytes, std::size_t elements) const {
  output const result = row(ranks - 1, row_bytes);
  for (int q = ranks - 2; q >= 0; --q) combine(row(q, row_bytes), result, elements);
  return result;
}

void user_reduction::make_prefixes(round const& r) const {
  for (int q = 1; q < comm_.size(); ++q) combine(row(q - 1, r.row), row(q, r.row), r.elements);
}

void user_reduction::combine(input left, output right, std::size_t elements) const {
  if (elements == 0) return;
  tutti::detail::expect_success(PMPI_Reduce_local(left.data(), right.data(), static_cast<int>(elements), type_, op_),
                                "MPI_Reduce_local");
}

}  // namespace interpose
