// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tutti/tune/find.hpp"

#include <doctest/doctest.h>

using namespace tutti::detail;

TEST_CASE("a machine has the name of its processor or, on ARM, the numbers of its maker and of the part") {
  CHECK(processor_in("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\n") == "AMD EPYC");
  CHECK(processor_in("processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\n") ==
        "processor 0x41 0xd4f");
  for (char const* const other : {"", "model name", "model name\t: ", "cpu\t\t: POWER9\n"})
    CHECK(processor_in(other) == "unknown processor");
}
