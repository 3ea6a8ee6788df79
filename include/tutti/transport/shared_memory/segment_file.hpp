// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file that backs the segment of processes. It has no name, so it cannot be guessed, and nothing remains however
// the processes end.
#pragma once

#include <cstddef>

#include "tutti/transport/segment.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

inline constexpr std::size_t half_of_all_addresses = std::size_t{1} << 46;

// Address space of each rank's heap for comm.allocate, if all heaps together may take `space`, since every rank maps
// all of them. Memory is taken only when it is touched.
[[gnu::cold]] std::size_t heap_bytes(int ranks, std::size_t space);

// Creates a file for these ranks, whose heaps take at most `heap_space` bytes of addresses. It is handed to all of
// them: inherited, or sent over a socket. Its mode is 0600, it is in no directory, and its size is sealed, so no holder
// can truncate it under the others. Throws error: bad_argument, system.
[[gnu::cold]] descriptor create_segment_file(int ranks, int tracks, std::size_t heap_space);

// Maps such a file.
class segment_mapping {
 public:
  segment_mapping() = default;
  // Throws error: system, and mismatch if the file was not made for these ranks.
  [[gnu::cold]] segment_mapping(descriptor const& file, int ranks, int tracks);
  // Maps only the pages of the ranks, which take little address space; throws likewise.
  [[gnu::cold]] static segment_mapping front(descriptor const& file, int ranks, int tracks);
  segment_mapping(segment_mapping const&) = delete;
  segment_mapping& operator=(segment_mapping const&) = delete;
  ~segment_mapping();

  segment const& memory() const { return memory_; }

 private:
  segment_mapping(descriptor const& file, int ranks, int tracks, std::size_t heap_bytes);

  static void expect_file_for(descriptor const& file, int ranks, int tracks);
  // The size that the creator chose, which this rank's environment does not affect.
  static std::size_t heap_bytes_of(descriptor const& file, int ranks, int tracks);

  segment memory_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/segment_file_impl.hpp"
#endif
