// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/tensor/sharded_words.hpp.
#pragma once

#include "tutti/call/communicator.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/tensor/sharded_words.hpp"

namespace tutti::detail {

TUTTI_INLINE void expect_size(std::size_t size, std::size_t rows, std::size_t columns, std::string_view what, int rank,
                              std::source_location where) {
  if (size != rows * columns)
    refuse(rank, join({what, " are ", rows, " x ", columns, ", but the array has ", size, " elements"}),
           "pass an array of rows x columns elements, row-major", where);
}

TUTTI_INLINE void refuse_word(std::string_view what, std::size_t at, std::string const& word, std::size_t words,
                              std::string_view of, int rank, std::source_location where) {
  refuse(rank, join({what, " ", at, " is ", word, ", but there are only ", words, " ", of}),
         join({"pass numbers from 0 to the number of ", of, " - 1"}), where);
}

}  // namespace tutti::detail
