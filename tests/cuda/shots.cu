// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce by one_shot and two_shot among ranks with a GPU each, in one kernel whose blocks meet by flags. Ranks are threads, so
// that on the PTX machine their kernels run in one machine, which then finds races between them. Exits with 77 with fewer than two
// GPUs. `shots few` is for the PTX machine.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/captured.cuh"
#include "cuda/report.hpp"
#include "support/device_algorithms.hpp"
#include "support/device_counters.hpp"
#include "support/expect.hpp"
#include "support/gpu_count.cuh"
#include "support/temporary_folder.hpp"
#include "support/wire_reference.hpp"
#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

bool few = false;  // elements, calls and ranks
constexpr algorithm_id both_shots[] = {algorithm_id::one_shot, algorithm_id::two_shot};

// The GPU and the stream of a rank.
struct place {
  cuda_device gpu;
  device_stream<cuda_device> stream{gpu};

  explicit place(int rank) : gpu{rank} {}
  device_options<cuda_device> by(algorithm_id algorithm, bool symmetric = false) const {
    return {.stream = stream.get(), .algorithm = algorithm, .symmetric = symmetric};
  }
  template <class T>
  void fill(std::span<T> to, T value) const {
    std::vector<T> const values(to.size(), value);
    gpu.copy(stream.get(), to.data(), values.data(), to.size_bytes());
    gpu.wait(stream.get(), deadline::after(60s));
  }
  template <class T>
  void expect_all(std::span<T const> data, T value, std::string_view what) const {
    std::vector<T> values(data.size());
    gpu.copy(stream.get(), values.data(), data.data(), data.size_bytes());
    gpu.wait(stream.get(), deadline::after(120s));
    for (T const x : values)
      if (!same_bits<T>(x, value)) return expect(false, std::string(what));
  }
};

// Arrays of a rank. They are there before any kernel waits for others, because to allocate and to free memory can mean to wait
// until all GPUs of the process are idle.
template <class T>
struct arrays {
  place const& at;
  std::span<T> in, out;
  bool registered;

  template <class Ranks, class Comm, class Op>
  void check(Ranks& ranks, Comm& comm, std::size_t n, Op const& op) const {
    for (algorithm_id const by : both_shots)
      for (bool const in_place : {false, true}) {
        std::vector<T> const mine = uneven_values<T>(comm.rank(), n);
        std::vector<T> expected(n), got(n);
        all_reduce(comm, mine, expected, op, {.algorithm = algorithm_id::one_shot});
        std::span<T> const from(in.data(), n), to(in_place ? in.data() : out.data(), n);
        at.gpu.copy(at.stream.get(), from.data(), mine.data(), n * sizeof(T));
        all_reduce(ranks, from, to, op, at.by(by, registered));
        at.gpu.copy(at.stream.get(), got.data(), to.data(), n * sizeof(T));
        ranks.work(at.stream.get()).wait();
        for (std::size_t i = 0; i < n; ++i)
          if (!same_bits<T>(got[i], expected[i]))
            return expect(
                false, join({name(by), in_place ? " in place" : "", " of ", n, " elements is wrong at element ", i}));
      }
  }
};

struct bits_of_the_host {
  template <class Comm>
  void operator()(Comm& comm) const {
    place const at(comm.rank());
    // Kernels for 2 and 4 ranks load several packs before they combine the first. For few elements, both blocks do so and then
    // load the rest one by one. The others load one pack a turn, and the threads of both blocks have two turns.
    bool const fewer = few && comm.size() > 4;
    std::size_t const most = !few ? 900'001 : fewer ? 2503 : 9001, some = fewer ? 1503 : 6007;
    device_array<cuda_device, float> const a(at.gpu, most), b(at.gpu, most);
    device_array<cuda_device, affine> const c(at.gpu, some), d(at.gpu, some);
    cuda_ipc small(comm, at.gpu, 4096), large(comm, at.gpu);  // with several pieces for a block, and one
    arrays<float> const floats{at, {a.data(), a.size()}, {b.data(), b.size()}, false};
    arrays<float> const shifted{
        at, {a.data() + 1, most - 1}, {b.data() + 1, most - 1}, false};  // not aligned for packs
    arrays<affine> const pairs{at, {c.data(), c.size()}, {d.data(), d.size()}, false};
    arrays<affine> const registered{at, large.template allocate<affine>(some), large.template allocate<affine>(some),
                                    true};
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{2503}})
      floats.check(small, comm, n, sum{});
    floats.check(large, comm, most, sum{});
    floats.check(large, comm, most, tutti::max{});
    shifted.check(large, comm, some, sum{});
    pairs.check(large, comm, some, compose{});
    registered.check(large, comm, some, compose{});
    barrier(comm);
  }
};

