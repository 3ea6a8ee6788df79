// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory by NCCL, with processes as ranks and a library in NCCL's place: which calls go there, what happens where
// NCCL is absent or refuses, and that nothing hangs when a rank is late or dies. The declarations are compared with nccl.h.
// labels: processes
// timeout: 300
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

#if defined(HAS_NCCL)
#include <nccl.h>
#endif

#include "support/device_conformance.hpp"
#include "support/environment.hpp"
#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/sharing_stand_in.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

#if defined(HAS_NCCL)
template <class A, class B>
constexpr bool passed_alike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> && std::is_class_v<A> == std::is_class_v<B>;
template <class F, class G>
constexpr bool same_form = false;
template <class R, class... A, class S, class... B>
constexpr bool same_form<R (*)(A...), S (*)(B...)> = [] {
  if constexpr (sizeof...(A) != sizeof...(B)) return false;
  else return passed_alike<R, S> && (passed_alike<A, B> && ...);
}();
using declared = nccl::functions;
static_assert(same_form<decltype(&ncclGetVersion), decltype(declared::get_version)> &&
              same_form<decltype(&ncclGetUniqueId), decltype(declared::get_unique_id)> &&
              same_form<decltype(&ncclCommInitRankConfig), decltype(declared::init_rank)> &&
              same_form<decltype(&ncclCommFinalize), decltype(declared::finalize)> &&
              same_form<decltype(&ncclCommDestroy), decltype(declared::destroy)> &&
              same_form<decltype(&ncclCommAbort), decltype(declared::abort)> &&
              same_form<decltype(&ncclCommGetAsyncError), decltype(declared::get_async_error)> &&
              same_form<decltype(&ncclGetErrorString), decltype(declared::get_error_string)> &&
              same_form<decltype(&ncclGetLastError), decltype(declared::get_last_error)> &&
              same_form<decltype(&ncclGroupStart), decltype(declared::group_start)> &&
              same_form<decltype(&ncclGroupEnd), decltype(declared::group_end)> &&
              same_form<decltype(&ncclAllReduce), decltype(declared::all_reduce)> &&
              same_form<decltype(&ncclReduce), decltype(declared::reduce)> &&
              same_form<decltype(&ncclReduceScatter), decltype(declared::reduce_scatter)> &&
              same_form<decltype(&ncclBroadcast), decltype(declared::broadcast)> &&
              same_form<decltype(&ncclAllGather), decltype(declared::all_gather)> &&
              same_form<decltype(&ncclSend), decltype(declared::send)> &&
              same_form<decltype(&ncclRecv), decltype(declared::recv)>);
static_assert(!same_form<decltype(&ncclSend), decltype(declared::all_gather)>);
static_assert(sizeof(ncclUniqueId) == sizeof(nccl::unique_id));

constexpr bool same(ncclResult_t theirs, nccl::result ours) { return static_cast<int>(ours) == theirs; }
constexpr bool same(ncclDataType_t theirs, nccl::data_type ours) { return static_cast<int>(ours) == theirs; }
constexpr bool same(ncclRedOp_t theirs, nccl::operation ours) { return static_cast<int>(ours) == theirs; }
static_assert(same(ncclSuccess, nccl::result::success) && same(ncclUnhandledCudaError, nccl::result::cuda) &&
              same(ncclSystemError, nccl::result::system) && same(ncclInternalError, nccl::result::internal) &&
              same(ncclInvalidArgument, nccl::result::argument) && same(ncclInvalidUsage, nccl::result::usage) &&
              same(ncclRemoteError, nccl::result::remote) && same(ncclInProgress, nccl::result::in_progress));
static_assert(same(ncclInt8, nccl::type_of<signed char>()) && same(ncclUint8, nccl::type_of<unsigned char>()) &&
              same(ncclInt32, nccl::type_of<int>()) && same(ncclUint32, nccl::type_of<unsigned>()) &&
              same(ncclInt64, nccl::type_of<long>()) && same(ncclInt64, nccl::type_of<long long>()) &&
              same(ncclUint64, nccl::type_of<unsigned long>()) && same(ncclFloat32, nccl::type_of<float>()) &&
              same(ncclFloat64, nccl::type_of<double>()) && same(ncclFloat16, nccl::type_of<tutti::half>()) &&
              same(ncclFloat16, nccl::type_of<__half>()) && same(ncclBfloat16, nccl::type_of<tutti::bfloat16>()) &&
              same(ncclBfloat16, nccl::type_of<__nv_bfloat16>()));
