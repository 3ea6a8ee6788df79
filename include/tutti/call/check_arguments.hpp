// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks of a call's buffers, before any communication. They follow from the table of collectives, so host and
// device reject the same arguments with the same messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/layout.hpp"

namespace tutti::detail {

template <class Comm>
void expect_size(Comm const& comm, text_part const& what, std::size_t size, std::size_t expected,
                 std::source_location where) {
  if (size == expected) return;
  refuse(comm.rank(), join({what.view(), " has ", size, " elements, but the call needs ", expected}),
         join({"pass ", expected}), where);
}

template <class Comm>
void expect_root(Comm const& comm, int root, std::source_location where) {
  if (root >= 0 && root < comm.size()) return;
  refuse(comm.rank(), join({"root ", root, " is not a rank of a communicator of ", comm.size(), " ranks"}),
         join({"use a rank from 0 to ", comm.size() - 1}), where);
}

inline bool overlap(void const* one, std::size_t one_bytes, void const* other, std::size_t other_bytes) {
  auto const a = reinterpret_cast<std::uintptr_t>(one), b = reinterpret_cast<std::uintptr_t>(other);
  return one_bytes > 0 && other_bytes > 0 && a < b + other_bytes && b < a + one_bytes;
}

// Rejects an input and output that overlap, unless the output is at `same_place`.
inline void expect_apart(int rank, void const* in, std::size_t in_bytes, void const* out, std::size_t out_bytes,
                         void const* same_place, std::source_location where) {
  if (out != same_place && overlap(in, in_bytes, out, out_bytes))
    refuse(rank, "input and output overlap, but are not in place", "use one buffer, or two that do not overlap", where);
}

enum class side : std::uint8_t { input, output };
constexpr std::string_view name(side s) { return s == side::input ? "input" : "output"; }

// "the output of all_reduce", "the root's input of scatter"
[[gnu::cold]] inline std::string name_of_buffer(collective c, side s) {
  holdings const held = s == side::input ? row_of(c).input : row_of(c).output;
  return join({held == only_root(holding::all) ? "the root's " : "the ", name(s), " of ", name(c)});
}

// Rejects the buffer `s` of this rank, which should have a block for every rank but has `size` elements; the other
// buffer determines the count.
[[noreturn, gnu::cold]] inline void refuse_size(int rank, int ranks, collective c, side s, std::size_t size,
                                                std::size_t count, std::source_location where) {
  std::string_view const other = name(s == side::input ? side::output : side::input);
  std::string const has = join({name_of_buffer(c, s), " has ", size, " elements, but "});
  if (!by_block(c))
    refuse(rank, join({has, "the ", other, " has ", count}), join({"pass an ", name(s), " of ", count, " elements"}),
           where);
  std::size_t const expected = count * static_cast<std::size_t>(ranks);
  refuse(rank, join({has, ranks, " blocks of ", count, " need ", expected}),
         join({"pass an ", name(s), " of ", expected, " elements, ", ranks, " times the ", other}), where);
}

[[noreturn, gnu::cold]] inline void refuse_unequal_blocks(int rank, int ranks, collective c, std::size_t size,
                                                          std::source_location where) {
  refuse(
      rank,
      join({name_of_buffer(c, side::input), " has ", size, " elements, which ", ranks, " ranks cannot share equally"}),
      join({"pass a multiple of ", ranks, " elements, or use ", name(c), "_v"}), where);
}

// The holdings determine what in place means: a chunk that a rank has in its input and in its output is the same
// memory.
[[noreturn, gnu::cold]] inline void refuse_overlap(int rank, bool is_root, collective c, bool has_in_place,
                                                   std::source_location where) {
  holding const gives = row_of(c).input.at(is_root), gets = row_of(c).output.at(is_root);
  refuse(rank, join({"input and output of ", name(c), " overlap"}),
         join({!has_in_place           ? ""
               : gives == gets         ? "pass the same buffer as input and output, or "
               : gives == holding::own ? "pass this rank's block of the output as its input, or "
                                       : "pass this rank's block of the input as its output, or ",
               "two buffers that do not overlap"}),
         where);
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

// Whether the call is in place: a chunk that a rank has in its input and in its output is the same memory. The rank's
// own block starts at `in_begin` of an input with a block for every rank, and at `out_begin` of such an output.
template <collective C, class In, class Out>
bool is_in_place(In const* in, std::size_t in_begin, Out const* out, std::size_t out_begin) {
  if constexpr (!std::is_same_v<In, Out>) return false;
  else return in + (deals(C) ? in_begin : 0) == out + (collects(C) ? out_begin : 0);
}

// The buffers of a call as this rank uses them.
template <class In, class Out>
struct call_buffers {
  In const* in;       // null if the call ignores the input of this rank
  Out* out;           // null if it ignores the output
  std::size_t count;  // elements of the array, or of this rank's block
  bool in_place;
};

// Checks the arguments of a rank in a collective whose blocks, if it has any, are all of one size. Collectives without
// a root ignore `root`. Throws error: bad_argument.
template <collective C, class Comm, class In, class Out>
call_buffers<In, Out> check_buffers(Comm const& comm, std::span<In const> in, std::span<Out> out, int root,
                                    std::source_location where) {
  if constexpr (rooted(C)) expect_root(comm, root, where);
  int const rank = comm.rank();
  bool const is_root = rank == root;
  bool const gives = row_of(C).input.at(is_root) != holding::none, gets = row_of(C).output.at(is_root) != holding::none;
  auto const ranks = static_cast<std::size_t>(comm.size());

  // The smaller buffer determines the count.
  std::size_t count = gives && (!deals(C) || collects(C)) ? in.size() : out.size();
  if constexpr (deals(C) && collects(C)) {
    if (count % ranks != 0) refuse_unequal_blocks(rank, comm.size(), C, count, where);
    count /= ranks;
  }
  if (gives && in.size() != (deals(C) ? count * ranks : count))
    refuse_size(rank, comm.size(), C, side::input, in.size(), count, where);
  if (gets && out.size() != (collects(C) ? count * ranks : count))
    refuse_size(rank, comm.size(), C, side::output, out.size(), count, where);

  std::size_t const own = static_cast<std::size_t>(rank) * count;
  bool const in_place = gives && gets && is_in_place<C>(in.data(), own, out.data(), own);
  if (gives && gets && !in_place && overlap(in.data(), in.size_bytes(), out.data(), out.size_bytes()))
    refuse_overlap(rank, is_root, C, std::is_same_v<In, Out>, where);
  return {gives ? in.data() : nullptr, gets ? out.data() : nullptr, count, in_place};
}

// The same for a _v form. `given` and `got` describe the blocks in a buffer that has one for every rank, in `unit`
// parts of an element; other buffers ignore them.
template <collective C, class Comm, class In, class Out>
call_buffers<In, Out> check_uneven_buffers(Comm const& comm, std::span<In const> in, layout const& given,
                                           std::span<Out> out, layout const& got, std::size_t unit, int root,
                                           std::source_location where) {
  if constexpr (rooted(C)) expect_root(comm, root, where);
  constexpr bool has_in_place = std::is_same_v<In, Out> && !(deals(C) && collects(C));
  int const rank = comm.rank();
  bool const is_root = rank == root;
  if (row_of(C).input.at(is_root) == holding::none) return {nullptr, out.data(), out.size(), false};
  if (row_of(C).output.at(is_root) == holding::none) return {in.data(), nullptr, in.size(), false};

  extent const own_in = deals(C) ? given.at(0, rank) : extent{0, in.size() * unit};
  extent const own_out = collects(C) ? got.at(0, rank) : extent{0, out.size() * unit};
  std::size_t const count = own_in.count / unit;
  if (own_in.count != own_out.count) refuse_own_block(rank, C, count, own_out.count / unit, where);
  // Without offsets, the blocks must fill the buffer.
  if (reduces(C) && in.size() != given.end() / unit)
    refuse_end(rank, C, side::input, in.size(), given.end() / unit, where);

  std::size_t const in_end = deals(C) ? given.end() / unit : in.size();
  std::size_t const out_end = collects(C) ? got.end() / unit : out.size();
  bool const in_place =
      has_in_place && is_in_place<C>(in.data(), own_in.begin / unit, out.data(), own_out.begin / unit);
  if (!in_place && overlap(in.data(), in_end * sizeof(In), out.data(), out_end * sizeof(Out)))
    refuse_overlap(rank, is_root, C, has_in_place, where);
  return {in.data(), out.data(), count, in_place};
}

// The blocks of a _v form in a buffer, in units of a layout.
struct block_lists {
  std::vector<std::size_t> counts, offsets;

  layout where() const { return layout::table(counts.data(), offsets.data(), static_cast<int>(counts.size())); }
};

// Builds these lists from the caller's: a count and an offset for each rank, in elements. Without offsets, blocks are
// adjacent. The buffer `s` has `size` elements, each of `unit` units. Throws error: bad_argument.
[[gnu::noinline]] inline void lay_out_blocks(int rank, int ranks, collective c, side s,
                                             std::span<std::size_t const> counts, std::span<std::size_t const> offsets,
                                             std::size_t size, std::size_t unit, block_lists& out,
                                             std::source_location where) {
  auto const p = static_cast<std::size_t>(ranks);
  auto const expect_one_each = [&](std::size_t given, char const* what) {
    if (given != p)
      refuse(rank,
             join({name(c), "_v needs ", what, " for each of ", ranks, " ranks, but the list for the ", name(s),
                   " has ", given}),
             join({"pass ", ranks}), where);
  };
  expect_one_each(counts.size(), "a count");
  if (!offsets.empty()) expect_one_each(offsets.size(), "an offset");
  out.counts.resize(p);
  out.offsets.resize(p);
  std::size_t next = 0;
  for (std::size_t q = 0; q < p; ++q) {
    std::size_t const offset = offsets.empty() ? next : offsets[q];
    if (offset > size || counts[q] > size - offset)
      refuse(rank,
             join({"block ", q, " of the ", name(s), " of ", name(c), "_v ends at element ", offset + counts[q],
                   ", but the buffer has ", size, " elements"}),
             "pass a larger buffer, or correct counts and offsets", where);
    out.counts[q] = counts[q] * unit;
    out.offsets[q] = offset * unit;
    next = offset + counts[q];
  }
}

}  // namespace tutti::detail
