// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of collectives: one row defines each collective. The argument checks on host and device, the contract that
// the verifier proves, the kernels that serve the ranks of one process, and the names in messages follow from the row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

// Names a collective at run time.
enum class collective : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  gather,
  scatter,
  all_to_all,
  barrier,
  scan,
  exclusive_scan,
};

namespace detail {

// The message of a collective: an array, which schedules may cut anywhere; a block for each rank, where chunk q is the
// block of rank q; or a token without data.
enum class message_form : std::uint8_t { array, blocks, token };

// The part of the message that a buffer holds: nothing, the block with this rank's number, or all of it.
enum class holding : std::uint8_t { none, own, all };
constexpr bool has(holding h, int rank, int chunk) { return h == holding::all || (h == holding::own && chunk == rank); }

// The holdings of the root and of every other rank.
struct holdings {
  holding root, others;

  constexpr holding at(bool is_root) const { return is_root ? root : others; }
  friend constexpr bool operator==(holdings, holdings) = default;
};
constexpr holdings everywhere(holding h) { return {h, h}; }
constexpr holdings only_root(holding h) { return {h, holding::none}; }
constexpr holdings except_root(holding h) { return {holding::none, h}; }

// The contributions that make up chunk c of the output of rank r, among p ranks.
enum class contributions : std::uint8_t {
  every_rank,   // chunk c of ranks 0 to p-1, combined
  up_to_self,   // chunk c of ranks 0 to r, combined
  before_self,  // chunk c of ranks 0 to r-1, combined; the output of rank 0 is undefined
  root,         // chunk c of the root
  owner,        // chunk c of rank c
  transposed,   // chunk r of rank c
};

struct collective_row {
  collective what;
  std::string_view name;
  message_form message;
  holdings input, output;
  contributions result;
};

inline constexpr auto collective_table = [] {
  using enum collective;
  using enum message_form;
  using enum contributions;
  constexpr holding own = holding::own, all = holding::all;
  // clang-format off
  return std::to_array<collective_row>({
      {.what = all_reduce, .name = "all_reduce",
       .message = array,  .input = everywhere(all), .output = everywhere(all),  .result = every_rank},
      {.what = reduce, .name = "reduce",
       .message = array,  .input = everywhere(all), .output = only_root(all),   .result = every_rank},
      {.what = broadcast, .name = "broadcast",
       .message = array,  .input = only_root(all),  .output = except_root(all), .result = root},
      {.what = reduce_scatter, .name = "reduce_scatter",
       .message = blocks, .input = everywhere(all), .output = everywhere(own),  .result = every_rank},
      {.what = all_gather, .name = "all_gather",
       .message = blocks, .input = everywhere(own), .output = everywhere(all),  .result = owner},
      {.what = gather, .name = "gather",
       .message = blocks, .input = everywhere(own), .output = only_root(all),   .result = owner},
      {.what = scatter, .name = "scatter",
       .message = blocks, .input = only_root(all),  .output = everywhere(own),  .result = root},
      {.what = all_to_all, .name = "all_to_all",
       .message = blocks, .input = everywhere(all), .output = everywhere(all),  .result = transposed},
      {.what = barrier, .name = "barrier",
       .message = token,  .input = everywhere(all), .output = everywhere(all),  .result = every_rank},
      {.what = scan, .name = "scan",
       .message = array,  .input = everywhere(all), .output = everywhere(all),  .result = up_to_self},
      {.what = exclusive_scan, .name = "exclusive_scan",
       .message = array,  .input = everywhere(all), .output = everywhere(all),  .result = before_self},
  });
  // clang-format on
}();

constexpr collective_row const& row_of(collective c) { return collective_table[static_cast<std::size_t>(c)]; }

consteval bool rows_are_in_order() {
  for (std::size_t i = 0; i < collective_table.size(); ++i)
    if (static_cast<std::size_t>(collective_table[i].what) != i) return false;
  return true;
}
static_assert(rows_are_in_order(), "the rows of the table must stand in the order of the enumeration");

}  // namespace detail

// All collectives, in the order of the enumeration.
inline constexpr auto every_collective = [] {
  std::array<collective, detail::collective_table.size()> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<collective>(i);
  return out;
}();

// The name of a collective, such as "all_reduce".
constexpr std::string_view name(collective c) {
  return static_cast<std::size_t>(c) < every_collective.size() ? detail::row_of(c).name : "?";
}

// Whether chunk q is the block of rank q, rather than any part of one array. These have a _v form, with blocks of uneven
// sizes.
constexpr bool by_block(collective c) { return detail::row_of(c).message == detail::message_form::blocks; }

// Whether one rank is the root.
constexpr bool rooted(collective c) {
  auto const& row = detail::row_of(c);
  return row.input.root != row.input.others || row.output.root != row.output.others;
}

namespace detail {

// Whether the result of rank r combines the contributions of the ranks up to r, with or without its own.
constexpr bool is_prefix(collective c) {
  auto const result = detail::row_of(c).result;
  return result == detail::contributions::up_to_self || result == detail::contributions::before_self;
}

}  // namespace detail

// Whether the result combines values, for which a call takes an operation.
constexpr bool reduces(collective c) {
  auto const& row = detail::row_of(c);
  return detail::is_prefix(c) ||
         (row.result == detail::contributions::every_rank && row.message != detail::message_form::token);
}

// Whether the input holds a block for every rank, each of which receives its own.
constexpr bool deals(collective c) { return by_block(c) && detail::row_of(c).input.root == detail::holding::all; }

// Whether the output holds a block of every rank.
constexpr bool collects(collective c) { return by_block(c) && detail::row_of(c).output.root == detail::holding::all; }

// Whether every rank needs something from every other rank.
constexpr bool all_hear_all(collective c) { return !rooted(c) && !detail::is_prefix(c); }

}  // namespace tutti
