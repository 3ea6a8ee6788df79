// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arrows between the layers of include/tutti are those of its README, and the check itself can fail.
#include "architecture/layers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace {

using architecture::problems_of;
using architecture::tree;

std::string const head = "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n#pragma once\n";

std::string including(std::string const& what) { return head + "#include \"tutti/" + what + "\"\n"; }

// A small tree in order, to which each case adds one thing that is not.
tree small_tree() {
  return {{"README.md",
           "# Page\n```layers\ncore:\nanalyze: core\ntransport: core\ntransport/mpi: core transport\nlaunch: core "
           "transport\n```\n"},
          {"core/error.hpp", head + "#include <string>\n"},
          {"analyze/cost.hpp", including("core/error.hpp")},
          {"transport/shm.hpp", including("core/error.hpp")},
          {"launch/init.hpp", including("transport/shm.hpp")},
          {"tutti.hpp", including("launch/init.hpp")}};
}

bool complains(tree const& files, std::string const& words) {
  auto const found = problems_of(files);
  return std::ranges::any_of(found, [&](auto const& line) { return line.find(words) != std::string::npos; });
}

}  // namespace

TEST_CASE("the headers of tutti are in order") {
  tree const files = architecture::read_tree(TUTTI_SOURCE);
  CHECK(std::ranges::count_if(files, [](auto const& file) { return architecture::is_header(file.first); }) > 10);
  for (std::string const& problem : problems_of(files)) FAIL_CHECK(problem);
}

TEST_CASE("a small tree in order has no problems") { CHECK(problems_of(small_tree()).empty()); }

TEST_CASE("arrows that the page does not have are found") {
  tree files = small_tree();
  SUBCASE("upwards") {
    files["core/wait.hpp"] = including("launch/init.hpp");
    CHECK(complains(files, "core/wait.hpp: includes launch/init.hpp, an arrow that the page does not have"));
  }
  SUBCASE("sideways") {
    files["transport/mpi.hpp"] = including("analyze/cost.hpp");
    CHECK(complains(files, "transport/mpi.hpp: includes analyze/cost.hpp, an arrow"));
  }
  SUBCASE("from a layer to the umbrella") {
    files["launch/local.hpp"] = including("tutti.hpp");
    CHECK(complains(files, "launch/local.hpp: includes tutti.hpp, an arrow"));
  }
  SUBCASE("from the umbrella to the analysis") {
    files["tutti.hpp"] = including("analyze/cost.hpp");
    CHECK(complains(files, "tutti.hpp: includes analyze/cost.hpp, an arrow"));
  }
  SUBCASE("from a layer that is not on the page") {
    files["extra/new.hpp"] = including("core/error.hpp");
    CHECK(complains(files, "the layer extra is not on the page"));
  }
  SUBCASE("from a folder to one within it") {
    files["transport/mpi/mpi.hpp"] = including("core/error.hpp");
    files["transport/shm.hpp"] = including("transport/mpi/mpi.hpp");
    CHECK(complains(files, "transport/shm.hpp: includes transport/mpi/mpi.hpp, an arrow"));
  }
  SUBCASE("from a folder within another that is not on the page") {
    files["transport/tcp/tcp.hpp"] = including("core/error.hpp");
    CHECK(complains(files, "the layer transport/tcp is not on the page"));
  }
}

TEST_CASE("circles are found") {
  tree files = small_tree();
  SUBCASE("between headers of one layer") {
    files["core/error.hpp"] = including("core/wait.hpp");
    files["core/wait.hpp"] = including("core/error.hpp");
    CHECK(complains(files, "in a circle"));
  }
  SUBCASE("between layers on the page") {
    files["README.md"] = "```layers\ncore: launch\nlaunch: core\n```\n";
    CHECK(complains(files, "core names launch, which is not above it"));
  }
  SUBCASE("a page without layers") {
    files["README.md"] = "# Page\n";
    CHECK(complains(files, "there is no block"));
  }
}

TEST_CASE("a header and its definitions are one") {
  tree files = small_tree();
  files["core/error.hpp"] = including("core/error_impl.hpp");
  files["core/error_impl.hpp"] = including("core/error.hpp");
  CHECK(problems_of(files).empty());
  SUBCASE("which may not include what includes the header") {
    files["core/error_impl.hpp"] = including("core/wait.hpp");
    files["core/wait.hpp"] = including("core/error.hpp");
    CHECK(complains(files, "in a circle"));
  }
  SUBCASE("which keeps to the arrows") {
    files["core/error_impl.hpp"] = including("launch/init.hpp");
    CHECK(complains(files, "core/error_impl.hpp: includes launch/init.hpp, an arrow that the page does not have"));
  }
  SUBCASE("which the header includes, and what tutti::compiled is compiled from") {
    files["core/error.hpp"] = head;
    CHECK(complains(files, "core/error.hpp: does not include core/error_impl.hpp"));
    files["src/definitions.cpp"] = "";
    CHECK(complains(files, "src/definitions.cpp: does not include core/error_impl.hpp"));
  }
  SUBCASE("and there are no definitions of nothing") {
    files["core/other_impl.hpp"] = head;
    CHECK(complains(files, "core/other_impl.hpp: there is no core/other.hpp"));
    files["core/third_impl.cuh"] = head;
    CHECK(complains(files, "core/third_impl.cuh: there is no core/third.cuh"));
  }
}

TEST_CASE("headers that are not written as ours are found") {
  tree files = small_tree();
  SUBCASE("no licence") {
    files["core/error.hpp"] = "#pragma once\n";
    CHECK(complains(files, "core/error.hpp: does not begin with the SPDX line"));
  }
  SUBCASE("no guard") {
    files["core/error.hpp"] = head.substr(0, head.find('#'));
    CHECK(complains(files, "core/error.hpp: has no #pragma once"));
  }
  SUBCASE("an include by another name") {
    files["core/error.hpp"] = head + "#include \"error.hpp\"\n";
    CHECK(complains(files, "our own headers are"));
  }
  SUBCASE("an umbrella that does more than include") {
    files["tutti.hpp"] = including("launch/init.hpp") + "inline int answer() { return 42; }\n";
    CHECK(complains(files, "tutti.hpp: an umbrella may do nothing but include"));
  }
  SUBCASE("an include of nothing") {
    files["core/error.hpp"] = including("core/nothing.hpp");
    CHECK(complains(files, "which does not exist"));
  }
}
