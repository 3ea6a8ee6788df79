// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects, by collectives and messages, named arrays and seeds over any transport.
#pragma once

#include <cereal/types/deque.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/expect.hpp"
#include "tutti/collective/named.hpp"
#include "tutti/objects.hpp"

namespace tutti::testing {

struct sample {
  std::string name;
  std::map<std::string, std::deque<double>> curves;
  std::optional<int> grade;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, curves, grade);
  }
  friend bool operator==(sample const&, sample const&) = default;
};

// Of a different size for each rank; that of rank 0 is empty.
inline sample sample_of(int rank) {
  sample out;
  if (rank == 0) return out;
  out.name.assign(static_cast<std::size_t>(rank) * 3000, static_cast<char>('a' + rank % 26));
  for (int i = 0; i < rank; ++i) out.curves[std::to_string(i)] = {0.5 * i, 1.0 * rank};
  out.grade = rank;
  return out;
}

template <class Comm>
void check_object_messages(Comm& comm) {
  int const size = comm.size(), rank = comm.rank();
  int const right = (rank + 1) % size, left = (rank + size - 1) % size;
  send_object(comm, std::to_string(rank), right, 3);
  std::string text;
  received const got = recv_object(comm, text, any_source, any_tag);
  expect(text == std::to_string(left) && got == received{left, 3, 1}, "recv_object says who sent and with which tag");
  barrier(comm);  // any source may be rank 0, whose next object is another
  // Longer than what a channel holds.
  if (rank == 0)
    for (int r = 1; r < size; ++r) send_object(comm, sample_of(40 * r), r);
  else expect(recv_object<sample>(comm, 0) == sample_of(40 * rank), "recv_object returns a long object");
  send_object(comm, text, no_rank);
  expect(recv_object(comm, text, no_rank) == received{no_rank, any_tag, 0} && text == std::to_string(left),
         "nothing comes from no_rank");
  expect(recv_object<std::string>(comm, no_rank).empty(), "or an object made by default");
}

template <class Comm>
void check_objects(Comm& comm) {
  int const size = comm.size(), rank = comm.rank();
  for (int const root : {0, size - 1}) {
    sample object = sample_of(rank + 1);
    broadcast_object(comm, object, root);
    expect(object == sample_of(root + 1), "broadcast_object");

    auto const gathered = gather_object(comm, sample_of(rank), root);
    expect(gathered.size() == (rank == root ? static_cast<std::size_t>(size) : 0), "gather_object: how many");
    for (std::size_t r = 0; r < gathered.size(); ++r)
      expect(gathered[r] == sample_of(static_cast<int>(r)), "gather_object");

    std::vector<sample> all;
    if (rank == root)
      for (int r = 0; r < size; ++r) all.push_back(sample_of(2 * r));
    expect(scatter_object(comm, all, root) == sample_of(2 * rank), "scatter_object");

    // 2 results per rank, of which the last are padding of the round.
    std::size_t const wanted = 2 * static_cast<std::size_t>(size) - 1;
    std::vector<std::string> const local{std::to_string(rank), std::to_string(rank + size)};
    auto const results = collect_results(comm, local, wanted, root);
    expect(results.size() == (rank == root ? wanted : 0), "collect_results: how many");
    for (std::size_t i = 0; i < results.size(); ++i) expect(results[i] == std::to_string(i), "collect_results");
  }
  auto const firsts = all_gather_object(comm, rank == 0);
  expect(firsts.front() && (size == 1 || !firsts.back()), "all_gather_object of bool");
  auto const all = all_gather_object(comm, sample_of(rank));
  for (int r = 0; r < size; ++r) expect(all[static_cast<std::size_t>(r)] == sample_of(r), "all_gather_object");
  check_object_messages(comm);
}

template <class Comm>
void check_named(Comm& comm) {
  int const size = comm.size(), rank = comm.rank();
  // Ranks fill an unordered map in different orders.
  std::unordered_map<std::string, std::vector<float>> arrays;
  for (int i = 0; i < 10; ++i) {
    int const k = (i + rank) % 10;
    arrays["array " + std::to_string(k)].assign(static_cast<std::size_t>(k * 100), static_cast<float>(rank + k));
  }
  all_reduce_map(comm, arrays);
  for (int k = 0; k < 10; ++k) {
    auto const& array = arrays["array " + std::to_string(k)];
    float const sum_of_ranks = static_cast<float>(size * (size - 1) / 2 + size * k);
    expect(array == std::vector<float>(static_cast<std::size_t>(k * 100), sum_of_ranks), "all_reduce_map of arrays");
  }
  std::map<std::string, double> losses{{"train", rank}, {"test", 2.0 * rank}};
  all_reduce_map(comm, losses, mean{});
  expect(losses["train"] == (size - 1) / 2.0 && losses["test"] == size - 1, "all_reduce_map of numbers");

  std::map<std::string, bool> flags{{"all", true}, {"first", rank == 0}};
  all_reduce_map(comm, flags, logical_and{});
  expect(flags["all"] && flags["first"] == (size == 1), "all_reduce_map of bool");

  auto const seed = sync_random_seed(comm);
  auto const seeds = all_gather_object(comm, seed);
  expect(seeds == std::vector<std::uint64_t>(static_cast<std::size_t>(size), seed), "sync_random_seed");
  expect(sync_random_seed(comm, 7 + static_cast<std::uint64_t>(rank)) == 7, "sync_random_seed of a given seed");
}

