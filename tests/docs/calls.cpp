// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of docs/messages.md, groups.md, asynchrony.md and faults.md.
// labels: threads
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <vector>

#include <tutti/tutti.hpp>

#include "support/expect.hpp"

namespace {

using namespace std::chrono_literals;
using tutti::testing::expect;

template <class Communicator>
void exchange_by_messages(Communicator& comm) {
  int const right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<double> halo(100, comm.rank()), border(100);

  if (comm.rank() == 0) {
    tutti::send(comm, halo, 1);  // to rank 1
  } else if (comm.rank() == 1) {
    tutti::received const got = tutti::recv(comm, border, tutti::any_source);
    std::printf("%zu elements from rank %d with tag %d\n", got.count, got.source, got.tag);
  }

  tutti::send_recv(comm, halo, right, border, left);  // out and in at once: cannot deadlock
  expect(border[0] == left, "a halo");

  std::size_t const rows = 5, columns = 4;
  std::vector<float> field(rows * columns, static_cast<float>(comm.rank()));
  auto const column = [&](std::size_t j) { return tutti::strided(field.data() + j, rows, columns); };
  tutti::send_recv(comm, column(1), left, column(0), right);
  expect(field[0] == static_cast<float>(right) && field[1] == static_cast<float>(comm.rank()), "a column");

  int const workers = comm.size() - 1;
  std::size_t const longest = 10;
  std::size_t received_numbers = 0;
  auto const next_task = [] { return 7; };
  if (comm.rank() == 0)
    for (int some = 0; some < workers; ++some) {
      std::vector<double> result(longest);
      tutti::received const got = tutti::recv(comm, result, tutti::any_source, tutti::any_tag);
      result.resize(got.count);
      tutti::send(comm, next_task(), got.source);
      received_numbers += result.size();
    }
  else {
    tutti::send(comm, std::vector<double>(static_cast<std::size_t>(comm.rank())), 0, comm.rank());
    expect(tutti::recv<int>(comm, 0) == 7, "a task");
  }
  tutti::barrier(comm);  // a receive with any tag would take the next message too
  if (comm.rank() == 0) {
    tutti::probed const next = tutti::probe(comm, tutti::any_source, 3);
    std::vector<float> sized(next.count<float>());
    tutti::recv(comm, sized, next.source, next.tag);
    expect(sized.size() == 5, "a length");
  } else if (comm.rank() == 1) {
    tutti::send(comm, std::vector<float>(5), 0, 3);
  }
  expect(comm.rank() != 0 || received_numbers == static_cast<std::size_t>(workers * comm.size() / 2), "results");
  tutti::barrier(comm);

  int const above = comm.rank() > 0 ? comm.rank() - 1 : tutti::no_rank;
  int const below = comm.rank() + 1 < comm.size() ? comm.rank() + 1 : tutti::no_rank;
  std::vector<double> top(100), bottom(100), from_above(100), from_below(100);
  tutti::batch(comm)
      .send(top, above)
      .send(bottom, below)
      .recv(from_above, above)
      .recv(from_below, below)
      .run();  // all at once, in any order

  tutti::receive_work next = tutti::irecv(comm, border, left, 7);  // started; matched by the tag 7
  tutti::work sent = tutti::isend(comm, halo, right, 7);
  // ... compute ...
  sent.wait();                                    // halo may be changed now
  expect(next.get().source == left, "a source");  // waits, and says what arrived

  tutti::persistent to_right = tutti::send(tutti::prepared(comm), halo, right);
  tutti::persistent_receive from_left = tutti::recv(tutti::prepared(comm), border, left);
  for (int step = 0; step < 10; ++step) {
    from_left.start();
    to_right.start();
    to_right.wait();
    from_left.wait();
  }
}

template <class Communicator>
void make_groups(Communicator& comm) {
  auto row = comm.split(comm.rank() / 2).value();  // ranks 0 and 1, ranks 2 and 3
  std::vector<int> sum{comm.rank()};
  tutti::all_reduce(row, sum);

  if (auto writers = comm.split(comm.rank() == 0 ? 0 : tutti::no_color))
    std::printf("rank %d of %d writes\n", writers->rank(), writers->size());

  auto node = comm.split(comm.node()).value();  // the ranks of this machine
  expect(node.rank() == comm.local_rank(), "a node");

  if (comm.rank() % 2 == 0) {
    auto even = comm.subgroup({0, 2});  // called by ranks 0 and 2 only
    tutti::barrier(even);
  }

  std::vector<float> activation(100), norm(1);
  tutti::mesh mesh(comm, {{"data", 2}, {"tensor", -1}});    // -1: the remaining ranks
  tutti::all_reduce(mesh.along("tensor"), activation);      // ranks that differ only on this axis
  tutti::all_reduce(mesh.along({"data", "tensor"}), norm);  // or on these two
  int const copy = mesh.coordinate("data");
  expect(copy == comm.rank() / 2, "a coordinate");

  std::vector<double> top(10, comm.rank()), right(10, comm.rank()), beneath(10, -1), beyond(10, -1);
  tutti::mesh plane(comm, {{"y", 2}, {"x", 2}});
  int const above = plane.shift("y", -1), below = plane.shift("y", 1);
  int const west = plane.shift("x", -1, {.periodic = true}), east = plane.shift("x", 1, {.periodic = true});
  tutti::batch halo(comm);
  halo.send(top, above), halo.recv(beneath, below), halo.send(right, east), halo.recv(beyond, west);
  halo.run();
  int const origin = plane.rank_at({0, 0});
  expect(origin == 0 && beneath[9] == (below >= 0 ? below : -1) && beyond[9] == west, "a halo");
}

void compute() {}
void step(std::vector<float>&, std::vector<float> const&) {}
void load_next(std::vector<float>&) {}

template <class Communicator>
void overlap(Communicator& comm) {
  std::vector<float> gradient(1000, 1.0f), weights(1000), loss(1), losses(static_cast<std::size_t>(comm.size()));

  tutti::work sum = tutti::all_reduce(tutti::async(comm), gradient);  // started; do not touch gradient until its end
  compute();
  sum.wait();  // throws what the blocking call would throw

  {
    tutti::progress_thread const moves_calls;  // a thread that drives progress
    tutti::work in_background = tutti::all_reduce(tutti::async(comm), gradient);
    compute();
    in_background.wait();
  }

  tutti::work stepped = tutti::all_reduce(tutti::async(comm), gradient, tutti::mean{}).then([&] {
    step(weights, gradient);
  });                                                                   // called when the sum is complete
  if (!stepped.wait(10s)) std::puts("still running after 10 seconds");  // and continues
  stepped.wait();

  std::vector<std::vector<float>> layers(8, std::vector<float>(1000));
  std::vector<tutti::work> sums;
  for (auto& layer : layers) sums.push_back(tutti::all_reduce(tutti::async(comm), layer));
  std::optional<std::size_t> const first = tutti::wait_for_any(sums);  // its place in the list
  tutti::wait_for_all(sums);
  expect(first.has_value(), "none has ended");

  tutti::persistent again = tutti::all_reduce(tutti::prepared(comm), gradient);  // checked and planned once
  for (int i = 0; i < 10; ++i) {
    again.start();  // allocates nothing from the second time on
    compute();
    again.wait();
    load_next(gradient);
  }

  tutti::batch all(comm);                                                   // a list of calls and messages
  for (auto& layer : layers) tutti::all_reduce(all, layer, tutti::mean{});  // small ones share a call
  tutti::all_gather(all, loss, losses);
  tutti::batch_work together = all.start();  // or all.run(), which waits
  compute();
  together.wait();
}

template <class Communicator>
void resume(Communicator& comm) {
  tutti::barrier(comm);
}

template <class Communicator>
void train(Communicator& comm) {
  if (comm.rank() == 1 && comm.survivors().empty()) comm.revoke("an example");
  tutti::barrier(comm);
}

template <class Communicator>
void survive(Communicator& comm) {
  bool const saved = true;
  bool const all_saved = comm.agree(saved ? 1 : 0).flags != 0;  // the same answer on all ranks
  expect(all_saved, "an agreement");

  try {
    train(comm);
  } catch (tutti::error const& e) {
    if (e.code() != tutti::error_code::rank_lost && e.code() != tutti::error_code::revoked) throw;
    comm = comm.shrink();  // the survivors, renumbered
    resume(comm);
  }

  try {
    train(comm);
  } catch (tutti::error const& e) {
    if (e.code() != tutti::error_code::timeout) throw;
    comm = comm.shrink({.exclude_after = 30s});  // without ranks that hang
    resume(comm);
  }
}

void restore(int) {}

template <class Communicator>
void make_step(Communicator& comm, int number) {
  if (number == 2 && comm.rank() == 1 && comm.survivors().empty()) comm.revoke("an example");
  tutti::barrier(comm);
}

template <class Communicator>
void survive_in_a_loop(Communicator& comm, int steps) {
  int step = 0;
  for (bool done = false; !done;) {
    try {
      step = tutti::all_reduce(comm, step, tutti::min{});  // the survivors may be a step apart
      restore(step);                                       // from a copy of the state before this step
      for (; step < steps; ++step) make_step(comm, step);
      done = true;
    } catch (tutti::error const& e) {
      if (e.code() != tutti::error_code::rank_lost && e.code() != tutti::error_code::revoked) throw;
    }
    done = comm.agree(done ? 1 : 0).flags != 0;  // whether all survivors have finished
    if (!done) comm = comm.shrink();
  }
  expect(step == steps && comm.survivors().size() == 4, "all steps, after one fault");
}

}  // namespace

TEST_CASE("messages") {
  tutti::run_threads(4, [](auto& comm) { exchange_by_messages(comm); });
}

TEST_CASE("groups") {
  tutti::run_threads(4, [](auto& comm) { make_groups(comm); });
}

TEST_CASE("asynchrony") {
  tutti::run_threads(4, [](auto& comm) { overlap(comm); });
}

TEST_CASE("faults") {
  tutti::run_threads(4, [](auto& comm) { survive(comm); });
  tutti::run_threads(4, [](auto& comm) { survive_in_a_loop(comm, 5); });
}