static_assert(same(ncclSum, nccl::operation_of<float, sum>()) && same(ncclSum, nccl::operation_of<int, mean>()) &&
              same(ncclProd, nccl::operation_of<float, product>()) &&
              same(ncclMax, nccl::operation_of<int, tutti::max>()) &&
              same(ncclMin, nccl::operation_of<int, tutti::min>()));

TEST_CASE("the settings lie where NCCL reads them") {
  ncclConfig_t const theirs = NCCL_CONFIG_INITIALIZER;
  nccl::settings const ours;
  CHECK(ours.magic == theirs.magic);
  CHECK(offsetof(nccl::settings, size) == offsetof(ncclConfig_t, size));
  CHECK(offsetof(nccl::settings, magic) == offsetof(ncclConfig_t, magic));
  CHECK(offsetof(nccl::settings, version) == offsetof(ncclConfig_t, version));
  CHECK(offsetof(nccl::settings, blocking) == offsetof(ncclConfig_t, blocking));
  CHECK(ours.version == NCCL_VERSION(2, 14, 0));
}
#endif
static_assert(nccl::type_of<short>() == nccl::data_type::none && nccl::type_of<bool>() == nccl::data_type::none &&
              nccl::operation_of<float, tutti::max>() == nccl::operation::none &&
              nccl::operation_of<int, bit_or>() == nccl::operation::none);

struct lending_stand_in : sharing_stand_in {
  using sharing_stand_in::sharing_stand_in;

  void* lend(stream_type stream) const { return &here(stream); }
  auto while_current(auto const& f) const { return f(); }
};
static_assert(lending_device<lending_stand_in> && !lending_device<sharing_stand_in>);

using floats = device_array<lending_stand_in, float>;
using setup = on_options<lending_stand_in>;

setup on_path(device_path path, stand_in_stream* stream = nullptr) {
  return {.stream = stream, .path = path, .arena = 4096, .slices = {.slice = 2048}};
}

// Groups of calls that this process has given to the substitute.
int calls_by_nccl() {
  static auto* const count =
      reinterpret_cast<int (*)()>(::dlsym(::dlopen(NCCL_SUBSTITUTE, RTLD_NOW | RTLD_LOCAL), "substitute_calls"));
  return count();
}

// f(comm) on p ranks that find the substitute.
template <class F>
void on_processes(int p, F const& f) {
  CAPTURE(p);
  temporary_folder const at;
  environment const there{{"TUTTI_NCCL", NCCL_SUBSTITUTE}, {"SUBSTITUTE_FOLDER", at.path().string()}};
  run_local(p, f);
}

template <class T>
device_array<lending_stand_in, T> nccl_array(lending_stand_in const& on, std::vector<T> const& values,
                                             stand_in_stream* stream = nullptr) {
  device_array<lending_stand_in, T> out(on, values.size());
  on.copy(stream, out.data(), values.data(), values.size() * sizeof(T));
  on.wait(stream, deadline::after(std::chrono::seconds{10}));
  return out;
}
template <class T>
std::vector<T> nccl_values(lending_stand_in const& on, device_array<lending_stand_in, T> const& data,
                           stand_in_stream* stream = nullptr) {
  std::vector<T> out(data.size());
  on.copy(stream, out.data(), data.data(), out.size() * sizeof(T));
  on.wait(stream, deadline::after(std::chrono::seconds{60}));
  return out;
}

constexpr device_options<lending_stand_in> natively{.algorithm = algorithm_id::native};

// Rank q gets q + 1 elements from each of 3 ranks.
template <class Ranks, class T>
void exchange_some(Ranks& ranks, int rank, device_array<lending_stand_in, T> const& from,
                   device_array<lending_stand_in, T> const& to, device_options<lending_stand_in> const& how = {}) {
  std::vector<std::size_t> const sent{1, 2, 3}, received(3, static_cast<std::size_t>(rank) + 1);
  all_to_all_v(ranks, from, sent, to, received, {}, {}, how);
}

