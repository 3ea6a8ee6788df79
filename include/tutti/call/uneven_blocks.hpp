// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The blocks of _v forms, whose sizes differ: their counts and offsets, and the checks of the buffers that hold them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/check_arguments.hpp"
#include "tutti/call/lent_memory.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/execute/plan.hpp"

namespace tutti::detail {

// A count and an offset for each rank, as a caller passes them, in elements. Without offsets, blocks follow each other
// without gaps.
struct block_sizes {
  std::span<std::size_t const> counts, offsets = {};
};

// Copies of counts and offsets, which a call keeps. A blocking call borrows its vector from the engine, so that it allocates nothing.
class counts_and_offsets {
 public:
  counts_and_offsets() = default;
  explicit counts_and_offsets(lent_numbers& kept) {
    if (kept.lent.exchange(true, std::memory_order_acquire)) return;
    kept_ = &kept;
    all_.swap(kept.all);
    all_.clear();
  }
  counts_and_offsets(counts_and_offsets&& other) noexcept
      : all_(std::move(other.all_)), kept_(std::exchange(other.kept_, nullptr)) {}
  counts_and_offsets& operator=(counts_and_offsets&&) = delete;
  ~counts_and_offsets() {
    if (kept_ == nullptr) return;
    all_.swap(kept_->all);
    kept_->lent.store(false, std::memory_order_release);
  }

  // Room for `lists` lists of a number for each rank, which stay where they are.
  std::size_t* make_room(int lists, int ranks) {
    all_.resize(static_cast<std::size_t>(lists) * static_cast<std::size_t>(ranks));
    return all_.data();
  }

 private:
  std::vector<std::size_t> all_;
  lent_numbers* kept_ = nullptr;
};

// Where the blocks of buffer `s` of `size` elements lie, each of which is `unit` units of the layout. The layout refers to
// `room`, for two numbers for each rank. Throws error: bad_argument.
[[gnu::noinline]] inline layout lay_out_blocks(int rank, int ranks, collective c, side s, block_sizes const& blocks,
                                               std::size_t size, std::size_t unit, std::size_t* room,
                                               std::source_location where) {
  auto const p = static_cast<std::size_t>(ranks);
  auto const expect_one_each = [&](std::size_t given, char const* what) {
    if (given != p)
      refuse(rank,
             join({name(c), "_v needs ", what, " for each of ", ranks, " ranks, but the list for the ", name(s),
                   " has ", given}),
             join({"pass ", ranks}), where);
  };
  expect_one_each(blocks.counts.size(), "a count");
  if (!blocks.offsets.empty()) expect_one_each(blocks.offsets.size(), "an offset");
  std::size_t next = 0;
  for (std::size_t q = 0; q < p; ++q) {
    std::size_t const count = blocks.counts[q], offset = blocks.offsets.empty() ? next : blocks.offsets[q];
    if (offset > size || count > size - offset)
      refuse(rank,
             join({"block ", q, " of the ", name(s), " of ", name(c), "_v has ", count, " elements from element ",
                   offset, " on, but the buffer has ", size, " elements"}),
             "pass a larger buffer, or correct counts and offsets, which may have been negative", where);
    room[q] = count * unit;
    room[p + q] = offset * unit;
    next = offset + count;
  }
  return layout::table(room, room + p, ranks);
}

[[noreturn, gnu::cold]] inline void refuse_own_block(int rank, collective c, std::size_t in, std::size_t out,
                                                     std::source_location where) {
  refuse(rank,
         join({"the block of this rank in ", name(c), "_v has ", in, " elements in the input, but ", out,
               " in the output"}),
         "pass counts and buffers that agree", where);
}
[[noreturn, gnu::cold]] inline void refuse_end(int rank, collective c, side s, std::size_t size, std::size_t end,
                                               std::source_location where) {
  refuse(rank, join({name_of_buffer(c, s), "_v has ", size, " elements, but its blocks have ", end}),
         join({"pass ", end, " elements, or correct the counts"}), where);
}

// The checked buffers of a _v form, and where their blocks lie.
template <class In, class Out>
struct uneven_buffers {
  call_buffers<In, Out> used;  // `count` is that of this rank's block, in elements
  layout given, got, sizes;    // of the input, the output, and of blocks that are only passed on
};

// The list that all ranks pass alike, if there is one.
template <collective C>
std::span<std::size_t const> known_counts(block_sizes const& sent, block_sizes const& received) {
  if constexpr (rooted(C) || (deals(C) && collects(C))) return {};
  else return deals(C) ? sent.counts : received.counts;
}

// The request of a _v form. Ranks must agree on the hash of the counts, where all know them.
inline request ragged(request r, std::span<std::size_t const> counts) {
  r.ragged = true;
  r.sizes = hash_of_sizes(counts);
  // The choice goes by the mean block, which all know where they know the counts.
  if (!counts.empty()) r.count = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) / counts.size();
  return r;
}

