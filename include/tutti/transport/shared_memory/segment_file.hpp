// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file behind the segment of processes. It has no name: nothing to guess, nothing that stays behind, however they end.
#pragma once

#include <cstddef>

#include "tutti/transport/segment.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// Address space for what comm.allocate may hand out at a rank, of `space` for all, whose heaps every rank maps; memory
// is taken only when it is touched.
[[gnu::cold]] std::size_t heap_bytes(int ranks, std::size_t space);

// A file for these ranks, whose heaps take `heap_space` bytes of addresses at most, to be handed to all of them: inherited,
// or sent over a socket. 0600, in no directory, and of this size for ever: whoever holds it cannot pull memory away from
// under the others. Throws error: bad_argument, system.
[[gnu::cold]] descriptor create_segment_file(int ranks, int tracks, std::size_t heap_space);

// Such a file as memory of this process.
class segment_mapping {
 public:
  segment_mapping() = default;
  // Throws error: system, and mismatch where the file was not made for these ranks.
  [[gnu::cold]] segment_mapping(descriptor const& file, int ranks, int tracks);
  // The pages of the ranks alone, which take little address space; throws likewise.
  [[gnu::cold]] static segment_mapping front(descriptor const& file, int ranks, int tracks);
  segment_mapping(segment_mapping const&) = delete;
  segment_mapping& operator=(segment_mapping const&) = delete;
  ~segment_mapping();

  segment const& memory() const { return memory_; }

 private:
  segment_mapping(descriptor const& file, int ranks, int tracks, std::size_t heap_bytes);

  static void expect_file_for(descriptor const& file, int ranks, int tracks);
  // What the creator has chosen, whatever this rank's environment says.
  static std::size_t heap_bytes_of(descriptor const& file, int ranks, int tracks);

  segment memory_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/segment_file_impl.hpp"
#endif
