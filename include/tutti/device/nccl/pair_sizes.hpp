// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sizes of blocks that only sender and receiver know.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_to_all.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

// In bytes, by rank: of the blocks that this rank sends, and that it expects. Empty if all ranks know all sizes.
struct pair_sizes {
  std::vector<std::uint64_t> sent, expected;

  // All ranks call it together. Finds a block whose sender and receiver mean different sizes, at its receiver. NCCL would not.
  template <transport Transport>
  std::optional<fault> find_difference(communicator<Transport>& comm, std::chrono::nanoseconds timeout,
                                       std::source_location where) const {
    if (sent.empty()) return {};
    std::vector<std::uint64_t> theirs(expected.size());
    all_to_all(comm, sent, theirs, {.timeout = timeout}, where);
    for (std::size_t q = 0; q < theirs.size(); ++q)
      if (theirs[q] != expected[q])
        return fault{
            error_code::mismatch, comm.rank(), static_cast<int>(q),
            join({"rank ", q, " sent ", theirs[q], " bytes where rank ", comm.rank(), " expects ", expected[q]})};
    return {};
  }
};

}  // namespace tutti::detail
