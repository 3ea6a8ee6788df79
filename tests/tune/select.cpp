// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The default choice is always one that may be made.
#include <doctest/doctest.h>

#include <string>

#include "tutti/tune/select.hpp"

using namespace tutti;

TEST_CASE("whatever the problem, the choice serves it") {
  for (collective const c : every_collective)
    for (int const ranks : {2, 3, 8, 9, 16, 100})
      for (std::size_t bytes = 0; bytes < std::size_t{1} << 40; bytes = bytes * 8 + 8)
        for (bool const commutative : {true, false})
          for (bool const ragged : {false, true}) {
            problem const p{c, bytes, ranks, commutative, ragged};
            choice const chosen = select(p);
            INFO(std::string(name(c)), " ", ranks, " ranks, ", bytes, " bytes");
            CHECK(objection(chosen.algorithm, p).empty());
            CHECK(!chosen.why.empty());
          }
}

TEST_CASE("objections say why") {
  CHECK(objection(algorithm_id::ring, {collective::all_reduce, 8, 4, false}).find("out of rank order") !=
        std::string_view::npos);
  CHECK(objection(algorithm_id::bruck, {collective::barrier, 1, 4}).find("does not serve") != std::string_view::npos);
  CHECK(objection(algorithm_id::bruck, {collective::all_to_all, 8, 4, true, true}).find("_v form") !=
        std::string_view::npos);
}