// A call by NCCL of 3 ranks, in which each waits for all.
template <class Ranks, class T>
void call_by_name(std::string_view what, Ranks& ranks, device_array<lending_stand_in, T> const& data,
                  device_array<lending_stand_in, T> const& blocks, device_options<lending_stand_in> how = {}) {
  how.algorithm = algorithm_id::native;
  int const r = ranks.rank();
  if (what == "all_reduce") all_reduce(ranks, data, sum{}, how);
  else if (what == "all_to_all_v") exchange_some(ranks, r, data, blocks, how);
  else send_recv(ranks, data, (r + 1) % 3, blocks, (r + 2) % 3, 0, how);
}

}  // namespace

TEST_CASE("calls that NCCL has have the results of the host, in place and not") {
  for (int const p : {1, 2, 3, 4})
    on_processes(p, [](auto& comm) {
      lending_stand_in const device(comm.rank());
      auto ranks = on(comm, device, on_path(device_path::nccl));
      expect(ranks.path() == device_path::nccl, ranks.explain());
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
        check_reductions_of<std::uint32_t>(ranks, comm, n, sum{});
        check_movement_of<float>(ranks, comm, n);
      }
      check_reductions_of<std::int64_t>(ranks, comm, 300, mean{});
      check_movement_of<summary>(ranks, comm, 300);
      std::vector<int> all(static_cast<std::size_t>(10 * comm.size()));
      std::iota(all.begin(), all.end(), 1000 * comm.rank());
      auto const blocks = nccl_array(device, all);
      all_to_all(ranks, blocks, blocks);
      std::vector<int> expected(all.size());
      all_to_all(comm, all, expected);
      expect(nccl_values(device, blocks) == expected, "all_to_all in place");
    });
}

TEST_CASE("every collective that NCCL has is a group of its calls, and no other is") {
  on_processes(3, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    auto ranks = on(comm, device, on_path(device_path::nccl));
    auto const one = nccl_array(device, std::vector<float>(10, 1)),
               many = nccl_array(device, std::vector<float>(30, 1)), none = nccl_array(device, std::vector<float>{});
    bool const root = comm.is_main();
    std::vector<std::size_t> const counts(3, 10);
    auto const by_nccl = [&](bool expected, char const* what, auto const& call) {
      int const before = calls_by_nccl();
      call();
      ranks.work().wait();
      expect(calls_by_nccl() == before + expected, what);
    };
    by_nccl(true, "all_reduce", [&] { all_reduce(ranks, one); });
    by_nccl(true, "reduce", [&] { reduce(ranks, one, one, sum{}, 2); });
    by_nccl(true, "reduce_scatter", [&] { reduce_scatter(ranks, many, one); });
    by_nccl(true, "reduce_scatter_v", [&] { reduce_scatter_v(ranks, many, one, counts); });
    by_nccl(true, "broadcast", [&] { broadcast(ranks, one, 1); });
    by_nccl(true, "all_gather", [&] { all_gather(ranks, one, many); });
    by_nccl(true, "all_gather_v", [&] { all_gather_v(ranks, one, many, counts); });
    by_nccl(true, "gather", [&] { gather(ranks, one, root ? many : none); });
    by_nccl(true, "scatter", [&] { scatter(ranks, root ? many : none, one); });
    by_nccl(true, "gather_v", [&] { gather_v(ranks, one, root ? many : none, counts); });
    by_nccl(true, "scatter_v", [&] { scatter_v(ranks, root ? many : none, counts, one); });
    auto const other = nccl_array(device, std::vector<float>(30, 1));
    by_nccl(true, "all_to_all_v", [&] { all_to_all_v(ranks, many, counts, other, counts); });
    by_nccl(true, "all_to_all", [&] { all_to_all(ranks, many, other); });
    by_nccl(true, "a fused epilogue", [&] { all_reduce(ranks, one, fused{sum{}, unchanged{}, scale{0.5f}}); });
    by_nccl(false, "a prologue", [&] { all_reduce(ranks, one, fused{sum{}, scale{0.5f}}); });
    by_nccl(true, "named", [&] { all_reduce(ranks, one, sum{}, {.algorithm = algorithm_id::native}); });
    by_nccl(false, "another algorithm", [&] { all_reduce(ranks, one, sum{}, {.algorithm = algorithm_id::one_shot}); });
    by_nccl(false, "an operation that it lacks", [&] { all_reduce(ranks, one, tutti::max{}); });
    by_nccl(false, "scan", [&] { scan(ranks, one); });
    by_nccl(false, "barrier", [&] { barrier(ranks); });
    expect_error(error_of([&] { scan(ranks, one, sum{}, {.algorithm = algorithm_id::native}); }),
                 error_code::bad_argument, "NCCL has no such scan");
  });
}
TEST_CASE("types and operations") {
  on_processes(3, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    auto ranks = on(comm, device, on_path(device_path::nccl));
    auto const check = [&]<class T>(T, auto const& op, int expected) {
      int const before = calls_by_nccl();
      auto const of = [](int n) {
        if constexpr (std::is_integral_v<T>) return std::vector<T>(100, static_cast<T>(n));
        else return std::vector<T>(100, T(static_cast<float>(n)));
      };
      std::string const what = join({name_of<std::remove_cvref_t<decltype(op)>>(), " of ", type_name<T>()});
      auto const data = nccl_array(device, of(comm.rank() + 1));
      all_reduce(ranks, data, op);
      expect(nccl_values(device, data) == of(expected), what);
      expect(calls_by_nccl() == before + 1, what + " by NCCL");
    };
    auto const sums = [&]<class... T>(type_list<T...>) { (check(T{}, sum{}, 6), ...); };
    sums(type_list<std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float, double,
                   tutti::half, bfloat16>{});
    check(std::int32_t{}, mean{}, 2), check(bfloat16{}, mean{}, 2);
    check(std::int8_t{}, product{}, 6), check(float{}, product{}, 6);
    check(std::int64_t{}, tutti::max{}, 3), check(std::uint8_t{}, tutti::min{}, 1);
  });
}
TEST_CASE("the order of combination is NCCL's, an epilogue follows, and one_shot keeps its own") {
  on_processes(3, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    auto ranks = on(comm, device, on_path(device_path::nccl));
    float const mine[] = {1e8f, -1e8f, 0.25f};  // the substitute begins with the last rank, and so loses 0.25
    auto const r = static_cast<std::size_t>(comm.rank());
    auto const data = nccl_array(device, std::vector<float>(100, mine[r]));
    floats const out(device, 100);
    all_reduce(ranks, data, out);
    expect(nccl_values(device, out) == std::vector<float>(100, 0), "by NCCL");
    all_reduce(ranks, data, out, sum{}, {.algorithm = algorithm_id::one_shot});
    expect(nccl_values(device, out) == std::vector<float>(100, 0.25f), "by one_shot");
    auto const counted = nccl_array(device, std::vector<float>(100, 1));
    all_reduce(ranks, counted, fused{sum{}, unchanged{}, scale{0.5f}});
    expect(nccl_values(device, counted) == std::vector<float>(100, 1.5f), "the epilogue");
  });
}