// Each call uses what the one before has left, and the next may begin while others still end it.
struct one_after_the_other {
  template <class Comm>
  void operator()(Comm& comm) const {
    place const at(comm.rank());
    cuda_ipc ranks(comm, at.gpu, 4096);
    auto const data = ranks.template allocate<float>(5000), out = ranks.template allocate<float>(5000);
    at.fill(data, 1.0f);
    captured const graph(at.stream.get(), [&] {
      all_reduce(ranks, data, out, sum{}, at.by(algorithm_id::one_shot, true));
      all_reduce(ranks, out, tutti::max{}, at.by(algorithm_id::two_shot, true));
      all_reduce(ranks, out.first(100), data.first(100), tutti::max{}, at.by(algorithm_id::one_shot));
    });
    for (int turn = 0; turn < 3; ++turn) {
      graph.replay(2);
      all_reduce(ranks, data.first(40), tutti::max{}, at.by(algorithm_id::one_shot));
      broadcast(ranks, data.first(300), turn % comm.size(), {.stream = at.stream.get()});
      all_reduce(ranks, data.subspan(7, 3000), tutti::max{}, at.by(algorithm_id::two_shot));
    }
    ranks.work(at.stream.get()).wait();
    float expected = 1;
    for (int turn = 0; turn < 6; ++turn) expected *= static_cast<float>(comm.size());
    at.template expect_all<float>(data.first(100), expected, "the sum of ones, six times");
    at.template expect_all<float>(data.subspan(100), 1, "elements that only max has touched");
  }
};

// `x` of an array counts the calls that have updated it.
struct count_calls {
  template <class A, class S>
  TUTTI_HOST_DEVICE A operator()(A const& x, S (&values)[1]) const {
    values[0] += 1;
    return x + values[0];
  }
};

struct more_in_one_pass {
  template <class Comm>
  void operator()(Comm& comm) const {
    place const at(comm.rank());
    cuda_ipc ranks(comm, at.gpu, 4096);
    auto const in = ranks.template allocate<tutti::bfloat16>(1501);
    device_array<cuda_device, float> const out(at.gpu, in.size()), calls(at.gpu, in.size());
    at.fill(std::span(in.data(), in.size()), tutti::bfloat16(2.0f));
    at.fill(std::span(calls.data(), calls.size()), 0.0f);
    barrier(comm);
    fused const how{sum{}, scale{0.5f}, with_arrays(count_calls{}, calls.data())};
    for (bool const symmetric : {false, true})
      all_reduce(ranks, in, out, how, at.by(algorithm_id::automatic, symmetric));
    // The same from an odd address, for all elements but the last.
    std::span<float> const all(out.data(), out.size()), most = all.first(all.size() - 1);
    all_reduce(ranks, in.subspan(1), most, how, at.by(algorithm_id::automatic, true));
    ranks.work(at.stream.get()).wait();
    at.template expect_all<float>(most, static_cast<float>(comm.size() + 3), "results");
    at.template expect_all<float>(all.last(1), static_cast<float>(comm.size() + 2), "the last result");
    at.template expect_all<float>(std::span(calls.data(), most.size()), 3, "what the epilogue has counted");
    barrier(comm);
  }
};

// Arrays that each rank has in part, in pieces and in registered memory.
struct arrays_in_shards {
  template <class Comm>
  void operator()(Comm& comm) const {
    place const at(comm.rank());
    cuda_ipc ranks(comm, at.gpu, 4096);
    auto const in = ranks.template allocate<tutti::bfloat16>(1501);
    auto const out = ranks.template allocate<float>(in.size());
    device_array<cuda_device, float> const calls(at.gpu, shard_of(ranks, in.size()).count);
    at.fill(std::span(in.data(), in.size()), tutti::bfloat16(2.0f));
    at.fill(std::span(calls.data(), calls.size()), 0.0f);
    barrier(comm);
    fused const how{sum{}, scale{0.5f}, with_shards(count_calls{}, calls.data())};
    for (bool const symmetric : {false, true})
      all_reduce(ranks, in, out, how, at.by(algorithm_id::automatic, symmetric));
    // The same from an odd address, for all elements but the last; its owner is the last rank.
    all_reduce(ranks, in.subspan(1), out.subspan(1), how, at.by(algorithm_id::automatic, true));
    ranks.work(at.stream.get()).wait();
    auto const size = static_cast<float>(comm.size());
    at.template expect_all<float>(out.first(1), size + 2, "the first result");
    at.template expect_all<float>(out.subspan(1), size + 3, "results of all shards");
    std::span const counted(calls.data(), shard_of(ranks, in.size() - 1).count);
    at.template expect_all<float>(counted, 3, "what the epilogue has counted in a shard");
    barrier(comm);
  }
};

