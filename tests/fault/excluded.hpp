// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that hangs is excluded from shrink: the survivors go on without it, and it is told so when it runs again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

constexpr std::chrono::milliseconds patience_with_hung_ranks{1000};

// Every call of a rank that the others have excluded, on the communicator that they have shrunk.
template <class Comm>
void expect_excluded(Comm& comm) {
  std::string const words = "rank " + std::to_string(comm.rank()) + " was excluded: it did not join a shrink in time";
  auto const refused = [&](auto&& call) { expect_error(error_of(call), error_code::excluded, words); };
  std::vector<int> data(50000, 1);
  refused([&] { all_reduce(comm, data); });
  refused([&] { all_reduce(async(comm), data).wait(); });
  refused([&] { send(comm, data, 0); });
  refused([&] { irecv(comm, data, 0).wait(); });
  refused([&] { return comm.agree(); });
  refused([&] { return comm.shrink(); });
  refused([&] { return comm.shrink({.exclude_after = patience_with_hung_ranks}); });
  refused([&] { return comm.split(0); });
  refused([&] { return comm.subgroup({0, comm.rank()}); });
  comm.revoke("too late");
  refused([&] { barrier(comm); });
}

template <class Comm>
void expect_survivors_sum(Comm& rest, std::vector<int> const& survivors) {
  expect(rest.survivors() == survivors, "the survivors are others");
  for (std::size_t const count : {1u, 1000u, 100'000u}) {
    std::vector<int> ones(count, 1);
    all_reduce(rest, ones);
    expect(ones.back() == rest.size(), "the survivors' sum is wrong");
  }
}

// The last rank computes for ever while the others shrink, and returns to tutti after they have gone on. `stage`, zero at
// first, is shared by all ranks.
template <class Comm>
void check_exclusion(Comm& comm, std::atomic<int>& stage) {
  auto const await = [&](int s) {
    for (auto const until = detail::deadline::after(std::chrono::seconds(20)); stage.load() < s && !until.passed();)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  int const last = comm.size() - 1;
  auto sound = comm.split(0).value();
  comm.agree();  // so no rank is in the split any more
  if (comm.rank() == last) {
    await(last);
    expect_excluded(comm);
    barrier(sound);  // another communicator is not affected
    return;
  }
  auto rest = comm.shrink({.exclude_after = patience_with_hung_ranks});
  std::vector<int> survivors;
  for (int r = 0; r < last; ++r) survivors.push_back(r);
  expect_survivors_sum(rest, survivors);
  expect(comm.agree().gone == std::vector{last}, "an agreement on the old communicator waits for an excluded rank");
  expect_error(error_of([&] { barrier(comm); }), error_code::revoked, "has shrunk this communicator");
  ++stage;
  barrier(sound);
  expect_survivors_sum(rest, survivors);
}

// The last rank is late for an agreement of others that do not wait. It gets the same result, and is still a rank.
template <class Comm>
void check_agreement_without_the_late(Comm& comm, std::atomic<int>& stage) {
  auto const await = [&](auto const& done) {
    for (auto const until = detail::deadline::after(std::chrono::seconds(20)); !done() && !until.passed();)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    expect(done(), "the others have not got so far");
  };
  int const last = comm.size() - 1;
  bool const is_late = comm.rank() == last;
  if (is_late) await([&] { return stage == last; });
  agreement const all = is_late ? comm.agree(0) : comm.agree(6, {.exclude_after = std::chrono::milliseconds(200)});
  expect(all.flags == 6 && all.gone == std::vector{last}, "another result");
  ++stage;
  agreement const next = comm.agree(is_late ? 3 : 6, {.exclude_after = std::chrono::seconds(20)});
  expect(next.flags == 2 && next.gone.empty(), "a rank that is late no longer is not waited for");
  barrier(comm);
}

// The last rank leaves another communicator, which the others tell this one, where it still is.
template <class Comm>
void check_repeated_loss(Comm& comm) {
  int const last = comm.size() - 1;
  auto other = std::make_optional(comm.split(0).value());
  auto const is_named = [&](error const& e) {
    expect_error(e, error_code::rank_left, "rank " + std::to_string(last));
    expect(e.peer() == last, "the error has another peer");
  };
  if (comm.rank() == last) {
    other.reset();
  } else {
    error const e = error_of([&] { barrier(*other); });
    is_named(e);
    comm.revoke(e);
  }
  is_named(error_of([&] { barrier(comm); }));
  auto next = comm.shrink();
  expect(next.size() == comm.size(), "a rank is left out that has left another communicator");
  next.revoke(error({.code = error_code::system, .what = "no more memory"}));
  expect_error(error_of([&] { barrier(next); }), error_code::revoked, "has revoked the communicator: ");
}

// The last rank sees that the others have begun a call in which they wait for it.
template <class Comm>
void check_activity(Comm& comm) {
  int const last = comm.size() - 1;
  expect(comm.can_shrink() && comm.can_shrink({.exclude_after = patience_with_hung_ranks}), "these ranks can shrink");
  shrink_options const past{.exclude_after = std::chrono::seconds(-1)};
  for (error const& e : {error_of([&] { return comm.agree(0, past); }), error_of([&] { return comm.shrink(past); })})
    expect_error(e, error_code::bad_argument, "exclude_after is negative");
  barrier(comm);
  expect(static_cast<int>(comm.activity().size()) == comm.size(), "another number of ranks");
  if (comm.rank() == last)
    for (int r = 0; r < last; ++r)
      for (auto const until = detail::deadline::after(std::chrono::seconds(20));;) {
        auto const all = comm.activity();
        expect(static_cast<int>(all.size()) == comm.size() && !all[static_cast<std::size_t>(r)].stopped, "other ranks");
        if (all[static_cast<std::size_t>(r)].calls == all.back().calls + 1) break;
        expect(!until.passed(), "a rank that waits has not begun a further call");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
  barrier(comm);
}

}  // namespace tutti::testing