TEST_CASE(
    "where one rank cannot use NCCL, all take the next path and say why; a program that asked for NCCL gets an error") {
  struct {
    char const *name, *value, *reason;
  } const refusals[] = {
      {"TUTTI_NCCL", "/no/such/libnccl.so.2", "rank 1 cannot use NCCL: /no/such/libnccl.so.2: cannot open"},
      {"TUTTI_NCCL", "libm.so.6", "rank 1 cannot use NCCL: libm.so.6 has no function ncclGetVersion"},
      {"TUTTI_NCCL", "0", "rank 1 cannot use NCCL: TUTTI_NCCL is 0"},
      {"SUBSTITUTE_VERSION", "21703", "rank 1 cannot use NCCL: NCCL 2.17.3 is older than 2.18"},
      {"SUBSTITUTE_VERSION", "23007", "rank 0 cannot use NCCL: ranks have different versions of it"},
      {"SUBSTITUTE_REFUSES", "ranks 0 and 1 on one GPU",
       "rank 1 cannot use NCCL: NCCL reports: invalid usage (ranks 0 and 1 on one GPU)"},
  };
  for (auto const& one : refusals)
    on_processes(3, [&one](auto& comm) {
      if (comm.rank() == 1) ::setenv(one.name, one.value, 1);
      lending_stand_in device(comm.rank());
      device.refuses.sharing = true;
      auto ranks = on(comm, device, on_path(device_path::automatic));
      expect(ranks.path() == device_path::staged, ranks.explain());
      expect(contains(ranks.explain(), std::string("\nNCCL is not used: ") + one.reason), ranks.explain());
      check_reductions_of<std::uint32_t>(ranks, comm, 100, sum{});
      expect_error(error_of([&] { static_cast<void>(on(comm, device, on_path(device_path::nccl))); }),
                   error_code::system, one.reason);
      auto const data = nccl_array(device, std::vector<float>(10, 1));
      expect_error(error_of([&] { all_reduce(ranks, data, sum{}, {.algorithm = algorithm_id::native}); }),
                   error_code::bad_argument, "NCCL carries out no calls of these ranks: ");
      expect(all_reduce(comm, 1) == 3, "the communicator goes on");
    });
}
TEST_CASE("it is chosen where devices do not read each other's memory, and only there") {
  on_processes(2, [](auto& comm) {
    lending_stand_in device(comm.rank());
    expect(on(comm, device, on_path(device_path::automatic)).path() == device_path::ipc, "they do");
    device.refuses.sharing = true;
    auto ranks = on(comm, device, on_path(device_path::automatic));
    expect(ranks.path() == device_path::nccl, ranks.explain());
    expect(contains(ranks.explain(),
                    "NCCL 2.28.9 carries out the calls that it has; in others, data travel through "
                    "pinned host memory, because rank 0 cannot share its device"),
           ranks.explain());
    expect(on(comm, device, on_path(device_path::staged)).path() == device_path::staged, "the program names another");
  });
}
TEST_CASE("in two levels, NCCL serves across nodes") {
  on_processes(4, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    setup how = on_path(device_path::automatic);
    how.node = comm.rank() / 2;
    auto ranks = on(comm, device, how);
    expect(ranks.path() == device_path::two_level, ranks.explain());
    expect(contains(ranks.explain(), "then in that of NCCL"), ranks.explain());
    int const before = calls_by_nccl();
    auto const data = nccl_array(device, std::vector<float>(1000, static_cast<float>(comm.rank())));
    all_reduce(ranks, data, mean{});
    expect(nccl_values(device, data) == std::vector<float>(1000, 1.5f), "a mean");
    expect(calls_by_nccl() == before + 1, "once across nodes");
    for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
      check_reductions_of<std::uint32_t>(ranks, comm, n, sum{});
      check_movement_of<float>(ranks, comm, n);
    }
    check_reductions_of<std::int64_t>(ranks, comm, 300, mean{});
  });
}