// Data travel as a narrower type, from aligned addresses and others.
template <class Wire>
struct narrow_wires {
  template <class Comm>
  void operator()(Comm& comm) const {
    place const at(comm.rank());
    std::size_t const n = few ? 1501 : 300'001, skip = 1;
    cuda_ipc ranks(comm, at.gpu, 16 << 10);
    device_array<cuda_device, float> const in(at.gpu, n + skip), out(at.gpu, n + skip), calls(at.gpu, n);
    std::vector<float> const mine = wire_values(comm.rank(), n), zeros(n);
    std::vector<float> got(n);
    barrier(comm);
    for (algorithm_id const by : both_shots)
      for (std::size_t const begin : {std::size_t{0}, skip}) {
        std::span const from(in.data() + begin, n), to(out.data() + begin, n);
        at.gpu.copy(at.stream.get(), from.data(), mine.data(), from.size_bytes());
        all_reduce(ranks, from, to, wire<Wire>(fused{sum{}, scale{0.5f}, scale{3.0f}}), at.by(by));
        at.gpu.copy(at.stream.get(), got.data(), to.data(), to.size_bytes());
        ranks.work(at.stream.get()).wait();
        std::vector<float> const expected = wire_reference<Wire>(comm.size(), n, by, 0.5f, 3.0f);
        for (std::size_t i = 0; i < n; ++i)
          if (!same_bits<float>(got[i], expected[i]))
            return expect(false, join({name(by), " is wrong at element ", i}));
      }
    // Ones are exact, whatever they travel as.
    at.fill(std::span(in.data(), n), 1.0f);
    at.fill(std::span(calls.data(), n), 0.0f);
    fused const counted{sum{}, unchanged{}, with_arrays(count_calls{}, calls.data())};
    fused const in_shards{sum{}, unchanged{}, with_shards(count_calls{}, calls.data())};
    std::span<float> const all(out.data(), n);
    all_reduce(ranks, std::span(in.data(), n), all, wire<Wire>(counted), at.by(algorithm_id::automatic));
    all_reduce(ranks, std::span(in.data(), n), all, wire<Wire>(in_shards), at.by(algorithm_id::automatic));
    ranks.work(at.stream.get()).wait();
    at.template expect_all<float>(all, static_cast<float>(comm.size() + 2), "sums after two calls");
    barrier(comm);
  }
};

struct numbers_beyond_32_bits {
  template <class Comm>
  void operator()(Comm& comm) const {
    check_numbers_beyond_32_bits(comm, cuda_device(comm.rank()));
  }
};

template <class Check>
void on_ranks(int ranks, std::string const& what, Check const& check) {
  report_run(join({what, ", on ", ranks, " ranks"}), [&] { run_threads(ranks, check); });
}

}  // namespace

int main(int argc, char** argv) {
  few = argc > 1 && std::string_view(argv[1]) == "few";
  int const gpus = cuda_device_count_by_child();
  if (gpus < 2) {
    std::puts("skipped: there is no second GPU");
    return 77;
  }
  temporary_folder const folder;
  std::string const table = (folder.path() / "table").string();
  std::ofstream(table) << tuning_version << "\ndevice processes packets 0\n";
  ::setenv("TUTTI_TUNING", table.c_str(), 1);
  on_ranks(2, "numbers of calls and meetings grow beyond 2^32", numbers_beyond_32_bits{});
  for (int const p : {2, 3, 4, 5, 6, 8}) {
    if (p > gpus || (few && p % 2 == 1)) continue;
    on_ranks(p, "all_reduce has the bits of the host", bits_of_the_host{});
    if (!few || p < 5) on_ranks(p, "calls and graphs follow each other", one_after_the_other{});
    on_ranks(p, "prologue, epilogue and arrays in one pass", more_in_one_pass{});
    on_ranks(p, "arrays in shards", arrays_in_shards{});
    if (few && p > 4) continue;
    on_ranks(p, "data that travel as bfloat16", narrow_wires<tutti::bfloat16>{});
    on_ranks(p, "data that travel as blocks of e4m3", narrow_wires<block_scaled<float8_e4m3>>{});
    on_ranks(p, "data that travel as blocks of e5m2", narrow_wires<block_scaled<float8_e5m2, 256>>{});
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
