// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of a list of arrays of device memory: small ones share calls, whatever the path.
// labels: threads alike
#include "tutti/device/on/list.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/device_conformance.hpp"
#include "support/expect.hpp"
#include "support/sharing_stand_in.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

constexpr device_path list_paths[] = {device_path::ipc, device_path::staged, device_path::two_level};

template <class F>
void on_each_path(F const& f) {
  for (device_path const path : list_paths) {
    CAPTURE(name(path));
    run_threads(4, [&](auto& comm) {
      sharing_stand_in const device(comm.rank());
      auto ranks = on(comm, device,
                      {.path = path,
                       .node = path == device_path::two_level ? comm.rank() / 2 : 0,
                       .arena = 4096,
                       .slices = {.slice = 2048}});
      f(ranks, comm);
    });
  }
}

// Arrays of device memory, and what they hold.
template <class T>
class listed_arrays {
 public:
  listed_arrays(sharing_stand_in const& on, int rank, std::vector<std::size_t> const& sizes) : on_{on} {
    for (std::size_t const n : sizes) {
      before.push_back(uneven_values<T>(rank + static_cast<int>(n), n));
      memory_.emplace_back(on, n);
      views.emplace_back(memory_.back().data(), n);
      on.copy({}, views.back().data(), before.back().data(), n * sizeof(T));
    }
    on.wait({}, deadline::after(std::chrono::seconds{10}));
  }
  std::vector<std::vector<T>> now(stand_in_stream* stream = nullptr) const {
    std::vector<std::vector<T>> out;
    for (auto const& view : views) {
      out.emplace_back(view.size());
      on_.copy(stream, out.back().data(), view.data(), view.size_bytes());
    }
    on_.wait(stream, deadline::after(std::chrono::seconds{30}));
    return out;
  }

  std::vector<std::vector<T>> before;
  std::vector<std::span<T>> views;

 private:
  sharing_stand_in const& on_;
  std::vector<device_array<sharing_stand_in, T>> memory_;
};

// Sizes that leave pieces unaligned, an empty array, one larger than a bucket, and more than fit one launch.
std::vector<std::size_t> sizes_of_list() {
  std::vector<std::size_t> out{3, 0, 17, 5000, 1, 64, 129};
  for (std::size_t i = 0; i < 150; ++i) out.push_back(i % 7 + 1);
  return out;
}

template <class T, class Ranks, class Comm, class Op>
void check_list(Ranks& ranks, Comm& comm, Op const& op, std::size_t bucket_bytes) {
  listed_arrays<T> const data(ranks.on(), comm.rank(), sizes_of_list());
  all_reduce(ranks, data.views, op, {}, {.bucket_bytes = bucket_bytes});
  auto expected = data.before;
  for (auto& one : expected) all_reduce(comm, one, op, {.algorithm = algorithm_id::one_shot});
  expect(data.now() == expected, "every array has its result");
}

using array_element = std::array<float, 4>;
struct add_each {
  static constexpr bool commutative = true;
  array_element operator()(array_element a, array_element const& b) const {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }
};

}  // namespace

TEST_CASE("every array of a list is combined in its place") {
  on_each_path([](auto& ranks, auto& comm) {
    for (std::size_t const bytes : {std::size_t{0}, std::size_t{600}, std::size_t{1} << 20})
      check_list<std::uint32_t>(ranks, comm, sum{}, bytes);
    check_list<std::uint8_t>(ranks, comm, bit_xor{}, 3000);
  });
}

TEST_CASE("arrays that share a call take one launch to gather and one to scatter") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    stand_in_stream stream;
    auto ranks = on(comm, device, {.stream = &stream});
    auto const given = [&](std::size_t arrays) {
      listed_arrays<float> const data(device, comm.rank(), std::vector<std::size_t>(arrays, 1000));
      auto const before = stream.how_far()->given.load();
      all_reduce(ranks, data.views);
      auto const after = stream.how_far()->given.load();
      ranks.work().wait();
      return after - before;
    };
    expect(given(2) == given(60), "as much work for 60 arrays as for two");
  });
}

