// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overlaps communication with computation: while a rank computes the gradients of one layer, those of the layers after it are
// already being summed over the ranks. A progress thread drives the sums. If all cores compute, there is little to gain.
// ranks: 2
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

using gradient = std::vector<float>;
using seconds = std::chrono::duration<double>;

// Stands for the backward pass of a layer: some work for each of its weights.
void compute(gradient& of, int rank, std::size_t layer) {
  for (std::size_t i = 0; i < of.size(); ++i) {
    float x = static_cast<float>((i + layer) % 1000) / 1000 + static_cast<float>(rank);
    for (int step = 0; step < 4; ++step) x = x * x / (1 + x);
    of[i] = x;
  }
}

template <class F>
double time_of(tutti::communicator<tutti::shm>& comm, F&& f) {
  tutti::barrier(comm);
  auto const begin = std::chrono::steady_clock::now();
  f();
  std::vector<double> slowest{seconds(std::chrono::steady_clock::now() - begin).count()};
  tutti::all_reduce(comm, slowest, tutti::max{});
  return slowest[0];
}

void program(tutti::communicator<tutti::shm>& comm) {
  std::vector<gradient> one_by_one(8, gradient(1 << 20)), overlapped = one_by_one;
  double const computing = time_of(comm, [&] {
    for (std::size_t l = overlapped.size(); l-- > 0;) compute(overlapped[l], comm.rank(), l);
  });

  double const apart = time_of(comm, [&] {
    for (std::size_t l = one_by_one.size(); l-- > 0;) {
      compute(one_by_one[l], comm.rank(), l);
      tutti::all_reduce(comm, one_by_one[l], tutti::mean{});
    }
  });

  double const together = time_of(comm, [&] {
    tutti::progress_thread const moves_the_sums;
    std::vector<tutti::work> sums;
    for (std::size_t l = overlapped.size(); l-- > 0;) {
      compute(overlapped[l], comm.rank(), l);
      sums.push_back(tutti::all_reduce(tutti::async(comm), overlapped[l], tutti::mean{}));
    }
    tutti::wait_for_all(sums);
  });

  if (one_by_one != overlapped) throw std::runtime_error("the two ways have different means");
  if (comm.is_main())
    std::printf(
        "%d ranks, 8 layers of 4 MiB: computing alone %.0f ms; with the sums one by one %.0f ms, overlapped %.0f ms\n",
        comm.size(), computing * 1e3, apart * 1e3, together * 1e3);
}

}  // namespace

int main() try { tutti::run(2, program); } catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
