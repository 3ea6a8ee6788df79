// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arguments of each collective: required sizes, buffers that a rank may omit, and allowed overlaps.
#include "tutti/call/check_arguments.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

struct one_rank {
  int own = 0, ranks = 3;

  int rank() const { return own; }
  int size() const { return ranks; }
};

// The use of two parts of one array by a rank, as text: "in out in place 2", where 2 is the count; or the error.
template <collective C>
std::string used(int rank, std::span<int> array, std::size_t in_begin, std::size_t in_size, std::size_t out_begin,
                 std::size_t out_size, int root = 1) {
  auto const in = std::span<int const>(array).subspan(in_begin, in_size);
  auto const out = array.subspan(out_begin, out_size);
  try {
    auto const got = detail::check_buffers<C>(one_rank{rank}, in, out, root, std::source_location::current());
    return std::string(got.in != nullptr ? "in " : "") + (got.out != nullptr ? "out " : "") +
           (got.in_place ? "in place " : "") + std::to_string(got.count);
  } catch (error const& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("arrays: input and output have the same size, where a rank has both") {
  std::vector<int> a(20);
  CHECK(used<collective::all_reduce>(2, a, 0, 6, 6, 6) == "in out 6");
  CHECK(used<collective::all_reduce>(2, a, 0, 6, 0, 6) == "in out in place 6");
  CHECK(used<collective::scan>(2, a, 0, 6, 6, 6) == "in out 6");
  CHECK(used<collective::exclusive_scan>(2, a, 0, 6, 0, 6) == "in out in place 6");
  CHECK(used<collective::reduce>(1, a, 0, 6, 6, 6) == "in out 6");
  CHECK(used<collective::reduce>(2, a, 0, 6, 6, 0) == "in 6");
  CHECK(used<collective::broadcast>(1, a, 0, 6, 0, 6) == "in 6");
  CHECK(used<collective::broadcast>(2, a, 0, 6, 0, 6) == "out 6");
}

TEST_CASE("blocks: the larger buffer has one for each rank") {
  std::vector<int> a(20);
  CHECK(used<collective::all_gather>(2, a, 0, 2, 6, 6) == "in out 2");
  CHECK(used<collective::all_gather>(2, a, 4, 2, 0, 6) == "in out in place 2");
  CHECK(used<collective::gather>(1, a, 2, 2, 0, 6) == "in out in place 2");
  CHECK(used<collective::gather>(2, a, 2, 2, 0, 0) == "in 2");
  CHECK(used<collective::scatter>(1, a, 0, 6, 2, 2) == "in out in place 2");
  CHECK(used<collective::scatter>(0, a, 0, 0, 2, 2) == "out 2");
  CHECK(used<collective::reduce_scatter>(0, a, 0, 6, 0, 2) == "in out in place 2");
  CHECK(used<collective::all_to_all>(0, a, 0, 6, 6, 6) == "in out 2");
  CHECK(used<collective::all_to_all>(2, a, 0, 6, 0, 6) == "in out in place 2");
}

TEST_CASE("buffers of other sizes are refused") {
  std::vector<int> a(20);
  CHECK(contains(used<collective::all_reduce>(2, a, 0, 6, 6, 7), "the output of all_reduce has 7 elements"));
  CHECK(contains(used<collective::reduce>(1, a, 0, 6, 6, 7), "the root's output of reduce has 7 elements"));
  CHECK(contains(used<collective::all_gather>(2, a, 0, 2, 6, 7), "the output of all_gather has 7 elements"));
  CHECK(contains(used<collective::scatter>(1, a, 0, 5, 6, 2), "the root's input of scatter has 5 elements"));
  CHECK(contains(used<collective::reduce_scatter>(1, a, 0, 5, 6, 2), "the input of reduce_scatter has 5 elements"));
  CHECK(contains(used<collective::all_to_all>(1, a, 0, 5, 6, 5), "the input of all_to_all has 5 elements"));
  CHECK(contains(used<collective::all_to_all>(1, a, 0, 6, 6, 3), "the output of all_to_all has 3 elements"));
  CHECK(contains(used<collective::gather>(1, a, 0, 2, 6, 6, 3), "root 3 is not a rank of a communicator of 3"));
}

TEST_CASE("buffers that overlap otherwise than in place are refused") {
  std::vector<int> a(20);
  CHECK(contains(used<collective::all_reduce>(0, a, 0, 6, 5, 6), "input and output of all_reduce overlap"));
  CHECK(contains(used<collective::all_gather>(0, a, 2, 2, 0, 6), "input and output of all_gather overlap"));
  CHECK(contains(used<collective::scatter>(1, a, 0, 6, 0, 2), "input and output of scatter overlap"));
  CHECK(contains(used<collective::all_to_all>(0, a, 0, 6, 3, 6), "input and output of all_to_all overlap"));
  CHECK(used<collective::all_reduce>(0, a, 4, 0, 0, 0) == "in out 0");
}
