// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-sim: what its commands print, exactly where the model is exact, and what they refuse.
// labels: processes
// tool: tutti-sim
#include <doctest/doctest.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>

#include "launch/command.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/algorithm/registry.hpp"
#include "tutti/core/file.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// What a command prints, once every run of spaces is one.
std::string printed(std::string const& arguments, int expected_code = 0) {
  command c(std::string(TUTTI_SIM) + " " + arguments);
  int const code = c.wait();
  CAPTURE(arguments);
  CAPTURE(c.output);
  CHECK(code == expected_code);
  std::string out;
  for (char const next : c.output)
    if (next != ' ' || out.empty() || out.back() != ' ') out += next;
  return out;
}
bool has(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

// One second for each message, and a second for each 1,000 bytes that are sent or combined.
std::string const simple = " -b 1000 --alpha 1 --beta 1e-3 --gamma 1e-3 --gap 0";

}  // namespace

TEST_CASE("tutti-sim list has a line for each algorithm") {
  std::string const all = printed("list");
  for (std::string_view const n : algorithms::names) CHECK(has("\n" + all, "\n" + std::string(n) + " "));
  CHECK(has(all, "dissemination barrier\n"));
}

TEST_CASE("tutti-sim cost prints the closed forms") {
  CHECK(has(printed("cost ring -r 4" + simple), "ring 4 6 1.500 0.750 8.25 s 8.25 s\n"));
  CHECK(has(printed("cost recursive_doubling -r 8" + simple), "recursive_doubling 8 3 3.000 3.000 9.00 s 9.00 s\n"));
  CHECK(has(printed("cost binomial_tree -c broadcast -r 8" + simple), "binomial_tree 8 3 3.000 0.000 6.00 s 6.00 s\n"));
}

TEST_CASE("tutti-sim cost prints what its formula gives, and beside it the time with the gap, slices and nodes") {
  std::string const text = printed("cost one_shot -r 4 -b 1000 --alpha 1 --beta 1e-3 --gamma 1e-3 --gap 1");
  CHECK(has(text, "for 1000 bytes, alpha 1 s, beta 0.001 s/byte, gamma 0.001 s/byte."));
  CHECK(has(text, "the gap (1 s)"));
  CHECK(has(text, "one_shot 4 1 3.000 3.000 7.00 s 9.00 s\n"));
  CHECK(has(printed("cost ring -r 3 -c broadcast -s 500" + simple), " 4.00 s 3.50 s\n"));
}

TEST_CASE("the messages of a barrier are empty, and numbers of ranks have commas") {
  std::string const text = printed("cost dissemination -c barrier -r 2,8 --alpha 1 --beta 1 --gap 0");
  CHECK(has(text, "dissemination 2 1 1.000 1.000 1.00 s 1.00 s\n"));
  CHECK(has(text, "dissemination 8 3 3.000 3.000 3.00 s 3.00 s\n"));
  CHECK(has(printed("simulate dissemination -c barrier -r 8 --alpha 1 --beta 1 --gap 0"), "dissemination 3.00 s\n"));
  for (std::string const command : {"cost", "simulate"}) {
    CHECK(has(printed(command + " -r 2,4 ring"), "\nring "));
    CHECK(has(printed(command + " -r 2 8 ring", 1),
              "\"8\" is not an algorithm; write numbers of ranks with commas: -r 2,8"));
    CHECK(has(printed(command + " all -c barrier -b 8", 1), "the messages of a barrier are empty; leave out --bytes"));
    CHECK(has(printed(command + " all -c barrier -s 8", 1), "the messages of a barrier are empty; leave out --slice"));
  }
}

TEST_CASE("tutti-sim simulate gives the exact times of slices that overlap, and of nodes") {
  CHECK(has(printed("simulate ring recursive_doubling -r 2,4" + simple),
            "ring 3.50 s 8.25 s\nrecursive_doubling 3.00 s 6.00 s\n"));
  CHECK(has(printed("simulate ring -c broadcast -r 3" + simple), "ring 4.00 s\n"));
  CHECK(has(printed("simulate ring -c broadcast -r 3 -s 500" + simple), "ring 3.50 s\n"));
  // Half of the six hops stay in a node, where a message takes half a second less.
  CHECK(has(printed("simulate ring --node 2 --alpha-inside 0.5 -r 4" + simple), "ring 6.75 s\n"));
  std::string const two = printed("simulate two_level --nodes 2,2" + simple);
  CHECK(has(two, "two_level 7.50 s\n"));
  CHECK(has(two,
            "4 ranks on 2 nodes of 2 ranks: inside reduce by double_binary_tree 2.50 s, across all_reduce by "
            "recursive_doubling 3.00 s, inside broadcast by ring 2.00 s\n"));
}

