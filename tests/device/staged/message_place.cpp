// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A place survives the way to the receiver as a word.
#include "tutti/device/staged/message_place.hpp"

#include <doctest/doctest.h>

#include <cstddef>

using namespace tutti::detail;

TEST_CASE("a place of a message is what its sender has named") {
  CHECK(!message_place());
  message_place const start(message_place::in_memory(0, 0).word());
  CHECK((start && !start.is_by_nccl()));
  CHECK(start.memory() == 0);
  CHECK(start.offset() == 0);
  message_place const far(message_place::in_memory(1000, (std::size_t{1} << 40) - 1).word());
  CHECK(far.memory() == 1000);
  CHECK(far.offset() == (std::size_t{1} << 40) - 1);
  int const data = 0;
  message_place const own(message_place::at_address(&data).word());
  CHECK((own && !own.is_by_nccl()));
  CHECK(own.address() == reinterpret_cast<std::byte const*>(&data));
  message_place const other(message_place::by_nccl(0).word());
  CHECK((other && other.is_by_nccl()));
  CHECK(message_place(message_place::by_nccl(77).word()).nccl_number() == 77);
}
