// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data-parallel training on GPUs. Each process has gradients of its own data, in bfloat16; one launch a step sums those of all
// processes, takes the mean, and moves the weights by Adam, in float. All ranks end with the same bits.
//
//   nvcc -std=c++20 -O2 -arch=native -Iinclude examples/14_gpu_training.cu -o training && tutti-run -n 4 ./training
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/transform.h>
#include <vector>

#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"

// Each rank pulls the weights towards a target of its own; the best for all is the mean of these.
struct pull {
  __host__ __device__ tutti::bfloat16 operator()(float weight, float target) const {
    return tutti::bfloat16(weight - target);
  }
};

int train(tutti::communicator<tutti::shm>& comm) {
  tutti::cuda_device const gpu = tutti::cuda_device_of(comm.local_rank());
  auto ranks = tutti::on(comm, gpu);
  comm.main_only([&] { std::printf("%s\n", ranks.explain().c_str()); });

  std::size_t const n = 1 << 20;
  thrust::host_vector<float> mine(n);
  for (std::size_t i = 0; i < n; ++i)
    mine[i] = std::sin(static_cast<float>(i % 1000)) + static_cast<float>(comm.rank());
  thrust::device_vector<float> const target = mine;
  thrust::device_vector<float> weights(n, 0.0f), mean(n, 0.0f), variance(n, 0.0f);
  thrust::device_vector<tutti::bfloat16> gradient(n), narrow_weights(n);

  tutti::adam_step step{.rate = 0.05f};
  float power1 = 1, power2 = 1;
  for (int i = 0; i < 300; ++i) {
    thrust::transform(thrust::device, weights.begin(), weights.end(), target.begin(), gradient.begin(), pull{});
    step.correction1 = 1 - (power1 *= step.beta1);
    step.correction2 = 1 - (power2 *= step.beta2);
    tutti::all_reduce(ranks, gradient, narrow_weights,
                      tutti::fused{tutti::sum{}, tutti::scale{1.0f / static_cast<float>(comm.size())},
                                   tutti::with_arrays(step, tutti::device_data(weights), tutti::device_data(mean),
                                                      tutti::device_data(variance))});
  }
  ranks.work({}).wait();

  thrust::host_vector<float> const found = weights;
  float furthest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float const best = mine[i] + static_cast<float>(comm.size() - 1) / 2 - static_cast<float>(comm.rank());
    furthest = std::fmax(furthest, std::fabs(found[i] - best));
  }
  std::vector<float> least(found.begin(), found.end()), greatest = least;
  tutti::all_reduce(comm, least, tutti::min{});
  tutti::all_reduce(comm, greatest, tutti::max{});
  bool const same = least == greatest;
  comm.main_only([&] {
    std::printf("%d ranks: weights are within %.3f of the best, and %s on all ranks\n", comm.size(), furthest,
                same ? "the same" : "NOT the same");
  });
  return same && furthest < 0.05f ? 0 : 1;
}

int main() {
  try {
    auto comm = tutti::init();
    if (tutti::cuda_device_count() == 0) {
      comm.main_only([] { std::puts("skipped: there is no GPU"); });
      return 77;
    }
    return train(comm);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
