// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CRC-32C, the checksum of iSCSI, SCTP and ext4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// The CRC-32C of `bytes` (RFC 3720, section 12.1 and appendix B.4). To continue a checksum, pass that of the bytes before them as
// `before`. It detects every burst of up to 32 wrong bits, and misses other damage once in 2^32 cases. It processes eight bytes at a
// time (Kounavis and Berry, "A Systematic Approach to Building High Performance, Software-based, CRC Generators", ISCC 2005).
[[gnu::cold]] std::uint32_t crc32c(std::span<std::byte const> bytes, std::uint32_t before = 0) noexcept;

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/core/crc32c_impl.hpp"
#endif
