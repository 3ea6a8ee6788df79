// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-sim draw: what each rank does at each step.
#pragma once

#include <iostream>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "schedules.hpp"
#include "tutti/analyze/draw.hpp"
#include "write_picture.hpp"

namespace simulator {

using namespace tutti::analyze;

struct draw_arguments {
  std::string algorithm, what;
  int ranks = 4, root = 0;
  bool ordered = false;
  std::string svg;
};

inline void draw_options(CLI::App& to, draw_arguments& a) {
  to.add_option("algorithm", a.algorithm, "the algorithm")->required();
  to.add_option("-c,--collective", a.what, "the collective")->required();
  to.add_option("-r,--ranks", a.ranks, "number of ranks")->capture_default_str();
  to.add_option("--root", a.root, "the root, if the collective has one")->capture_default_str();
  to.add_flag("--ordered", a.ordered, "combine in rank order");
  to.add_option("--svg", a.svg, "write an SVG file instead of text");
}

inline void draw_command(draw_arguments const& a) {
  check_ranks(a.ranks, a.root);
  if (a.ranks > 64) refuse(fmt::format("cannot draw {} ranks", a.ranks), "give at most 64");
  if (a.algorithm == "all") refuse("a picture shows one algorithm", "name it");
  collective_named(a.what);
  served const x = chosen({a.algorithm}, a.what).front();
  shape const s{a.ranks, a.root, a.ordered};
  if (a.svg.empty()) return draw_text(std::cout, x.schedule, s);
  std::ostringstream svg;
  draw_svg(svg, x.schedule, s);
  write_picture(a.svg, svg.str());
}

}  // namespace simulator
