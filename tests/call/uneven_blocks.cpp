// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rank must pass to a _v form, and what its buffers may overlap.
// labels: threads
#include "tutti/call/uneven_blocks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// The third of three ranks.
struct last_rank {
  int rank() const { return 2; }
  int size() const { return 3; }
};

constexpr std::array<std::size_t, 3> counts{1, 3, 2};
auto const here = std::source_location::current();

}  // namespace

TEST_CASE("calls on two threads do not get the same memory for their counts") {
  lent_numbers kept;
  auto const work = [&](std::size_t own) {
    int foreign = 0;
    for (int i = 0; i < 20000; ++i) {
      counts_and_offsets lists(kept);
      std::size_t* const room = lists.make_room(2, 50);
      std::fill_n(room, 100, own);
      for (std::size_t at = 0; at < 100; ++at) foreign += room[at] != own;
    }
    return foreign;
  };
  int foreign = 0;
  std::jthread other([&] { foreign = work(1); });
  CHECK(work(2) == 0);
  other.join();
  CHECK(foreign == 0);
  CHECK(kept.all.capacity() >= 100);
}

TEST_CASE("where uneven blocks lie") {
  std::vector<int> a(20);
  counts_and_offsets lists;
  auto const all =
      check_uneven_buffers<collective::all_gather>(last_rank{}, std::span<int const>(a).subspan(10, 2), {},
                                                   std::span(a).first(6), {counts}, sizeof(int), lists, 0, here);
  CHECK(all.used.count == 2);
  CHECK(all.got.at(0, 1).begin == 4);
  CHECK(all.got.at(0, 2).begin == 16);
  CHECK(all.got.end() == 24);
  CHECK(all.given.at(0, 2).begin == 0);
  CHECK(all.given.end() == 8);
}

TEST_CASE("who passes what to a _v form with a root") {
  std::vector<int> a(20);
  counts_and_offsets lists;
  auto const gathers = [&](int root) {
    return check_uneven_buffers<collective::gather>(last_rank{}, std::span<int const>(a).subspan(10, 2), {},
                                                    std::span(a).first(6), {counts}, 1, lists, root, here)
        .used;
  };
  CHECK(gathers(2).out == a.data());
  CHECK(gathers(1).out == nullptr);
  CHECK(gathers(1).count == 2);
  auto const scatters = [&](int root) {
    return check_uneven_buffers<collective::scatter>(last_rank{}, std::span<int const>(a).first(6), {counts},
                                                     std::span(a).subspan(4, 2), {}, 1, lists, root, here)
        .used;
  };
  CHECK(scatters(2).in == a.data());
  CHECK(scatters(2).in_place);
  CHECK(scatters(0).in == nullptr);
  CHECK(scatters(0).count == 2);
}

TEST_CASE("wrong buffers and counts of a _v form are refused") {
  std::vector<int> a(20);
  counts_and_offsets lists;
  auto const gathers = [&](std::size_t begin, std::size_t count) {
    return check_uneven_buffers<collective::all_gather>(last_rank{}, std::span<int const>(a).subspan(begin, count), {},
                                                        std::span(a).first(6), {counts}, sizeof(int), lists, 0, here)
        .used;
  };
  CHECK(gathers(4, 2).in_place);
  CHECK_FALSE(gathers(10, 2).in_place);
  expect_error(error_of([&] { gathers(10, 3); }), error_code::bad_argument,
               "the block of this rank in all_gather_v has 3 elements in the input, but 2 in the output");
  expect_error(error_of([&] { gathers(3, 2); }), error_code::bad_argument, "input and output of all_gather overlap");

  auto const reduces = [&](std::size_t in) {
    return check_uneven_buffers<collective::reduce_scatter>(last_rank{}, std::span<int const>(a).first(in), {counts},
                                                            std::span(a).subspan(10, 2), {}, 1, lists, 0, here)
        .used;
  };
  CHECK(reduces(6).count == 2);
  expect_error(error_of([&] { reduces(7); }), error_code::bad_argument,
               "the input of reduce_scatter_v has 7 elements, but its blocks have 6");

  std::array<std::size_t, 8> room{};
  auto const lays_out = [&](int ranks, std::size_t size) {
    lay_out_blocks(2, ranks, collective::scatter, side::input, {counts}, size, 1, room.data(), here);
  };
  expect_error(error_of([&] { lays_out(3, 5); }), error_code::bad_argument,
               "block 2 of the input of scatter_v has 2 elements from element 4 on, but the buffer has 5 elements");
  std::array<std::size_t, 3> const wrapped{1, static_cast<std::size_t>(-1), 2};
  expect_error(
      error_of([&] { lay_out_blocks(2, 3, collective::scatter, side::input, {wrapped}, 9, 1, room.data(), here); }),
      error_code::bad_argument,
      "block 1 of the input of scatter_v has 18446744073709551615 elements from element 1 on");
  expect_error(error_of([&] { lays_out(4, 9); }), error_code::bad_argument,
               "scatter_v needs a count for each of 4 ranks, but the list for the input has 3");
}