// An object that one rank cannot serialise, and one that cannot be deserialised.
struct unwritable {
  bool bad = false;
  template <class Archive>
  void save(Archive& archive) const {
    if (bad) throw std::runtime_error("the file is closed");
    archive(bad);
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(bad);
  }
};
struct unreadable {
  int value = 0;
  template <class Archive>
  void save(Archive& archive) const {
    archive(value);
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(value, value);
  }
};

// Others learn why rank 0 leaves.
template <class Comm>
void check_refused_scatter(Comm& comm) {
  error const e = error_of([&] {
    auto group = comm.split(0);
    static_cast<void>(scatter_object(*group, std::vector<std::string>(1)));
  });
  if (comm.rank() == 0) return expect_error(e, error_code::bad_argument, "the root's list of scatter_object has 1");
  expect_error(e, error_code::rank_left, "a call of rank 0 was refused: the root's list of scatter_object has 1");
}

// In groups of two and more ranks, with the last rank left over.
template <class Comm>
void check_bad_objects(Comm& comm) {
  int const last = comm.size() - 1;
  bool const odd = comm.rank() == last;
  auto const thrown = [](error_code code, int peer, std::string const& words, auto const& call) {
    error const e = error_of(call);
    expect_error(e, code, words);
    expect(e.peer() == peer && e.where().line() > 0, std::string("peer and place of: ") + e.what());
  };
  std::string const last_rank = "rank " + std::to_string(last);
  thrown(error_code::bad_argument, last, "the object of " + last_rank + " could not be written: the file is closed",
         [&] { static_cast<void>(all_gather_object(comm, unwritable{odd})); });
  unwritable object{odd};
  thrown(error_code::bad_argument, last, "could not be written", [&] { broadcast_object(comm, object, last); });
  thrown(error_code::mismatch, 0, "do not decode to a tutti::testing::unreadable",
         [&] { static_cast<void>(all_gather_object(comm, unreadable{})); });
  thrown(error_code::mismatch, odd ? 0 : last, "is not of type ", [&] {
    if (odd) static_cast<void>(all_gather_object(comm, std::string("text")));
    else static_cast<void>(all_gather_object(comm, std::vector<char>{'t'}));
  });
  std::map<std::string, std::vector<float>> arrays{{"bias", {1, 2}}, {odd ? "weight" : "weights", {1}}};
  thrown(error_code::mismatch, odd ? 0 : last,
         odd ? "this rank has 'weight' of 1 where rank 0 has 'weights' of 1"
             : "this rank has 'weights' of 1 where " + last_rank + " has 'weight' of 1",
         [&] { all_reduce_map(comm, arrays); });
  std::map<std::string, int> numbers{{"a", 1}, {"b", 1}};
  if (odd) numbers = {{"a' of 1\n'b", 1}};
  thrown(error_code::mismatch, odd ? 0 : last,
         odd ? "this rank has 'a' of 1\\n'b' of 1 where rank 0 has 'a' of 1"
             : "this rank has 'a' of 1 where " + last_rank + " has 'a' of 1\\n'b' of 1",
         [&] { all_reduce_map(comm, numbers); });
  if (odd)
    thrown(error_code::bad_argument, last, "could not be written", [&] { send_object(comm, unwritable{true}, 0); });
  else if (comm.rank() == 0)
    thrown(error_code::bad_argument, last, "could not be written",
           [&] { static_cast<void>(recv_object<unwritable>(comm, last)); });
  if (odd) {
    send_object(comm, std::string("text"), 0);
    send(comm, std::vector<std::byte>(3), 0);
    send(comm, std::vector<std::byte>(40, std::byte{7}), 0);
  } else if (comm.rank() == 0) {
    thrown(error_code::mismatch, last, "is not of type ",
           [&] { static_cast<void>(recv_object<std::vector<char>>(comm, last)); });
    thrown(error_code::mismatch, last, "is no object, but 3 bytes",
           [&] { static_cast<void>(recv_object<std::string>(comm, last)); });
    thrown(error_code::mismatch, last, "is no object, but 40 bytes",
           [&] { static_cast<void>(recv_object<std::string>(comm, last)); });
  }
  if (comm.rank() == 0)
    thrown(error_code::bad_argument, -1, "is missing: rank 0 has 0",
           [&] { static_cast<void>(collect_results(comm, std::vector<int>{}, 1)); });
  else static_cast<void>(collect_results(comm, std::vector<int>{}, 1));
  check_objects(comm);  // the communicator still works
}

}  // namespace tutti::testing
