// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI's predefined operations on its predefined types, as functions on memory: found at run time, compiled without MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/call/call.hpp"
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

// How ranks tell operations apart, and how errors describe them: "elements of 4 bytes", "MPI_SUM of int32".
struct operation_on_type {
  std::string elements, text;
  tutti::detail::call_names names{};  // refers to these
  std::uint32_t id = 0;
};

struct combination {
  loop run = nullptr;    // null if MPI does not define the operation on the type, or tutti leaves it to the MPI
  std::size_t unit = 0;  // bytes that count as one element
  std::size_t alignment = 0;
  operation_on_type const* what = nullptr;
};

combination find(operation op, element e);

}  // namespace interpose
