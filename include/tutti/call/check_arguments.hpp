// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks of a call's buffers, before any communication. They follow from the table of collectives, so host and
// device reject the same arguments with the same messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

template <class Comm>
void expect_size(Comm const& comm, text_part const& what, std::size_t size, std::size_t expected,
                 std::source_location where) {
  if (size == expected) return;
  refuse(comm.rank(), join({what.view(), " has ", size, " elements, but the call needs ", expected}),
         join({"pass ", expected}), where);
}

// An array is smaller than half of the address space. More elements come from a negative number that was converted.
template <class T>
constexpr bool is_possible_size(std::size_t size) {
  return size <= std::numeric_limits<std::size_t>::max() / 2 / sizeof(T);
}
template <class T>
constexpr bool is_possible_array(T const* data, std::size_t size) {
  return (data != nullptr || size == 0) && is_possible_size<T>(size);
}
[[noreturn, gnu::cold]] void refuse_impossible_size(int rank, std::string_view what, std::size_t size,
                                                    std::source_location where);
[[noreturn, gnu::cold]] void refuse_null(int rank, std::string_view what, std::size_t size, std::source_location where);

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

enum class side : std::uint8_t { input, output };
constexpr std::string_view name(side s) { return s == side::input ? "input" : "output"; }

// "the output of all_reduce", "the root's input of scatter"
[[gnu::cold]] std::string name_of_buffer(collective c, side s);

// `form`: "_v" or nothing.
[[noreturn, gnu::cold]] void refuse_array(int rank, collective c, side s, bool is_null, std::size_t size,
                                          char const* form, std::source_location where);
template <collective C, side S, class T>
void expect_possible_array(int rank, std::span<T> array, char const* form, std::source_location where) {
  if (is_possible_array(array.data(), array.size())) return;
  refuse_array(rank, C, S, array.data() == nullptr, array.size(), form, where);
}

// Rejects the buffer `s` of this rank, which should have a block for every rank but has `size` elements; the other
// buffer determines the count.
[[noreturn, gnu::cold]] void refuse_size(int rank, int ranks, collective c, side s, std::size_t size, std::size_t count,
                                         std::source_location where);

[[noreturn, gnu::cold]] void refuse_impossible_blocks(int rank, int ranks, collective c, std::size_t count,
                                                      std::source_location where);
[[noreturn, gnu::cold]] void refuse_unequal_blocks(int rank, int ranks, collective c, std::size_t size,
                                                   std::source_location where);

// The holdings determine what in place means: a chunk that a rank has in its input and in its output is the same
// memory.
[[noreturn, gnu::cold]] void refuse_overlap(int rank, bool is_root, collective c, bool has_in_place,
                                            std::source_location where);

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
// a root ignore `root`. `AreCompared`: whether the arrays are where they begin, so that overlaps are found here. Throws
// error: bad_argument.
template <collective C, bool AreCompared = true, class Comm, class In, class Out>
call_buffers<In, Out> check_buffers(Comm const& comm, std::span<In const> in, std::span<Out> out, int root,
                                    std::source_location where) {
  if constexpr (rooted(C)) expect_root(comm, root, where);
  int const rank = comm.rank();
  bool const is_root = rank == root;
  bool const gives = row_of(C).input.at(is_root) != holding::none, gets = row_of(C).output.at(is_root) != holding::none;
  auto const ranks = static_cast<std::size_t>(comm.size());

  if (gives) expect_possible_array<C, side::input>(rank, in, "", where);
  if (gets) expect_possible_array<C, side::output>(rank, out, "", where);

  // The smaller buffer determines the count.
  std::size_t count = gives && (!deals(C) || collects(C)) ? in.size() : out.size();
  std::size_t whole = count;  // of the larger one
  if constexpr (deals(C) && collects(C)) {
    if (count % ranks != 0) refuse_unequal_blocks(rank, comm.size(), C, count, where);
    count /= ranks;
  } else if constexpr (by_block(C)) {
    if (__builtin_mul_overflow(count, ranks, &whole) || !is_possible_size<Out>(whole))
      refuse_impossible_blocks(rank, comm.size(), C, count, where);
  }
  if (gives && in.size() != (deals(C) ? whole : count))
    refuse_size(rank, comm.size(), C, side::input, in.size(), count, where);
  if (gets && out.size() != (collects(C) ? whole : count))
    refuse_size(rank, comm.size(), C, side::output, out.size(), count, where);

  if constexpr (!AreCompared) return {gives ? in.data() : nullptr, gets ? out.data() : nullptr, count, false};
  std::size_t const own = static_cast<std::size_t>(rank) * count;
  bool const in_place = gives && gets && is_in_place<C>(in.data(), own, out.data(), own);
  if (gives && gets && !in_place && overlap(in.data(), in.size_bytes(), out.data(), out.size_bytes()))
    refuse_overlap(rank, is_root, C, std::is_same_v<In, Out>, where);
  return {gives ? in.data() : nullptr, gets ? out.data() : nullptr, count, in_place};
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/call/check_arguments_impl.hpp"
#endif
