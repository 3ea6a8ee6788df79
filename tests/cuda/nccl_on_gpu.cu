// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls by the real NCCL, compared with those of the host; its errors; and ranks that are late or lost while it waits for them. Takes
// numbers of ranks, by default 1, 2 and 3, which are processes. Where ranks share a GPU, each calls itself a machine of its own
// (NCCL_HOSTID), since NCCL refuses two ranks of a machine on one GPU. Exits with 77 without a GPU or NCCL.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "cuda/captured.cuh"
#include "cuda/report.hpp"
#include "support/device_conformance.hpp"
#include "support/expect.hpp"
#include "support/gpu_count.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/device/cuda/runtime.cuh"
#include "tutti/device/nccl/cuda_nccl.hpp"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

using options_of_call = device_options<cuda_device>;
template <class T>
using array = device_array<cuda_device, T>;

// The GPU of a rank, and a stream that a check can hold up.
struct place {
  cuda_device gpu;
  device_stream<cuda_device> stream{gpu};
  std::atomic<bool> free = false;

  explicit place(int rank) : gpu(rank % cuda_device_count()) {}

  options_of_call how(std::chrono::nanoseconds timeout = 0ns) const {
    return {.stream = stream.get(), .algorithm = algorithm_id::native, .timeout = timeout};
  }
  void wait() const { gpu.wait(stream.get(), deadline::after(60s)); }
  void hold() {
    expect_cuda(cudaLaunchHostFunc(
                    stream.get(),
                    [](void* flag) {
                      while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::sleep_for(1ms);
                    },
                    &free),
                "cudaLaunchHostFunc");
  }
  template <class T>
  array<T> make(std::vector<T> const& values) const {
    array<T> out(gpu, values.size());
    gpu.copy(stream.get(), out.data(), values.data(), values.size() * sizeof(T));
    wait();
    return out;
  }
  template <class T>
  std::vector<T> read(array<T> const& from) const {
    std::vector<T> out(from.size());
    gpu.copy(stream.get(), out.data(), from.data(), out.size() * sizeof(T));
    wait();
    return out;
  }
};

template <transport Transport>
cuda_nccl<cuda_device, Transport> join_by_nccl(communicator<Transport>& comm, place const& at,
                                               nccl_use use = nccl_use::required) {
  return {comm, at.gpu, staging{}, use, std::source_location::current()};
}
// The error of a call, or of waiting for it.
template <class Ranks, class Call>
error fault_of(Ranks& ranks, place const& at, Call const& call) {
  return error_of([&] {
    call();
    for (int i = 0; i < 60'000; ++i, std::this_thread::sleep_for(1ms)) ranks.work(at.stream.get(), {}).wait();
  });
}

// -- What ranks do.

struct results {
  template <class Comm>
  void operator()(Comm& comm) const {
    place at(comm.rank());
    auto ranks = join_by_nccl(comm, at);
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, (std::size_t{1} << 20) + 3}) {
      check_reductions_of<std::uint32_t>(ranks, comm, n, sum{}, at.stream.get());
      check_movement_of<float>(ranks, comm, n, at.stream.get());
    }
    auto const p = static_cast<float>(comm.size()), all = p * (p + 1) / 2;
    auto const data = at.make(std::vector<float>(1000, static_cast<float>(comm.rank() + 1)));
    array<float> const out(at.gpu, 1000);
    all_reduce(ranks, data, out, mean{}, at.how());
    expect(at.read(out) == std::vector<float>(1000, all / p), "a mean");
    all_reduce(ranks, data, out, fused{sum{}, unchanged{}, scale{0.5f}}, at.how());
    expect(at.read(out) == std::vector<float>(1000, all / 2), "a sum with an epilogue");
    std::vector<int> blocks(10 * static_cast<std::size_t>(comm.size()), comm.rank()), expected = blocks;
    auto const exchanged = at.make(blocks);
    all_to_all(ranks, exchanged, exchanged, at.how());
    all_to_all(comm, blocks, expected);
    expect(at.read(exchanged) == expected, "all_to_all in place");
  }
};

