// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments of calls on devices that cannot work there.
#include <complex>
#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "../support/sharing_stand_in.hpp"
#include "tutti/device/local/cuda_local.hpp"
#include "tutti/device/local/ragged.hpp"
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

float larger(float a, float b);
float twice(float x);

extern cuda_ranks<sharing_stand_in, loopback>& ranks;
extern cuda_local<sharing_stand_in>& local;
std::vector<sharing_stand_in> make_devices();
extern map<true>& column;
extern map<false>& vector;
extern every_second& some;
extern std::vector<std::span<float>>& spans;

void call(communicator<loopback>& comm, std::span<float> data, std::vector<std::size_t> const& counts) {
#ifdef TUTTI_CONTROL
  all_reduce(ranks, data);
  all_reduce(ranks, vector);
  all_reduce(ranks, spans);
  reduce_scatter_v(ranks, data, data, counts);
  sharing_stand_in const device(0);
  auto const some_ranks = on(comm, device);
  auto const devices = make_devices();
  device_channels channels(devices, 4);
  cuda_local const ranks_on_devices(devices, 4), ranks_on_part(std::span<sharing_stand_in const>(devices).first(1), 4),
      talking(channels);
  all_reduce(ranks, data, by_rows(sum{}, 10, rms_norm{}));
#elif TUTTI_CASE == 1   // expect: arrays with gaps between their elements are for host memory
  all_reduce(ranks, column);
#elif TUTTI_CASE == 2   // expect: arrays with gaps between their elements are for host memory
  send(ranks, column, 1);
#elif TUTTI_CASE == 3   // expect: arrays with gaps between their elements are for host memory
  all_gather(ranks, some, data);
#elif TUTTI_CASE == 4   // expect: arrays with gaps between their elements are for host memory
  std::vector<map<true>> columns;
  all_reduce(local, columns);
#elif TUTTI_CASE == 5   // expect: by_rows cannot follow a list
  all_reduce(ranks, spans, by_rows(sum{}, 10, rms_norm{}));
#elif TUTTI_CASE == 6   // expect: devices have no long double
  std::vector<std::span<long double>> wide;
  all_reduce(local, wide);
#elif TUTTI_CASE == 7   // expect: devices have no long double
  scan(ranks, std::span<std::complex<long double>>());
#elif TUTTI_CASE == 8   // expect: devices have no long double
  reduce_scatter_v(ranks, std::span<long double>(), std::span<long double>(), counts);
#elif TUTTI_CASE == 9   // expect: devices have no long double
  reduce_scatter_v(local, std::vector<std::span<long double>>(), std::vector<std::span<long double>>(), counts);
#elif TUTTI_CASE == 10  // expect: devices cannot call a function by its address on the host
  all_reduce(local, spans, &larger);
#elif TUTTI_CASE == 11  // expect: devices cannot call a function by its address on the host
  all_reduce(ranks, data, &larger);
#elif TUTTI_CASE == 12  // expect: devices cannot call a function by its address on the host
  all_reduce(ranks, data, larger);
#elif TUTTI_CASE == 13  // expect: devices cannot call a function by its address on the host
  all_reduce(ranks, data, by_rows(fused{sum{}, &twice}, 10, rms_norm{}));
#elif TUTTI_CASE == 14  // expect: the device must outlive the ranks
  static_cast<void>(on(comm, sharing_stand_in(0)));
#elif TUTTI_CASE == 15  // expect: the device must outlive the ranks
  static_cast<void>(on(comm, sharing_stand_in(0), {.arena = 4096}));
#elif TUTTI_CASE == 16  // expect: the device must outlive the ranks
  cuda_ipc const near(comm, sharing_stand_in(0));
#elif TUTTI_CASE == 17  // expect: the device must outlive the ranks
  cuda_staged const staged(comm, sharing_stand_in(0));
#elif TUTTI_CASE == 18  // expect: the device must outlive the ranks
  cuda_local const ranks_on_temporary(sharing_stand_in(0), 4);
#elif TUTTI_CASE == 19  // expect: the devices must outlive the ranks
  cuda_local const ranks_on_temporaries(make_devices(), 4);
#elif TUTTI_CASE == 20  // expect: the device must outlive it
  device_channels const channels(sharing_stand_in(0), 4);
#elif TUTTI_CASE == 21  // expect: the devices must outlive it
  device_channels const channels_of_temporaries(make_devices(), 4);
#elif TUTTI_CASE == 22  // expect: no form of this call for ranks of devices takes these arguments
  all_reduce(ranks, data, [](float a) { return a; });
#elif TUTTI_CASE == 23  // expect: no form of this call for ranks of devices takes these arguments
  static_cast<void>(all_reduce(ranks, 3.0f));
#elif TUTTI_CASE == 24  // expect: no form of this call for ranks of devices takes these arguments
  all_reduce(local, data);
#elif TUTTI_CASE == 25  // expect: the output is const
  broadcast(ranks, std::span<float const>());
#elif TUTTI_CASE == 26  // expect: the output is const
  recv(ranks, std::span<float const>(), 1);
#elif TUTTI_CASE == 27  // expect: the output is const
  all_reduce(local, std::vector<std::span<float const>>());
#elif TUTTI_CASE == 28  // expect: the output is const
  all_reduce(ranks, std::vector<std::span<float const>>());
#elif TUTTI_CASE == 29  // expect: by_rows and wire cannot be combined
  all_reduce(ranks, data, by_rows(wire<bfloat16>(sum{}), 10, rms_norm{}));
#elif TUTTI_CASE == 30  // expect: by_rows and wire cannot be combined
  all_reduce(ranks, data, wire<bfloat16>(by_rows(sum{}, 10, rms_norm{})));
#elif TUTTI_CASE == 31  // expect: pairs and tuples are for hosts
  all_reduce(ranks, data, reproducible_sum{});
#elif TUTTI_CASE == 32  // expect: pairs and tuples are for hosts
  all_reduce(ranks, std::span<std::pair<float, int>>(), each{sum{}, max{}});
#elif TUTTI_CASE == 33  // expect: pairs and tuples are for hosts
  all_reduce(ranks, std::span<std::pair<float, int>>());
#endif
}