TEST_CASE("calls of several communicators, on streams of their own") {
  on_processes(4, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    stand_in_stream stream, other;
    auto two = comm.split(comm.rank() / 2).value();
    auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
    auto part = on(two, device, on_path(device_path::nccl, &other));
    auto const whole_sum = nccl_array(device, std::vector<int>(1000, 1)),
               part_sum = nccl_array(device, std::vector<int>(500, 1));
    for (int i = 0; i < 5; ++i) {
      all_reduce(ranks, whole_sum);
      all_reduce(part, part_sum);
    }
    work done = part.work();
    ranks.work().wait();
    done.wait();
    expect(nccl_values(device, whole_sum) == std::vector<int>(1000, 1024), "of 4 ranks");
    expect(nccl_values(device, part_sum) == std::vector<int>(500, 32), "of 2 ranks");
  });
}
TEST_CASE("calls in place on several streams share a copy of the input, one after the other") {
  on_processes(2, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    stand_in_stream first, second;
    auto ranks = on(comm, device, on_path(device_path::nccl));
    std::atomic<bool> free = false;
    first.add([&] {
      while (!free) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    });
    auto const one = nccl_array(device, std::vector<int>(100, 1)), two = nccl_array(device, std::vector<int>(100, 2));
    all_to_all(ranks, one, one, {.stream = &first});
    all_to_all(ranks, two, two, {.stream = &second});
    device_event<lending_stand_in> end(device);
    end.record(&second);
    for (int i = 0; i < 100 && !end.reached(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    bool const early = end.reached();
    free = true;
    expect(!early, "the second call waits for the first, which has yet to read the copy");
    expect(nccl_values(device, one, &first) == std::vector<int>(100, 1), "the first");
    expect(nccl_values(device, two, &second) == std::vector<int>(100, 2), "the second");
  });
}
TEST_CASE("a call may be captured in a graph") {
  on_processes(3, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    stand_in_stream stream;
    auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
    auto const data = nccl_array(device, std::vector<int>(1000, 1));
    std::vector<int> some(10, 1);
    auto const blocks = nccl_array(device, some);
    stream.begin_capture();
    all_reduce(ranks, data);
    exchange_some(ranks, comm.rank(), data, blocks);
    auto const graph = stream.end_capture();
    expect(nccl_values(device, data, &stream) == std::vector<int>(1000, 1), "it has not run");
    for (int i = 0; i < 3; ++i) stand_in_stream::launch(graph);
    expect(nccl_values(device, data, &stream) == std::vector<int>(1000, 27), "it has run three times");
    std::fill_n(some.begin(), 3 * (comm.rank() + 1), 27);
    expect(nccl_values(device, blocks, &stream) == some, "and so has the exchange of blocks");
  });
}

