// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI's predefined operations on its predefined types, as functions on memory: found at run time, compiled without MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/reduce/combine.hpp"

namespace interpose {

// The kind of an element, which decides the operations that apply to it.
// clang-format off
enum class element {
  none,
  int8, uint8, int16, uint16, int32, uint32, int64, uint64,
  float32, float64, complex64, complex128,
  byte, boolean,
  float_int, double_int, long_int, short_int, two_int,
};
// clang-format on

enum class operation { sum, product, min, max, land, lor, lxor, band, bor, bxor, maxloc, minloc };

// Like tutti::detail::combine.
using loop = void (*)(void const* const* sources, int source_count, void* const* destinations, int destination_count,
                      std::size_t n, tutti::detail::stage at);

struct combination {
  loop run = nullptr;    // null if MPI does not define the operation on the type, or tutti leaves it to the MPI
  std::size_t unit = 0;  // bytes that count as one element
  std::size_t alignment = 0;
  std::uint32_t number = 0;  // from 1 to 9,999: what ranks that make the same call have in common
};

combination find(operation op, element e);

// Of a combination's number, such as "MPI_SUM of int32".
std::string name_of_combination(std::uint64_t number);

}  // namespace interpose
