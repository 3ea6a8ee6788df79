// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments of calls on devices that cannot work there.
#include <array>
#include <deque>
#include <iterator>
#include <span>
#include <vector>

#include "../support/sharing_stand_in.hpp"
#include "tutti/device/local/cuda_local.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

// As a Map of Eigen: the elements of a column of a matrix, or those of a vector.
template <bool Gaps>
struct map {
  static constexpr bool IsRowMajor = false, IsVectorAtCompileTime = true;
  static constexpr int InnerStrideAtCompileTime = Gaps ? -1 : 1;
  using Scalar = float;
  using PlainObject = std::vector<float>;
  float* data() const;
  long size() const;
  long innerSize() const;
  long outerSize() const;
  long innerStride() const;
  long outerStride() const;
};
// Every second element.
struct every_second : std::deque<float> {
  float* data() const;
};

using ranks_type = cuda_ranks<sharing_stand_in, loopback>;
using local_type = cuda_local<sharing_stand_in>;

void call(ranks_type& ranks, local_type& local, std::span<float> data, map<true>& column, map<false>& vector,
          every_second& some, std::vector<std::span<float>>& list) {
#ifdef TUTTI_CONTROL
  all_reduce(ranks, data);
  all_reduce(ranks, vector);
  all_reduce(ranks, list);
  all_reduce(ranks, data, by_rows(sum{}, 10, rms_norm{}));
#elif TUTTI_CASE == 1  // expect: arrays with gaps between their elements are for host memory
  all_reduce(ranks, column);
#elif TUTTI_CASE == 2  // expect: arrays with gaps between their elements are for host memory
  send(ranks, column, 1);
#elif TUTTI_CASE == 3  // expect: arrays with gaps between their elements are for host memory
  all_gather(ranks, some, data);
#elif TUTTI_CASE == 4  // expect: arrays with gaps between their elements are for host memory
  std::vector<map<true>> columns;
  all_reduce(local, columns);
#elif TUTTI_CASE == 5   // expect: by_rows cannot follow a list
  all_reduce(ranks, list, by_rows(sum{}, 10, rms_norm{}));
#endif
}