TEST_CASE("tutti-sim verify counts the cases, and its exit code is 1 for a schedule that fails") {
  CHECK(printed("verify ring -c all_reduce -r 1-8") == "correct ring all_reduce 8 cases\n");
  CHECK(printed("verify binomial_tree -c broadcast -r 3") == "correct binomial_tree broadcast 3 cases\n");
  CHECK(printed("verify two_level -c all_reduce --nodes 2,3") == "correct two_level all_reduce 4 cases\n");
  std::string const overwritten = printed("verify pairwise -c all_to_all -r 2-4 --in-place", 1);
  CHECK(has(overwritten, "WRONG pairwise all_to_all 3 ranks, root 0: "));
}

TEST_CASE("tutti-sim simulate succeeds if it can simulate some cases, and names the others") {
  std::string const some = printed("simulate ring -b 1GiB -s 1 -r 1,8");
  CHECK(has(some, "\nring, 8 ranks: "));
  CHECK(!has(some, "ring, 1 ranks: "));
  CHECK(has(printed("simulate ring -b 1GiB -s 1 -r 8", 1), "\nring, 8 ranks: "));
  CHECK(!has(printed("verify -c all_reduce -r 1"), "two_level"));
}

TEST_CASE("tutti-sim draw writes steps as text, or as a picture") {
  CHECK(printed("draw binomial_tree -c broadcast -r 2") == "time 0 1\nrank 0 c0>1 .\nrank 1 . 0>c0=\n");
  temporary_folder const at;
  std::string const file = (at.path() / "ring.svg").string();
  CHECK(printed("draw ring -c all_gather -r 3 --svg " + file) == "wrote " + file + "\n");
  CHECK(detail::read_file(file).value().starts_with("<svg "));
}

TEST_CASE("a picture that cannot be written leaves the earlier one") {
  temporary_folder const at;
  std::string const file = (at.path() / "ring.svg").string(), write = "draw ring -c all_gather --svg " + file;
  printed(write);
  std::string const picture = detail::read_file(file).value();
  // No file may grow, as on a full disk.
  command full("sh -c \"trap '' XFSZ; ulimit -f 0; exec " TUTTI_SIM " " + write + " -r 5\"");
  CHECK(full.wait() == 1);
  CHECK(detail::read_file(file).value() == picture);
  CHECK(std::distance(std::filesystem::directory_iterator(at.path()), {}) == 1);
}

TEST_CASE("a number that begins with 0 is decimal") {
  CHECK(printed("simulate ring -r 08,010") == printed("simulate ring -r 8,10"));
  CHECK(printed("simulate ring -b 010KiB") == printed("simulate ring -b 10KiB"));
  CHECK(printed("pipeline -r 04 -m 0010") == printed("pipeline -r 4 -m 10"));
  CHECK(printed("simulate ring -r 2 --alpha 0.5") == printed("simulate ring -r 2 --alpha 00.5"));
}

TEST_CASE("tutti-sim pipeline gives the bubbles of the literature") {
  // (p - 1) / m of the time of the passes, and with v stages on each rank (p - 1) / (v m).
  std::string const all = printed("pipeline -r 4 -m 8 -v 2");
  CHECK(has(all, "gpipe 4 33 37.5% 8\n"));
  CHECK(has(all, "interleaved 8 28.5 18.8% 5 to 11\n"));
  CHECK(printed("pipeline gpipe -r 2 -m 2") ==
        "time 0 1 2 3 4 5 6 7 8\nrank 0 F0 F1 . . . B0 -- B1 --\nrank 1 . F0 F1 B0 -- B1 --\n");
}