TEST_CASE("messages with `native` are groups of NCCL's calls on the stream") {
  for (int const p : {1, 2, 3, 4})
    on_processes(p, [p](auto& comm) {
      lending_stand_in const device(comm.rank());
      stand_in_stream stream;
      auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
      int const right = (comm.rank() + 1) % p, left = (comm.rank() + p - 1) % p;
      for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{5000}}) {
        auto const in = nccl_array(device, std::vector<int>(n, comm.rank())),
                   out = nccl_array(device, std::vector<int>(n + 2, -1));
        int const before = calls_by_nccl();
        received const got = send_recv(ranks, in, right, out, n == 1 ? any_source : left, 3, natively);
        expect(got == received{left, 3, n}, "who sent what");
        expect(calls_by_nccl() == before + (n > 0), "a group, or none for an empty message");
        std::vector<int> expected(n, left);
        expected.insert(expected.end(), 2, -1);
        expect(nccl_values(device, out, &stream) == expected, "the message, with room for more");
      }
    });
}
TEST_CASE("a send by NCCL returns before its receiver's stream comes to it") {
  on_processes(2, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    stand_in_stream stream;
    auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
    auto const data = nccl_array(device, std::vector<int>(5000, comm.rank()));
    std::atomic<bool> free = false;
    if (comm.rank() == 0) {
      send(ranks, data, no_rank, 0, natively);
      send(ranks, data, 1, 4, natively);
    } else {
      stream.add([&] {
        while (!free) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      });
      expect(recv(ranks, data, 0, any_tag, natively) == received{0, 4, 5000}, "the tag");
    }
    barrier(comm);
    free = true;
    expect(nccl_values(device, data, &stream) == std::vector<int>(5000, 0), "the message");
  });
}
TEST_CASE("batches by NCCL may name tags in any order, and ranks may divide messages into batches in their own ways") {
  on_processes(3, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    stand_in_stream stream;
    auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
    int const r = comm.rank();
    std::vector<device_array<lending_stand_in, int>> data;
    for (int tag = 0; tag < 3; ++tag) data.push_back(nccl_array(device, std::vector<int>(100, r == 0 ? tag : -1)));
    device_batch first(ranks), rest(ranks);
    for (int tag = 0; r == 0 && tag < 3; ++tag)
      for (int to : {1, 2}) first.send(data[static_cast<std::size_t>(tag)], to, tag);
    if (r == 1) first.recv(data[2], 0, 2).recv(data[0], 0, 0).recv(data[1], 0, 1);
    if (r == 2) first.recv(data[0], 0, 0), rest.recv(data[2], 0, 2).recv(data[1], 0, 1);
    int const before = calls_by_nccl();
    for (int i = 0; i < 2; ++i) {
      if (r < 2) {
        expect(first.start(natively).get().size() == (r == 1 ? 3 : 0), "the results of the receives");
      } else {
        expect(first.run(natively) == std::vector{received{0, 0, 100}}, "the first message");
        expect(rest.run(natively) == std::vector{received{0, 2, 100}, received{0, 1, 100}}, "the others");
      }
    }
    for (int tag = 0; tag < 3; ++tag)
      expect(nccl_values(device, data[static_cast<std::size_t>(tag)], &stream) == std::vector<int>(100, tag), "data");
    expect(calls_by_nccl() == before + (r == 2 ? 4 : 2), "groups");
  });
}
TEST_CASE("messages by NCCL may be captured in a graph") {
  on_processes(2, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    stand_in_stream stream;
    auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
    auto const in = nccl_array(device, std::vector<int>(1000, comm.rank())),
               out = nccl_array(device, std::vector<int>(1000, -1));
    int const other = 1 - comm.rank();
    device_batch both(ranks);
    both.send(in, other).recv(out, other);
    stream.begin_capture();
    send_recv(ranks, in, other, out, other, 0, natively);
    both.start(natively).wait();
    auto const graph = stream.end_capture();
    expect(nccl_values(device, out, &stream) == std::vector<int>(1000, -1), "it has not run");
    for (int i = 0; i < 3; ++i) stand_in_stream::launch(graph);
    expect(nccl_values(device, out, &stream) == std::vector<int>(1000, other), "it has run");
  });
}
TEST_CASE("ends of a message by NCCL that do not fit are found before NCCL gets them") {
  auto const fails = [](error_code code, char const* words, auto const& sender, auto const& receiver) {
    on_processes(2, [&](auto& comm) {
      lending_stand_in const device(comm.rank());
      auto ranks = on(comm, device, on_path(device_path::nccl));
      auto const data = nccl_array(device, std::vector<int>(5000, 1));
      int const before = calls_by_nccl();
      error const e = error_of([&] {
        if (comm.rank() == 0) sender(ranks, data);
        else receiver(ranks, data);
        barrier(comm);
      });
      if (comm.rank() == 1) expect_error(e, code, words);
      expect(calls_by_nccl() == before, "NCCL has no call");
    });
  };
  auto const sends = [](auto& ranks, auto const& data) { send(ranks, data, 1, 0, natively); };
  auto const receives = [](auto& ranks, auto const& data) { recv(ranks, data, 0, 0, natively); };
  fails(error_code::mismatch, "rank 0 sent a message by NCCL, but rank 1 does not receive it so", sends,
        [](auto& ranks, auto const& data) { recv(ranks, data, 0); });
  fails(
      error_code::mismatch, "from rank 0, tag 0, by way of the host, does not fit the recv of up to 5000 int",
      [](auto& ranks, auto const& data) { send(ranks, data, 1); }, receives);
  fails(error_code::mismatch, "does not fit the recv of up to 4999 int", sends,
        [](auto& ranks, auto const& data) { recv(ranks, std::span(data.data(), 4999), 0, 0, natively); });
  fails(
      error_code::mismatch, "receive them in the order in which they are sent, or in one batch",
      [](auto& ranks, auto const& data) { device_batch(ranks).send(data, 1, 0).send(data, 1, 1).run(natively); },
      [](auto& ranks, auto const& data) { recv(ranks, data, 0, 1, natively); });
  fails(
      error_code::timeout, "from rank 0, tag 9", [](auto&, auto const&) {},
      [](auto& ranks, auto const& data) {
        recv(ranks, data, 0, 9, {.algorithm = algorithm_id::native, .timeout = std::chrono::milliseconds{200}});
      });
}
TEST_CASE("ranks without NCCL refuse messages by it") {
  on_processes(2, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    auto const data = nccl_array(device, std::vector<int>(10, 1));
    auto const refusal = [&](device_path path) {
      auto ranks = on(comm, device, on_path(path));
      return error_of([&] { send(ranks, data, 0, 0, natively); });
    };
    expect_error(refusal(device_path::staged), error_code::bad_argument, "NCCL carries out no calls of these ranks");
    expect_error(refusal(device_path::ipc), error_code::bad_argument,
                 "NCCL carries out no send where ranks read each other's memory");
  });
}

