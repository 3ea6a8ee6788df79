// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of call/check_arguments.hpp.
#pragma once

#include "tutti/call/check_arguments.hpp"

namespace tutti::detail {

TUTTI_INLINE void refuse_impossible_size(int rank, std::string_view what, std::size_t size,
                                         std::source_location where) {
  refuse(rank, join({what, " has ", size, " elements, which is more than memory can hold"}),
         "check the number of elements, which may have been negative", where);
}

TUTTI_INLINE void refuse_null(int rank, std::string_view what, std::size_t size, std::source_location where) {
  refuse(rank, join({what, " has ", size, " elements, but its pointer is null"}),
         "pass the address of the elements; only an empty array may be null", where);
}

TUTTI_INLINE std::string name_of_buffer(collective c, side s) {
  holdings const held = s == side::input ? row_of(c).input : row_of(c).output;
  return join({held == only_root(holding::all) ? "the root's " : "the ", name(s), " of ", name(c)});
}

TUTTI_INLINE void refuse_array(int rank, collective c, side s, bool is_null, std::size_t size, char const* form,
                               std::source_location where) {
  std::string const what = join({name_of_buffer(c, s), form});
  if (is_null) refuse_null(rank, what, size, where);
  refuse_impossible_size(rank, what, size, where);
}

TUTTI_INLINE void refuse_size(int rank, int ranks, collective c, side s, std::size_t size, std::size_t count,
                              std::source_location where) {
  std::string_view const other = name(s == side::input ? side::output : side::input);
  std::string const has = join({name_of_buffer(c, s), " has ", size, " elements, but "});
  if (!by_block(c))
    refuse(rank, join({has, "the ", other, " has ", count}), join({"pass an ", name(s), " of ", count, " elements"}),
           where);
  std::size_t const expected = count * static_cast<std::size_t>(ranks);
  refuse(rank, join({has, ranks, " blocks of ", count, " need ", expected}),
         join({"pass an ", name(s), " of ", expected, " elements, ", ranks, " times the ", other}), where);
}

TUTTI_INLINE void refuse_impossible_blocks(int rank, int ranks, collective c, std::size_t count,
                                           std::source_location where) {
  refuse(rank,
         join({name_of_buffer(c, deals(c) ? side::output : side::input), " has ", count, " elements, and ", ranks,
               " such blocks are more than memory can hold"}),
         "check the number of elements, which may have been negative", where);
}

TUTTI_INLINE void refuse_unequal_blocks(int rank, int ranks, collective c, std::size_t size,
                                        std::source_location where) {
  refuse(
      rank,
      join({name_of_buffer(c, side::input), " has ", size, " elements, which ", ranks, " ranks cannot share equally"}),
      join({"pass a multiple of ", ranks, " elements, or use ", name(c), "_v"}), where);
}

TUTTI_INLINE void refuse_overlap(int rank, bool is_root, collective c, bool has_in_place, std::source_location where) {
  holding const gives = row_of(c).input.at(is_root), gets = row_of(c).output.at(is_root);
  refuse(rank, join({"input and output of ", name(c), " overlap"}),
         join({!has_in_place           ? ""
               : gives == gets         ? "pass the same buffer as input and output, or "
               : gives == holding::own ? "pass this rank's block of the output as its input, or "
                                       : "pass this rank's block of the input as its output, or ",
               "two buffers that do not overlap"}),
         where);
}

}  // namespace tutti::detail