// All types and operations that NCCL is told by number, among them bfloat16.
struct types_and_operations {
  template <class Comm>
  void operator()(Comm& comm) const {
    place at(comm.rank());
    auto ranks = join_by_nccl(comm, at);
    auto const check = [&]<class T>(T) {
      std::vector<T> const values(100, T(1));
      auto const data = at.make(values);
      all_reduce(ranks, data, product{}, at.how());
      expect(at.read(data) == values, "a product");
      if constexpr (std::is_integral_v<T>) {
        all_reduce(ranks, data, tutti::max{}, at.how());
        all_reduce(ranks, data, tutti::min{}, at.how());
        expect(at.read(data) == values, "max and min");
      }
    };
    check(std::int8_t{}), check(std::uint8_t{}), check(std::int32_t{}), check(std::uint32_t{}), check(std::int64_t{});
    check(std::uint64_t{}), check(tutti::half{}), check(bfloat16{}), check(double{});
  }
};

struct graphs {
  template <class Comm>
  void operator()(Comm& comm) const {
    place at(comm.rank());
    auto ranks = join_by_nccl(comm, at);
    auto const data = at.make(std::vector<int>(1000, 1));
    {
      captured const call(at.stream.get(), [&] { all_reduce(ranks, data, sum{}, at.how()); });
      expect(at.read(data) == std::vector<int>(1000, 1), "it has not run");
      call.replay(3);
      int const p = comm.size();
      expect(at.read(data) == std::vector<int>(1000, p * p * p), "it has run three times");
    }
    all_reduce(ranks, data, sum{}, at.how());
    at.wait();
  }
};

// NCCL finds that a receive from itself has no send.
struct wrong_use {
  template <class Comm>
  void operator()(Comm& comm) const {
    place at(comm.rank());
    array<int> const data(at.gpu, 10);
    nccl::library const library = nccl::library::load();
    nccl::team team;
    auto const settle = [&](nccl::result r) {
      for (; r == nccl::result::in_progress; r = team.state()) std::this_thread::sleep_for(1ms);
      return r;
    };
    nccl::unique_id id{};
    at.gpu.while_current([&] { return library.api.get_unique_id(&id); });
    auto const joined = settle(at.gpu.while_current([&] { return team.join(library, id, 1, 0); }));
    expect(joined == nccl::result::success, "join: " + team.text_of(joined));
    auto const given = settle(at.gpu.while_current([&] {
      return team.give([&](auto const& call, auto* by) {
        return call.recv(data.data(), 40, nccl::data_type::uint8, 0, by, at.stream.get());
      });
    }));
    std::string const text = team.text_of(given);
    std::printf("       a receive without a send: %s\n", text.c_str());
    std::fflush(stdout);
    expect(given == nccl::result::usage, "result " + std::to_string(static_cast<int>(given)));
    expect(contains(text, "recv to self without a matching send"), "the text of the last error");
    team.abort();
  }
};

// Every call of rank 0 is behind work of its stream that does not end before the exception.
struct exception_before_calls_begin {
  template <class Comm>
  void operator()(Comm& comm) const {
    place at(comm.rank());
    auto const data = at.make(std::vector<float>(1000, 1));
    auto const began = clock_type::now();
    std::jthread freeing;
    try {
      auto ranks = join_by_nccl(comm, at);
      at.hold();
      all_reduce(ranks, data, sum{}, at.how());
      freeing = std::jthread([&] {
        std::this_thread::sleep_for(2s);
        at.free = true;
      });
      try {
        throw std::runtime_error("the program");
      } catch (...) {
        ranks.give_up();
        double const seconds = std::chrono::duration<double>(clock_type::now() - began).count();
        std::printf("       NCCL was aborted %.2f s after the start, its stream was held for 2 s\n", seconds);
      }
    } catch (error const& e) {
      throw std::runtime_error(e.what());
    }
    at.free = true;
    at.wait();
  }
};

// After one call, the stream of rank 1 does not come to the next.
template <class Ranks, class Comm>
void call_and_hold_rank_1(Ranks& ranks, Comm& comm, place& at, array<float> const& data) {
  all_reduce(ranks, data, sum{}, at.how());
  at.wait();
  barrier(comm);
  if (comm.rank() == 1) at.hold();
}

