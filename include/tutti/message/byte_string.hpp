// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes that stand for an object or a text, with a header that describes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tutti::detail {

// Sent before the bytes. A rank that failed to produce its bytes sends the reason instead, because its peers wait for
// it.
struct bytes_head {
  std::uint64_t bytes = 0;
  std::uint32_t type = 0;  // type_id
  std::uint32_t failed = 0;
};
struct byte_string {
  bytes_head head;
  std::vector<std::byte> bytes;
};

inline byte_string bytes_of(std::string_view text) {
  auto const* const begin = reinterpret_cast<std::byte const*>(text.data());
  return {{.bytes = text.size()}, {begin, begin + text.size()}};
}
// Why an object of this type could not be sent.
inline byte_string failure_text(std::uint32_t type, std::string_view text) {
  byte_string out = bytes_of(text);
  out.head.type = type;
  out.head.failed = 1;
  return out;
}

}  // namespace tutti::detail
