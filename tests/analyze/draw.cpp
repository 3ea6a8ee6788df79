// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small pictures are compared letter by letter.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/draw.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;

namespace {

std::string text(algorithm_id id, collective c, shape s) {
  std::ostringstream out;
  draw_text(out, find_schedule(id, c), s);
  return out.str();
}

std::size_t times(std::string const& what, std::string const& in) {
  std::size_t n = 0;
  for (std::size_t at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("text: a ring") {
  CHECK(text(algorithm_id::ring, collective::reduce_scatter, {3}) ==
        "time    0     1        2\n"
        "rank 0  c2>1  2>c1+>1  2>c0+!\n"
        "rank 1  c0>2  0>c2+>2  0>c1+!\n"
        "rank 2  c1>0  1>c0+>0  1>c2+!\n");
}

TEST_CASE("text: several peers and several chunks") {
  CHECK(text(algorithm_id::one_shot, collective::reduce_scatter, {6}).find("5*>c0+! c1-5>5*") != std::string::npos);
  CHECK(text(algorithm_id::bruck, collective::all_gather, {4}) ==
        "time    0    1           2\n"
        "rank 0  c0=  1>c1= c0>3  2>c2-3= c0-1>2\n"
        "rank 1  c1=  2>c2= c1>0  3>c3-0= c1-2>3\n"
        "rank 2  c2=  3>c3= c2>1  0>c0-1= c2-3>0\n"
        "rank 3  c3=  0>c0= c3>2  1>c1-2= c3-0>1\n");
}

TEST_CASE("text: a row for each lane") {
  std::string const out = text(algorithm_id::double_binary_tree, collective::broadcast, {3});
  CHECK(out.find("rank 0, lane 1") != std::string::npos);
  CHECK(std::count(out.begin(), out.end(), '\n') == 1 + 3 * 2);
}

TEST_CASE("svg: an arrow for each message and a dot for each step") {
  std::ostringstream out;
  draw_svg(out, schedule<ring, collective::all_reduce>{}, {4});
  std::string const svg = out.str();
  CHECK(svg.rfind("<svg ", 0) == 0);
  CHECK(svg.find("</svg>\n") == svg.size() - 7);
  CHECK(times("marker-end", svg) == 4 * 6);
  CHECK(times("<circle", svg) == 4 * 7);
  CHECK(times("<title>rank 0, lane 0, phase 0, step 3: 3&gt;c0+!&gt;1</title>", svg) == 1);
}

TEST_CASE("every schedule can be drawn, one rank included") {
  for_each_schedule([](algorithm_id id, collective c, dynamic_schedule s) {
    for (int const ranks : {1, 2, 7}) {
      std::ostringstream plain, svg;
      draw_text(plain, s, {ranks});
      draw_svg(svg, s, {ranks});
      INFO(name(id), " ", name(c));
      CHECK(std::count(plain.view().begin(), plain.view().end(), '\n') == 1 + ranks * s.lanes({ranks}));
      CHECK(svg.str().find("nan") == std::string::npos);
    }
  });
}
