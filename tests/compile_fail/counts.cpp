// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts and offsets of _v forms, on the host and among virtual ranks.
#include <cstddef>
#include <vector>

#include "../support/device_stand_in.hpp"
#include "tutti/device/local/cuda_local.hpp"
#include "tutti/device/local/ragged.hpp"
#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& in, std::vector<float>& out,
          tutti::cuda_local<tutti::testing::device_stand_in> const& ranks, std::vector<std::vector<float>>& arrays) {
  std::vector<std::size_t> const counts(1, 8);
  std::vector<int> const numbers(1, 8);
  std::vector<std::size_t> sizes(1, 8);
  static_cast<void>(comm), static_cast<void>(in), static_cast<void>(out), static_cast<void>(ranks);
  static_cast<void>(arrays);
#ifdef TUTTI_CONTROL
  tutti::scatter_v(comm, in, counts, out);
  static_cast<void>(tutti::all_to_all_v(comm, in, counts));
  tutti::scatter_v(ranks, in, counts, arrays);
  tutti::all_to_all_v(ranks, arrays, counts, arrays);
#elif TUTTI_CASE == 1  // expect: scatter_v takes the counts before the output
  tutti::scatter_v(comm, in, numbers, out);
#elif TUTTI_CASE == 2  // expect: in this call they follow the output
  tutti::all_gather_v(comm, in, out, counts, numbers);
#elif TUTTI_CASE == 3  // expect: counts and offsets are contiguous arrays of std::size_t
  tutti::all_gather_v(ranks, arrays, arrays, numbers);
#elif TUTTI_CASE == 4  // expect: input and output have different element types
  tutti::scatter_v(comm, in, out, sizes);
#elif TUTTI_CASE == 5  // expect: all_to_all_v takes the counts of the input before the output
  tutti::all_to_all_v(comm, in, numbers, out, counts);
#elif TUTTI_CASE == 6  // expect: a root follows the offsets: write {} for adjacent blocks
  tutti::gather_v(comm, in, out, counts, 0);
#elif TUTTI_CASE == 7  // expect: counts and offsets are contiguous arrays of std::size_t
  static_cast<void>(tutti::all_to_all_v(comm, in, numbers));
#elif TUTTI_CASE == 8  // expect: started, prepared or in a batch cannot return its result
  static_cast<void>(tutti::all_gather_v(tutti::async(comm), in));
#elif TUTTI_CASE == 9  // expect: counts and offsets are contiguous arrays of std::size_t
  static_cast<void>(tutti::reduce_scatter_v(comm, in, numbers));
#endif
}