struct late {
  template <class Comm>
  void operator()(Comm& comm) const {
    place at(comm.rank());
    auto ranks = join_by_nccl(comm, at);
    auto const data = at.make(std::vector<float>(1000, 1));
    call_and_hold_rank_1(ranks, comm, at, data);
    auto const began = clock_type::now();
    error const e = fault_of(ranks, at, [&] { all_reduce(ranks, data, sum{}, at.how(1s)); });
    double const seconds = std::chrono::duration<double>(clock_type::now() - began).count();
    std::printf("       rank %d after %.2f s: %s\n", comm.rank(), seconds, e.what());
    at.free = true;
    expect_error(e, error_code::timeout, "did not complete within 1 s");
    at.wait();
    std::fflush(stdout);
  }
};

struct lost {
  template <class Comm>
  void operator()(Comm& comm) const {
    place at(comm.rank());
    auto ranks = join_by_nccl(comm, at);
    auto const data = at.make(std::vector<float>(1000, 1));
    call_and_hold_rank_1(ranks, comm, at, data);
    error const e = fault_of(ranks, at, [&] {
      all_reduce(ranks, data, sum{}, at.how());
      if (comm.rank() == 1) ::kill(::getpid(), SIGKILL);
    });
    std::printf("       rank %d: %s\n", comm.rank(), e.what());
    std::fflush(stdout);
    expect_error(e, error_code::rank_lost, "rank 1");
    at.wait();
  }
};

// Ranks of one machine on one GPU.
struct refused {
  template <class Comm>
  void operator()(Comm& comm) const {
    ::unsetenv("NCCL_HOSTID");
    place at(0);
    auto ranks = join_by_nccl(comm, at, nccl_use::if_possible);
    if (comm.is_main()) std::printf("       %s\n", ranks.why_not().c_str());
    std::fflush(stdout);
    expect(!ranks.has_nccl() && contains(ranks.why_not(), "NCCL reports"), "NCCL refuses them");
    std::vector<float> const ones(1000, 1);
    auto const data = at.make(ones);
    all_reduce(ranks, data, sum{}, {.stream = at.stream.get()});
    expect(at.read(data)[0] == static_cast<float>(comm.size()), "a sum through the host");
  }
};

template <class Check>
void check(char const* what, int p, Check const& of_rank) {
  report_run(std::to_string(p) + (p == 1 ? " rank: " : " ranks: ") + what, [&] {
    run_local(p, [&](auto& comm) {
      if (comm.size() > cuda_device_count()) ::setenv("NCCL_HOSTID", std::to_string(comm.rank()).c_str(), 1);
      of_rank(comm);
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (cuda_device_count_by_child() == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  try {
    std::printf("NCCL %s\n", nccl::library::load().version_text().c_str());
  } catch (error const& e) {
    std::printf("skipped: there is no NCCL to load: %s\n", e.what());
    return 77;
  }
  ::setenv("TUTTI_TIMEOUT", "30", 0);
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {1, 2, 3};
  for (int const p : sizes) {
    check("results are those of the host", p, results{});
    check("calls are captured in a graph", p, graphs{});
    if (p == 1) {
      check("types and operations", p, types_and_operations{});
      check("an error of NCCL has a text", p, wrong_use{});
      check("an exception before calls have begun", p, exception_before_calls_begin{});
    } else {
      check("a rank that is late", p, late{});
      report_run(std::to_string(p) + " ranks: a rank that is lost", [&] {
        std::string said;
        try {
          run_local(p, [](auto& comm) {
            if (comm.size() > cuda_device_count()) ::setenv("NCCL_HOSTID", std::to_string(comm.rank()).c_str(), 1);
            lost{}(comm);
          });
        } catch (std::exception const& e) {
          said = e.what();
        }
        expect(contains(said, "rank 1"), "run_local says: " + said);
      });
      check("of one machine and GPU are refused, and go another way", p, refused{});
    }
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