TEST_CASE("tutti-sim refuses with a sentence") {
  struct refusal {
    char const *arguments, *sentence;
  };
  for (auto const& [arguments, sentence] : {
           refusal{"verify nothing", "\"nothing\" is not an algorithm; the algorithms are: ring, binomial_tree"},
           {"draw ring -c all", "\"all\" is not a collective; the collectives are: all_reduce"},
           {"draw all -c all_reduce", "a picture shows one algorithm; name it"},
           {"draw two_level -c all_reduce",
            "two_level is no schedule, but a sequence of collectives; `tutti-sim simulate`"},
           {"cost two_level", "two_level is no schedule, but a sequence of collectives"},
           {"cost ring -c all", "\"all\" is not a collective"},
           {"simulate all -c all", "\"all\" is not a collective"},
           {"pipeline --svg picture.svg", "a picture shows one schedule; name it: pipeline 1f1b --svg ..."},
           {"pipeline 1f1b -r 2 -m 3 --forward 0.5", "a time is not a whole number of columns of the text; give whole"},
           {"verify two_level -r 1", "two_level needs at least 2 ranks; give more"},
           {"verify two_level ring -r 1", "two_level needs at least 2 ranks; give more"},
           {"verify -c nothing", "\"nothing\" is not a collective; the collectives are: all_reduce"},
           {"verify -r 5-3", "\"5-3\" is not a range of ranks; write a number such as 8, or a range such as 1-64"},
           {"verify -r 513", "cannot verify 513 ranks; give at most 512"},
           {"verify ring -c barrier", "ring does not implement barrier; `tutti-sim list` prints"},
           {"verify ring --nodes 2,2", "--nodes is for two_level; name that algorithm alone"},
           {"verify two_level ring --nodes 2,2", "--nodes is for two_level; name that algorithm alone"},
           {"verify all ring --nodes 2,2", "--nodes is for two_level; name that algorithm alone"},
           {"verify ring --slices 0", "cannot verify 0 slices or credits; give 1 to 64"},
           {"verify ring --slices 2000000000 -r 3", "cannot verify 2000000000 slices or credits; give 1 to 64"},
           {"verify ring --credits 2000000000 -r 3", "cannot verify 2000000000 slices or credits; give 1 to 64"},
           {"simulate --machine pluto", "\"pluto\" is not a machine; the machines are: fat_tree"},
           {"simulate ring --alpha -1", "sizes and times must be finite and not negative; give 0 or more"},
           {"simulate ring -r 0", "the number of ranks is 0; give 1 to 1000000"},
           {"simulate ring -r 2147483647", "the number of ranks is 2147483647; give 1 to 1000000"},
           {"cost ring -r 2147483647", "the number of ranks is 2147483647; give 1 to 1000000"},
           {"simulate two_level", "two_level needs nodes; give --node, --nodes or --machine"},
           {"simulate two_level --nodes 0,2", "a node has less than 1 rank, or all together more than 100000; give"},
           {"simulate two_level --nodes 100000,100000,3", "a node has less than 1 rank, or all together more than"},
           {"cost ring --root 4 -r 4", "4 is not a rank of 4, so it cannot be the root; give a rank from 0 to 3"},
           {"draw ring -c all_gather -r 65", "cannot draw 65 ranks; give at most 64"},
           {"draw ring -c broadcast --svg /no/such/x",
            "cannot write /no/such/x: No such file or directory; name a file in an existing folder"},
           {"draw ring -c broadcast --svg /dev/full", "cannot write /dev/full: No space left on device; name a file"},
           {"pipeline 1f1b --svg /dev/full", "cannot write /dev/full: No space left on device; name a file"},
           {"pipeline -r 0", "there must be ranks, microbatches and stages; give 1 or more of each"},
           {"pipeline gpipe -r 2 -m 3 --forward 1e300",
            "the drawing would have 4e+300 columns, one for each unit of time; let"},
           {"pipeline nothing", "\"nothing\" is not a pipeline schedule; the schedules are: gpipe, 1f1b, interleaved"},
       })
    CHECK(has(printed(arguments, 1), std::string("tutti-sim: tutti: ") + sentence));
  for (std::string const unread : {" 2>&-", " 2>/dev/full"}) CHECK(printed("verify -r 0" + unread, 1).empty());
  CHECK(has(printed("frobnicate", 2), "Run with --help for more information."));
  CHECK(has(printed("draw ring", 2), "--collective is required"));
}

TEST_CASE("tutti-sim refuses options of which one would override or ignore the other") {
  struct pair {
    std::string command, one, other;
  };
  for (auto const& [command, one, other] : {
           pair{"simulate ring", "--machine nvlink", "--alpha 1"},
           {"simulate ring", "--machine nvlink", "--beta 1"},
           {"simulate ring", "--machine nvlink", "--gamma 1"},
           {"cost ring", "--machine nvlink", "--gap 1"},
           {"cost ring", "--machine nvlink", "--node 4"},
           {"simulate two_level", "--nodes 2,2", "--ranks 4"},
           {"verify two_level", "--nodes 2,2", "--ranks 4"},
       })
    for (std::string const& both : {one + ' ' + other, other + ' ' + one}) {
      std::string const text = printed(command + ' ' + both, 2);
      for (std::string const& option : {one, other}) CHECK(has(text, option.substr(0, option.find(' '))));
      CHECK(has(text, " excludes --"));
    }
  for (std::string const inside : {"--alpha-inside", "--beta-inside", "--uplink"})
    CHECK(has(printed("simulate ring " + inside + " 1", 2), inside + " requires --node"));
}