TEST_CASE("lists on different streams do not disturb each other in their bucket") {
  on_each_path([](auto& ranks, auto& comm) {
    stand_in_stream one, other;
    std::vector<std::size_t> const sizes(20, 30);
    listed_arrays<std::uint32_t> const a(ranks.on(), comm.rank(), sizes), b(ranks.on(), comm.rank() + 9, sizes);
    for (int i = 0; i < 5; ++i) {
      all_reduce(ranks, a.views, tutti::max{}, {.stream = &one});
      all_reduce(ranks, b.views, tutti::max{}, {.stream = &other});
    }
    ranks.work(&one).wait();
    ranks.work(&other).wait();
    auto first = a.before, second = b.before;
    for (auto& x : first) all_reduce(comm, x, tutti::max{});
    for (auto& x : second) all_reduce(comm, x, tutti::max{});
    expect(a.now(&one) == first && b.now(&other) == second, "both lists");
  });
}

TEST_CASE("an array of elements that are arrays is no list") {
  on_each_path([](auto& ranks, auto&) {
    static_assert(!device_list<std::span<array_element>> && device_list<std::vector<std::span<float>>>);
    device_array<sharing_stand_in, array_element> const data(ranks.on(), 10);
    std::vector<array_element> values(10, array_element{1, 2, 3, 4});
    ranks.on().copy({}, data.data(), values.data(), sizeof(array_element) * values.size());
    all_reduce(ranks, data, add_each{});
    ranks.on().copy({}, values.data(), data.data(), sizeof(array_element) * values.size());
    ranks.on().wait({}, deadline::after(std::chrono::seconds{30}));
    expect(values == std::vector<array_element>(10, array_element{4, 8, 12, 16}), "the sum of four");
  });
}

TEST_CASE("a list is captured in a graph once its memory is there") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    stand_in_stream stream;
    auto ranks = on(comm, device, {.stream = &stream});
    listed_arrays<float> const data(device, comm.rank(), {100, 200});
    stream.begin_capture();
    expect_error(error_of([&] { all_reduce(ranks, data.views, tutti::max{}); }), error_code::bad_argument,
                 "the first call with a list of this size is being captured into a graph");
    static_cast<void>(stream.end_capture());
    all_reduce(ranks, data.views, tutti::max{});
    ranks.work().wait();
    stream.begin_capture();
    all_reduce(ranks, data.views, sum{});
    auto const graph = stream.end_capture();
    auto expected = data.now(&stream);
    barrier(comm);
    stand_in_stream::launch(graph);
    stand_in_stream::launch(graph);
    auto const after = data.now(&stream);
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (std::size_t k = 0; k < expected[i].size(); ++k)
        expect(after[i][k] == 4 * expected[i][k], "the sum of equal values, twice");
  });
}

TEST_CASE("a list with an array that the device cannot access is refused before anything is launched") {
  for (device_path const path : list_paths) {
    CAPTURE(name(path));
    run_threads(4, [&](auto& comm) {
      sharing_stand_in device(comm.rank());
      auto ranks = on(comm, device, {.path = path, .node = path == device_path::two_level ? comm.rank() / 2 : 0});
      listed_arrays<float> const data(device, comm.rank(), {100, 200, 300});
      device.forbidden = data.views[1].data();
      expect_error(error_of([&] { all_reduce(ranks, data.views); }), error_code::bad_argument,
                   "the input of all_reduce cannot be accessed by 1 stand-ins");
      std::vector<std::span<float>> const with_null{data.views[0], {static_cast<float*>(nullptr), 5}};
      expect_error(error_of([&] { all_reduce(ranks, with_null); }), error_code::bad_argument,
                   "an array of the list of all_reduce has 5 elements, but its pointer is null");
      expect(data.now() == data.before, "nothing has changed");
      device.forbidden = nullptr;
      all_reduce(ranks, data.views, tutti::max{});
      ranks.work().wait();
    });
  }
}

