// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A communicator's rank and size, and work that only rank 0 does.
// labels: threads
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;

TEST_CASE("all ranks of shared memory are on one machine, those of a group too") {
  std::atomic<int> wrong = 0;
  run_threads(5, [&](auto& comm) {
    if (comm.local_rank() != comm.rank() || comm.local_size() != 5 || comm.node() != 0) ++wrong;
    auto half = comm.split(comm.rank() % 2).value();
    if (half.local_rank() != comm.rank() / 2 || half.local_size() != half.size()) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("main_only calls rank 0 alone and gives its result to nobody else") {
  std::atomic<int> calls = 0, results = 0;
  run_threads(5, [&](auto& comm) {
    comm.main_only([&] { calls += 1 + comm.rank(); });
    std::optional<std::string> const read = comm.main_only([&] { return std::string("settings"); });
    if (read.has_value() == comm.is_main() && read.value_or("settings") == "settings") ++results;
    static_assert(std::is_void_v<decltype(comm.main_only([] {}))>);
  });
  CHECK(calls == 1);
  CHECK(results == 5);
}

TEST_CASE("what main_only's function throws is thrown at rank 0") {
  CHECK_THROWS_WITH(
      run_threads(2, [](auto& comm) { comm.main_only([] { throw std::runtime_error("no bread in the house"); }); }),
      "no bread in the house");
}

// Everything that a communicator does is refused after a move, until another is moved there.
template <class Comm>
void check_moved_from(Comm& comm) {
  Comm now = std::move(comm);
  std::vector<int> data(2, 1);
  std::vector<std::vector<int>> list(3, data);
  std::vector<std::vector<int>> empty(2);
  std::map<std::string, int> named{{"loss", 1}};
  std::vector<std::size_t> const counts(1, 2);
  std::function<void()> const uses[] = {
      [&] { static_cast<void>(comm.template allocate<int>(1)); },
      [&] { static_cast<void>(comm.split(0)); },
      [&] { static_cast<void>(comm.subgroup({0})); },
      [&] { comm.write_record("never_written"); },
      [&] { static_cast<void>(comm.statistics(collective::all_reduce)); },
      [&] { comm.revoke("no reason"); },
      [&] { comm.revoke(error({.code = error_code::rank_lost, .peer = 0, .what = "rank 0 is lost"})); },
      [&] { comm.agree(); },
      [&] { static_cast<void>(comm.shrink()); },
      [&] { static_cast<void>(comm.can_shrink()); },
      [&] { static_cast<void>(comm.activity()); },
      [&] { tutti::mesh(comm, {{"all", -1}}); },
      [&] { static_cast<void>(explain<int>(comm, collective::all_reduce, 1)); },
      [&] { all_reduce(comm, data); },
      [&] { all_reduce(comm, list); },
      [&] { all_reduce(comm, empty); },
      [&] { static_cast<void>(all_reduce(async(comm), list)); },
      [&] { static_cast<void>(all_gather(comm, 1)); },
      [&] { static_cast<void>(reduce_scatter(comm, data)); },
      [&] { all_to_all(comm, data, data); },
      [&] { gather_v(comm, data, data, counts); },
      [&] { barrier(comm); },
      [&] { all_reduce(comm, strided(data.data(), 1, 2)); },
      [&] { static_cast<void>(all_reduce(comm, std::deque<int>(2))); },
      [&] { static_cast<void>(all_reduce(async(comm), data)); },
      [&] { static_cast<void>(all_reduce(prepared(comm), data)); },
      [&] { batch(comm).send(data, 0).run(); },
      [&] { batch(comm).run(); },
      [&] {
        batch several(comm);
        all_reduce(several, data), all_reduce(several, data);
        several.run();
      },
      [&] { send(comm, data, 0); },
      [&] { recv(comm, data, any_source); },
      [&] { static_cast<void>(isend(comm, data, 0)); },
      [&] { static_cast<void>(iprobe(comm, 0)); },
      [&] { all_reduce_map(comm, named); },
      [&] { static_cast<void>(has_progress_thread(comm)); },
      [&] {
        if constexpr (knows_locations<typename Comm::transport_type>) static_cast<void>(topology_of(comm));
        else barrier(comm);
      },
  };
  for (std::size_t i = 0; i < std::size(uses); ++i) {
    error const e = testing::error_of(uses[i]);
    testing::expect(testing::contains(e, "this communicator was moved from"),
                    detail::join({"use ", i, ": ", e.what()}));
  }
  comm = std::move(now);
  all_reduce(comm, data);
  testing::expect(data[0] == comm.size(), "a communicator that was moved back does not work");
}

// Its memory is freed once, with the communicator or after it.
TEST_CASE("an array may outlive its communicator") {
  std::optional<communicator<>> alone(init());
  auto array = alone->allocate<int>(1000), other = alone->allocate<int>(10);
  alone.reset();
  other = std::move(array);
  CHECK(other.size() == 1000);
  run_threads(2, [](auto& comm) {
    std::optional<std::remove_cvref_t<decltype(comm)>> group(comm.split(comm.rank()).value());
    auto const mine = group->template allocate<int>(1000);
    group.reset();
  });
}

// Reduces an array on a group of its own when it is destroyed.
template <class Comm>
struct reduces_at_end {
  Comm& comm;
  std::vector<int>& data;
  ~reduces_at_end() {
    auto group = comm.split(0).value();
    work const unawaited = all_reduce(async(group), data);
  }
};

TEST_CASE("a communicator that begins and ends while an exception is on its way completes its calls") {
  std::atomic<int> right = 0;
  run_threads(2, [&](auto& comm) {
    std::vector<int> data(1 << 20, 1);
    try {
      reduces_at_end<std::remove_cvref_t<decltype(comm)>> const at_end{comm, data};
      throw std::runtime_error("lost its way");
    } catch (std::runtime_error const&) {
      right += data.front() == 2 && data.back() == 2;
    }
  });
  CHECK(right == 2);
}

TEST_CASE("a communicator that was moved from refuses everything") {
  CHECK_NOTHROW(run_threads(2, [](auto& comm) { check_moved_from(comm); }));
  communicator<> alone = init();
  check_moved_from(alone);
}