TEST_CASE("a rank that dies in a call is named, and the streams of the others go on") {
  for (char const* const what : {"all_reduce", "all_to_all_v", "send_recv"}) {
    shared_with_forks<std::atomic<int>> right;
    CHECK_THROWS(on_processes(3, [&](auto& comm) {
      lending_stand_in const device(comm.rank());
      stand_in_stream stream;
      auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
      auto const data = nccl_array(device, std::vector<float>(1000, 1)),
                 blocks = nccl_array(device, std::vector<float>(1000));
      auto const call = [&] { call_by_name(what, ranks, data, blocks); };
      call();
      ranks.work().wait();
      barrier(comm);
      if (comm.rank() == 1) stream.add([] { ::pause(); });
      error const e = error_of([&] {
        call();
        if (comm.rank() == 1) ::kill(::getpid(), SIGKILL);
        if (comm.rank() == 0)
          device.wait(&stream, deadline::after(std::chrono::seconds{60}));  // as cudaStreamSynchronize
        ranks.work().wait();
      });
      expect_error(e, error_code::rank_lost, "rank 1");
      expect(e.peer() == 1, "it names the rank");
      device.wait(&stream, deadline::after(std::chrono::seconds{60}));
      expect_error(error_of(call), error_code::rank_lost, "rank 1");
      ++right[0];
    }));
    CHECK(right[0] == 2);
  }
}
TEST_CASE("an error that NCCL reports ends the calls of all ranks") {
  for (char const* const call : {"2", "-2"})
    on_processes(3, [call](auto& comm) {
      if (comm.rank() == 1) ::setenv("SUBSTITUTE_BREAKS", call, 1);
      lending_stand_in const device(comm.rank());
      stand_in_stream stream;
      auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
      auto const data = nccl_array(device, std::vector<float>(1000, 1));
      all_reduce(ranks, data);
      ranks.work().wait();
      error const e = error_of([&] {
        all_reduce(ranks, data);
        ranks.work().wait();
      });
      expect_error(e, error_code::system, "NCCL reports: remote process exited");
      expect(contains(e, "rank 1"), e.what());
      device.wait(&stream, deadline::after(std::chrono::seconds{60}));
    });
}
TEST_CASE("a stream that does not come to a call is a timeout of all ranks") {
  for (char const* const what : {"all_reduce", "all_to_all_v", "send_recv"})
    on_processes(3, [what](auto& comm) {
      lending_stand_in const device(comm.rank());
      std::atomic<bool> free = comm.rank() != 1;
      stand_in_stream stream;
      auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
      auto const data = nccl_array(device, std::vector<float>(1000, 1)),
                 blocks = nccl_array(device, std::vector<float>(1000));
      stream.add([&] {
        while (!free) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      });
      error const e = error_of([&] {
        call_by_name(what, ranks, data, blocks, {.timeout = std::chrono::seconds{1}});
        ranks.work().wait();
      });
      free = true;
      expect_error(e, error_code::timeout, "did not complete within 1 s");
      device.wait(&stream, deadline::after(std::chrono::seconds{60}));
    });
}
TEST_CASE("ranks that make different calls find that out before NCCL gets them") {
  on_processes(3, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    auto ranks = on(comm, device, on_path(device_path::nccl));
    auto const data = nccl_array(device, std::vector<int>(1000, 1));
    error const e = error_of([&] {
      if (comm.rank() == 1) all_reduce(ranks, data, tutti::max{});
      else all_reduce(ranks, data);
    });
    expect_error(e, error_code::mismatch, "all_reduce of 1000 int with sum (NCCL");
    expect(nccl_values(device, data) == std::vector<int>(1000, 1), "nothing was written");
  });
}
TEST_CASE("blocks whose sender and receiver mean different sizes are found before NCCL gets them") {
  on_processes(3, [](auto& comm) {
    lending_stand_in const device(comm.rank());
    auto ranks = on(comm, device, on_path(device_path::nccl));
    std::vector<std::size_t> sent{1, 2, 3}, expected(3, static_cast<std::size_t>(comm.rank() + 1));
    if (comm.rank() == 2) sent[0] = 4;
    auto const from = nccl_array(device, std::vector<int>(20, 1)), to = nccl_array(device, std::vector<int>(20, 2));
    error const e = error_of([&] {
      all_to_all_v(ranks, from, sent, to, expected);
      ranks.work().wait();
    });
    expect_error(e, error_code::mismatch, "rank 2 sent 16 bytes where rank 0 expects 4");
  });
}
TEST_CASE("a rank that leaves by an exception ends the calls of the others") {
  shared_with_forks<std::atomic<int>> right;
  CHECK_THROWS(on_processes(3, [&](auto& comm) {
    lending_stand_in const device(comm.rank());
    std::atomic<bool> free = comm.rank() != 2;
    stand_in_stream stream;
    auto const data = nccl_array(device, std::vector<float>(1000, 1));
    auto ranks = on(comm, device, on_path(device_path::nccl, &stream));
    stream.add([&] {
      while (!free) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    });
    error const e = error_of([&] {
      all_reduce(ranks, data);
      if (comm.rank() == 1) throw std::runtime_error("the program");
      ranks.work().wait();
    });
    free = true;
    expect_error(e, error_code::rank_left, "rank 1");
    device.wait(&stream, deadline::after(std::chrono::seconds{60}));
    ++right[0];
  }));
  CHECK(right[0] == 2);
}