// As check_buffers, for a _v form. `sent` and `received` matter for a buffer that has a block for every rank. The layouts are
// in `unit` parts of an element, and refer to `lists`.
template <collective C, bool AreCompared = true, class Comm, class In, class Out>
uneven_buffers<In, Out> check_uneven_buffers(Comm const& comm, std::span<In const> in, block_sizes const& sent,
                                             std::span<Out> out, block_sizes const& received, std::size_t unit,
                                             counts_and_offsets& lists, int root, std::source_location where) {
  if constexpr (rooted(C)) expect_root(comm, root, where);
  constexpr bool has_in_place = std::is_same_v<In, Out> && !(deals(C) && collects(C));
  int const rank = comm.rank(), ranks = comm.size();
  bool const is_root = rank == root;
  bool const gives = row_of(C).input.at(is_root) != holding::none, gets = row_of(C).output.at(is_root) != holding::none;
  if (gives) expect_possible_array<C, side::input>(rank, in, "_v", where);
  if (gets) expect_possible_array<C, side::output>(rank, out, "_v", where);
  std::size_t* room = lists.make_room((deals(C) && gives ? 2 : 0) + (collects(C) && gets ? 2 : 0), ranks);

  uneven_buffers<In, Out> all{{gives ? in.data() : nullptr, gets ? out.data() : nullptr, 0, false}, {}, {}, {}};
  if (deals(C) && gives) {
    all.given = lay_out_blocks(rank, ranks, C, side::input, sent, in.size(), unit, room, where);
    room += 2 * static_cast<std::size_t>(ranks);
  }
  if (collects(C) && gets)
    all.got = lay_out_blocks(rank, ranks, C, side::output, received, out.size(), unit, room, where);
  // A root's list is not known to the others, who have no block but their own.
  std::size_t const own = deals(C) ? out.size() : in.size();
  all.sizes = rooted(C) ? layout::blocks(own * unit, ranks) : collects(C) ? all.got : all.given;
  if (!deals(C)) all.given = all.sizes.only(rank);
  if (!collects(C)) all.got = all.sizes.only(rank);
  all.used.count = own;
  if (!gives || !gets) return all;

  extent const own_in = deals(C) ? all.given.at(0, rank) : extent{0, in.size() * unit};
  extent const own_out = collects(C) ? all.got.at(0, rank) : extent{0, out.size() * unit};
  if (own_in.count != own_out.count) refuse_own_block(rank, C, own_in.count / unit, own_out.count / unit, where);
  all.used.count = own_in.count / unit;
  // Without offsets, nothing may be left over.
  if (reduces(C) && in.size() != all.given.end() / unit)
    refuse_end(rank, C, side::input, in.size(), all.given.end() / unit, where);

  if constexpr (!AreCompared) return all;
  std::size_t const in_end = deals(C) ? all.given.end() / unit : in.size();
  std::size_t const out_end = collects(C) ? all.got.end() / unit : out.size();
  all.used.in_place = has_in_place && is_in_place<C>(in.data(), own_in.begin / unit, out.data(), own_out.begin / unit);
  if (!all.used.in_place && overlap(in.data(), in_end * sizeof(In), out.data(), out_end * sizeof(Out)))
    refuse_overlap(rank, is_root, C, has_in_place, where);
  return all;
}

}  // namespace tutti::detail
