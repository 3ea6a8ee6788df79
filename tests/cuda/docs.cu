// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of docs/gpu.md. It is compiled but not run; comments are aligned by hand.
// clang-format off
#include <thrust/device_vector.h>

#include <cuda/stream_ref>
#include <vector>

#include "tutti/cuda_rows.cuh"
#include "tutti/tutti.hpp"
#include "tutti/window.cuh"

void one_process(std::vector<thrust::device_vector<float>>& gradients, cudaStream_t stream) {
  tutti::cuda_device gpu;                                  // GPU 0
  tutti::cuda_local ranks(gpu, 4);                         // four virtual ranks on it
  tutti::all_reduce(ranks, gradients, gradients, tutti::mean{}, {.stream = stream});    // one launch

  tutti::device_channels channels(gpu, 4);                 // memory for messages between the ranks
  tutti::cuda_local talking(channels);
  tutti::all_reduce<tutti::ring>(talking, gradients, gradients);

  std::vector<tutti::cuda_device> gpus = tutti::cuda_devices();
  tutti::cuda_local spread(gpus, 8);
}

void on_a_stream(thrust::device_vector<float>& gradient, cuda::stream_ref stream) {
  auto comm = tutti::init();
  tutti::cuda_device gpu;
  auto ranks = tutti::on(comm, gpu, {.stream = stream});
  tutti::all_reduce(ranks, gradient, tutti::mean{}, {.stream = stream});
  ranks.work(stream).wait();
}

struct softmax {
  struct total {                                                          // of some elements; total{} is that of none
    float largest = -3.4e38f, sum = 0;                                    // of exp(x - largest)
  };
  TUTTI_HOST_DEVICE total of(float x) const { return {x, 1}; }            // that of one element
  TUTTI_HOST_DEVICE total combine(total a, total b) const {               // of earlier and later elements
    float const largest = fmaxf(a.largest, b.largest);
    return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
  }
  TUTTI_HOST_DEVICE total row(total all, std::size_t) const { return all; }                 // what finish needs of it
  TUTTI_HOST_DEVICE float finish(float x, total row) const { return expf(x - row.largest) / row.sum; }
};

template <class Ranks>
void rows(Ranks& ranks, thrust::device_vector<tutti::bfloat16>& partial, thrust::device_vector<tutti::bfloat16>& weight,
          thrust::device_vector<tutti::bfloat16>& residual, thrust::device_vector<float>& scores, std::size_t width) {
  thrust::device_vector<tutti::bfloat16> normed(partial.size());
  thrust::device_vector<tutti::float8_e4m3> quantised(partial.size());
  thrust::device_vector<float> scales(partial.size() / width);

  auto const norm = tutti::with_columns(tutti::rms_norm{.epsilon = 1e-5f}, tutti::device_data(weight));
  tutti::all_reduce(ranks, partial, normed,
                    tutti::by_rows(tutti::sum{}, width, tutti::with_residual(norm, tutti::device_data(residual))));
  tutti::all_reduce(ranks, partial, quantised,                              // float8_e4m3, and a scale for each row
                    tutti::by_rows(tutti::sum{}, width,
                                   tutti::with_row_scales(tutti::with_residual(norm, tutti::device_data(residual)),
                                                          tutti::device_data(scales))));
  tutti::all_reduce(ranks, scores, tutti::by_rows(tutti::sum{}, width, softmax{}));    // one of the program's own
}

template <class Ranks>
void clipped(Ranks& ranks, std::vector<thrust::device_vector<float>>& gradients, std::size_t elements,
             cudaStream_t stream) {
  tutti::gradient_norm norm(ranks, elements, gradients.size());            // keeps memory for that many
  norm.measure(gradients, 1.0f, {.stream = stream});                       // of the parts of all ranks; limit 1
  norm.clip(gradients, {.stream = stream});                                // or scale{from_memory(norm.factor())}
}

struct halo_of_a_side {
  int rank;
  thrust::device_vector<float> edge, halo;
};