TEST_CASE("lists of other sizes with the same sum are another call") {
  for (int const step : {2, 4})  // in two levels, ranks on one node differ, or one differs from that on the other node
    on_each_path([step](auto& ranks, auto& comm) {
      bool const other = comm.rank() % step == step - 1;
      listed_arrays<float> const data(ranks.on(), comm.rank(), {other ? 30u : 20u, other ? 20u : 30u});
      expect_error(error_of([&] {
                     barrier(comm);  // where a rank may still be when others learn of the fault
                     all_reduce(ranks, data.views, tutti::max{}, {.timeout = std::chrono::seconds{10}});
                     barrier(ranks);
                     ranks.work().wait();
                   }),
                   error_code::mismatch, "hash of their sizes");
    });
}

TEST_CASE("a list whose memory one rank lacks is refused at all ranks, and works later") {
  for (device_path const path : list_paths) {
    CAPTURE(name(path));
    run_threads(4, [&](auto& comm) {
      sharing_stand_in device(comm.rank());
      auto ranks = on(comm, device, {.path = path, .node = path == device_path::two_level ? comm.rank() / 2 : 0});
      listed_arrays<std::uint32_t> const data(device, comm.rank(), {100, 200});
      device.refuses.memory = comm.rank() == 2;
      expect_error(error_of([&] { all_reduce(ranks, data.views); }), error_code::system,
                   "rank 2 cannot allocate memory for a list of arrays: the stand-in refuses memory");
      device.refuses.memory = false;
      all_reduce(ranks, data.views, sum{}, {.timeout = std::chrono::seconds{10}});
      ranks.work().wait();
      auto expected = data.before;
      for (auto& one : expected) all_reduce(comm, one);
      expect(data.now() == expected, "the sums");
    });
  }
}

TEST_CASE("arrays of symmetric memory may share a call") {
  on_each_path([](auto& ranks, auto& comm) {
    std::span<float> const all = ranks.template allocate<float>(20000);
    std::vector<float> const ones(20000, 1.0f);
    ranks.on().copy({}, all.data(), ones.data(), all.size_bytes());
    ranks.on().wait({}, deadline::after(std::chrono::seconds{10}));
    barrier(comm);
    std::vector const list{all.subspan(0, 5000), all.subspan(5000, 6000), all.subspan(11000)};
    all_reduce(ranks, list, sum{}, {.symmetric = true}, {.bucket_bytes = 50000});
    ranks.work().wait();
    std::vector<float> got(20000);
    ranks.on().copy({}, got.data(), all.data(), all.size_bytes());
    ranks.on().wait({}, deadline::after(std::chrono::seconds{10}));
    expect(got == std::vector<float>(20000, 4.0f), "the sums");
  });
}

TEST_CASE("a list waits for the copies of one before it that was refused") {
  run_threads(2, [](auto& comm) {
    sharing_stand_in const device(comm.rank());
    auto ranks = on(comm, device, {.path = device_path::ipc});
    listed_arrays<float> const data(device, comm.rank(), {100, 200});
    all_reduce(ranks, data.views, tutti::max{});
    ranks.work().wait();
    std::atomic<bool> free = false;
    stand_in_stream held, other;
    held.add([&free] {
      while (!free) std::this_thread::yield();
    });
    expect_error(
        error_of([&] { all_reduce(ranks, data.views, sum{}, {.stream = &held, .algorithm = algorithm_id::ring}); }),
        error_code::bad_argument, "ring does not serve all_reduce");
    all_reduce(ranks, data.views, tutti::max{}, {.stream = &other});
    work later = ranks.work(&other);
    bool const waits = !later.wait(std::chrono::milliseconds{100});
    free = true;
    later.wait();
    expect(waits, "the list did not wait");
  });
}
