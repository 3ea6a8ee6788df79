// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two exchanges per round: to the ranks that combine, and to those that receive the result.
#include "user_reduction.hpp"

#include <algorithm>
#include <cstring>

#include "tutti/core/error.hpp"
#include "tutti/transport/mpi/library.hpp"

namespace interpose {
namespace {

constexpr std::size_t max_round_bytes = std::size_t{256} << 10;  // fits a second-level cache

void copy(input from, std::byte* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace

template <class Deliver>
void user_reduction::in_rounds(input in, Deliver&& deliver) {
  auto const ranks = static_cast<std::size_t>(comm_.size()), rank = static_cast<std::size_t>(comm_.rank());
  std::size_t const count = in.size() / element_bytes_;
  std::size_t const most = std::max<std::size_t>(1, max_round_bytes / element_bytes_ / ranks) * ranks;
  for (std::size_t begin = 0; begin < count; begin += most) {
    std::size_t const n = std::min(most, count - begin), share = (n + ranks - 1) / ranks;
    std::size_t const first = std::min(n, rank * share);
    round const r{begin * element_bytes_, n * element_bytes_, share * element_bytes_, std::min(share, n - first)};
    message_.resize(r.row * ranks);
    rows_.resize(r.row * (ranks + 1));
    copy(in.subspan(r.begin, r.bytes), message_.data());
    all_to_all(comm_, message_, output(rows_).subspan(r.row));
    deliver(r);
  }
}

void user_reduction::all_reduce(input in, output out) {
  in_rounds(in, [&](round const& r) {
    all_gather(comm_, fold(r), message_);
    copy(input(message_).first(r.bytes), &out[r.begin]);
  });
}

void user_reduction::reduce(input in, output out, int root) {
  in_rounds(in, [&](round const& r) {
    gather(comm_, fold(r), message_, root);
    if (comm_.rank() == root) copy(input(message_).first(r.bytes), &out[r.begin]);
  });
}

void user_reduction::scan(input in, output out) {
  in_rounds(in, [&](round const& r) {
    make_prefixes(r);
    all_to_all(comm_, output(rows_).subspan(r.row), message_);
    copy(input(message_).first(r.bytes), &out[r.begin]);
  });
}

void user_reduction::exclusive_scan(input in, output out) {
  in_rounds(in, [&](round const& r) {
    make_prefixes(r);
    all_to_all(comm_, output(rows_).first(message_.size()), message_);
    if (comm_.rank() > 0) copy(input(message_).first(r.bytes), &out[r.begin]);
  });
}

void user_reduction::reduce_scatter(input in, output out, sizes counts) {
  auto const ranks = static_cast<std::size_t>(comm_.size());
  std::size_t const mine = counts[static_cast<std::size_t>(comm_.rank())];
  std::vector<std::size_t> const received(ranks, mine);
  rows_.resize(mine * (ranks + 1));
  all_to_all_v(comm_, in, counts, output(rows_).subspan(mine), received, {}, {});
  if (mine > 0) copy(fold({0, 0, mine, mine / element_bytes_}), out.data());
}

output user_reduction::fold(round const& r) {
  output const result = row(comm_.size() - 1, r.row);
  for (int q = comm_.size() - 2; q >= 0; --q) combine(row(q, r.row), result, r.elements);
  return result;
}

void user_reduction::make_prefixes(round const& r) {
  for (int q = 1; q < comm_.size(); ++q) combine(row(q - 1, r.row), row(q, r.row), r.elements);
}

void user_reduction::combine(input left, output right, std::size_t elements) const {
  if (elements == 0) return;
  tutti::detail::expect_success(PMPI_Reduce_local(left.data(), right.data(), static_cast<int>(elements), type_, op_),
                                "MPI_Reduce_local");
}

}  // namespace interpose