void processes(thrust::device_vector<float>& gradient, thrust::device_vector<float>& top_row,
               thrust::device_vector<float>& row_below, int above, int below, cudaStream_t stream,
               std::vector<thrust::device_vector<float>>& gradients, std::vector<halo_of_a_side>& sides) {
  thrust::device_vector<tutti::bfloat16> narrow_gradient(gradient.size()), narrow_weights(gradient.size());
  thrust::device_vector<float> weights(gradient.size()), mean(gradient.size()), variance(gradient.size());

  auto comm = tutti::init();
  tutti::cuda_device gpu = tutti::cuda_device_of(comm.local_rank());
  auto ranks = tutti::on(comm, gpu, {.stream = stream});   // finds out how the GPUs can communicate
  tutti::all_reduce(ranks, gradient, tutti::mean{});
  tutti::send_recv(ranks, top_row, above, row_below, below);

  tutti::all_reduce(ranks, gradients, tutti::mean{});      // a list of this rank's arrays; small ones share calls
  tutti::device_batch halos(ranks);
  for (auto& side : sides) halos.send(side.edge, side.rank).recv(side.halo, side.rank);
  tutti::work exchanged = halos.start();                   // or halos.run()
  ranks.work().wait();                                     // the collectives
  exchanged.wait();                                        // the messages

  tutti::send_recv(ranks, top_row, above, row_below, below, 0, {.algorithm = tutti::algorithm_id::native});

  tutti::cuda_ipc near(comm, gpu);                         // on one node: they read each other's memory
  tutti::all_reduce(near, gradient, tutti::mean{}, {.stream = stream});
  tutti::work sum = near.work(stream);
  sum.wait();                                              // or throws: names a rank that is late, gone, or makes a different call

  tutti::cuda_staged staged(comm, gpu);                    // comm: shared memory, an MPI, nodes
  tutti::all_reduce(staged, gradient, tutti::mean{}, {.stream = stream});

  tutti::all_reduce(ranks, narrow_gradient, narrow_weights,
                    tutti::fused{tutti::sum{}, tutti::scale{1.0f / static_cast<float>(comm.size())},
                                 tutti::with_arrays(tutti::adam_step{.rate = 1e-3f}, tutti::device_data(weights),
                                                    tutti::device_data(mean), tutti::device_data(variance))});

  thrust::device_vector<tutti::scale<float>> loss_scale(1, tutti::scale<float>{0.5f});
  thrust::device_vector<tutti::adam_step> adam(1, tutti::adam_step{.rate = 1e-3f});
  tutti::fused const step{tutti::mean{}, tutti::from_memory(tutti::device_data(loss_scale)),
                          tutti::with_arrays(tutti::from_memory(tutti::device_data(adam)), tutti::device_data(weights),
                                             tutti::device_data(mean), tutti::device_data(variance))};
  tutti::all_reduce(ranks, gradient, weights, step, {.stream = stream});  // captured once

  thrust::device_vector<float> inverse_scale(1, 0.5f), rate(1, 1e-3f);
  tutti::fused const momentum{tutti::mean{}, tutti::scale{tutti::from_memory(tutti::device_data(inverse_scale))},
                              tutti::with_arrays(tutti::with_rate(tutti::sgd_step{.rate = 0, .momentum = 0.9f},
                                                                  tutti::device_data(rate)),
                                                 tutti::device_data(weights), tutti::device_data(mean))};
  tutti::all_reduce(ranks, gradient, weights, momentum, {.stream = stream});

  tutti::extent const mine = tutti::shard_of(ranks, gradient.size());     // the elements that this rank owns
  thrust::device_vector<float> own_weights(mine.count), own_mean(mine.count), own_variance(mine.count);
  tutti::fused const update{tutti::sum{}, tutti::scale{1.0f / static_cast<float>(ranks.size())},
                            tutti::with_shards(tutti::adam_step{.rate = 1e-3f}, tutti::device_data(own_weights),
                                               tutti::device_data(own_mean), tutti::device_data(own_variance))};
  tutti::all_reduce(ranks, narrow_gradient, narrow_weights, update, {.stream = stream});

  auto partial = ranks.allocate<float>(gradient.size());   // float, half or bfloat16
  tutti::all_reduce(ranks, partial, tutti::in_any_order{tutti::sum{}}, {.symmetric = true});

  thrust::device_vector<float> scores(gradient.size());
  clipped(ranks, gradients, 1000, stream);
  rows(ranks, narrow_gradient, narrow_weights, narrow_weights, scores, 128);

  tutti::all_reduce(ranks, gradient, tutti::wire<tutti::bfloat16>(tutti::mean{}));
  tutti::all_reduce(ranks, gradient, tutti::wire<tutti::block_scaled<tutti::float8_e4m3>>(tutti::mean{}));
}

__global__ void pass_on(__grid_constant__ tutti::window<float> const shared, float const* from, std::size_t n) {
  tutti::window_block here(shared);                        // this block of this rank
  int const next = (here.rank() + 1) % here.ranks(), before = (here.rank() + here.ranks() - 1) % here.ranks();
  here.put(next, 0, from, n);                              // to the memory of the next rank
  here.signal(next);
  if (!here.wait(before)) return;                          // a rank did not come; the host hears which
  // here.local() has the n elements of the rank before, which may put again once this rank signals it to
}

__global__ void add_all(__grid_constant__ tutti::window<float> const shared, float const* values, float* sums, int n) {
  tutti::window_block here(shared);
  float sum = 0;
  bool const good = here.exchange(n, [&](int, int i) { return values[i]; }, [&](int rank, int i, float x) {
    sum = rank == 0 ? x : sum + x;                         // in rank order, so all ranks get the same bits
    if (rank == here.ranks() - 1) sums[i] = sum;
  });
  if (!good) return;
}

void own_kernels(tutti::cuda_ranks<tutti::cuda_device, tutti::shm>& ranks, tutti::cuda_device& gpu, cudaStream_t stream,
                 thrust::device_vector<float>& gradient, thrust::device_vector<float>& sums) {
  auto shared = tutti::open_window<float>(ranks, 1000);    // of tutti::on, a cuda_ipc or a cuda_local
  tutti::launch_together(gpu, stream, 1, 256, pass_on, shared.on_device(), tutti::device_data(gradient), 1000);
  shared.wait(stream);                                     // or throws: names the rank that did not come

  tutti::launch_together(gpu, stream, 1, 256, add_all, shared.on_device(), tutti::device_data(gradient),
                         tutti::device_data(sums), 100);
}
