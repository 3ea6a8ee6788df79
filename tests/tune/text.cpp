// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A table survives being written and read; what can't be read is refused with its line.
#include "tutti/tune/text.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/tune/shipped.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

std::string complaint(std::string const& lines) {
  try {
    (void)parse_table(std::string(tuning_version) + "\n" + lines, "file");
  } catch (error const& e) {
    CHECK(e.code() == error_code::bad_argument);
    CHECK(e.way_out().find("tutti-tune") != std::string::npos);
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("what is written is read") {
  for (shipped_table const& one : shipped_tables) {
    tuning_table const& written = one.table;
    CAPTURE(written.machine);
    std::string const text = to_text(written);
    owned_table const read = parse_table(text, "file");
    CHECK(read.machine == written.machine);
    CHECK(read.date == written.date);
    CHECK(read.command == written.command);
    CHECK(read.apart == written.apart);
    CHECK(read.crowded == written.crowded);
    CHECK(read.links == written.links);
    std::vector<rule> rules;
    for (std::span<rule const> const some : written.all_rules()) rules.insert(rules.end(), some.begin(), some.end());
    CHECK(read.rules == rules);
    CHECK(to_text(read.view()) == text);
  }
}

TEST_CASE("times of links are written where they were measured, and read") {
  owned_table table = parse_table(to_text(shipped), "file");
  CHECK(to_text(table.view()).find("\nlink ") == std::string::npos);
  table.links[distance::across] = {31'000'000, 8'500'000};
  table.links[distance::cache] = {150'000, 25'000};
  std::string const text = to_text(table.view());
  CHECK(text.find("\nlink cache 150000 25000\nlink across 31000000 8500000\n") != std::string::npos);
  CHECK(parse_table(text, "file").links == table.links);
}

TEST_CASE("limits of devices are written where they are not those that were guessed, and read") {
  owned_table table = parse_table(to_text(shipped), "file");
  CHECK(table.devices == device_limits{});
  CHECK(to_text(table.view()).find("\ndevice ") == std::string::npos);
  table.devices.packets_on_several_gpus = 8192;
  table.devices.one_shot = device_limits::no_limit;
  std::string const text = to_text(table.view());
  CHECK(text.find("\ndevice several_gpus packets 8192\ndevice processes one_shot any\n") != std::string::npos);
  CHECK(parse_table(text, "file").devices == table.devices);
  CHECK(table.devices.one_shot_among(4) == device_limits{}.one_shot_of_4);
  CHECK(table.devices.one_shot_among(5) == device_limits::no_limit);
}

TEST_CASE("comments, blank lines, tabs and the ends of lines of other systems are fine") {
  owned_table const read = parse_table(
      "tutti-tuning 1\r\n\n  # a comment\nmachine  a b \n rule\tbarrier 2 any any any one_shot automatic 0 0", "file");
  CHECK(read.machine == "a b ");
  REQUIRE(read.rules.size() == 1);
  CHECK(read.rules[0].up_to == rule::no_limit);
}

TEST_CASE("a limit of 4 GiB is none, and a greater size is kept as well as it fits") {
  owned_table const read = parse_table(
      "tutti-tuning 1\nrule barrier 2 any any 4294967294 one_shot automatic 0 0\n"
      "rule barrier 3 any any 4294967295 one_shot automatic 0 4294967296\n",
      "file");
  REQUIRE(read.rules.size() == 2);
  CHECK(read.rules[0].most_bytes() == 4294967294);
  CHECK(read.rules[1].up_to == rule::no_limit);
  CHECK(read.rules[1].measured_at == 4294967295);
  CHECK(rule::size_field(std::size_t{8} << 30) == rule::no_limit);
  CHECK(to_text(read.view()).find("rule barrier 3 any any any one_shot automatic 0 4294967295\n") != std::string::npos);
}

TEST_CASE(
    "a table that tutti has written is refused if it was cut off, and one that a person has written needs no end") {
  std::string const whole = to_text(shipped);
  CHECK(whole.starts_with("tutti-tuning 2\n"));
  CHECK(whole.ends_with("\nend\n"));
  for (std::size_t at = whole.find('\n'); at + 5 < whole.size(); at = whole.find('\n', at + 1)) {
    CAPTURE(at);
    CHECK_THROWS_WITH_AS((void)parse_table(whole.substr(0, at + 1), "file"), doctest::Contains("\"end\" is missing"),
                         error);
  }
  owned_table const appended = parse_table(whole + "device one_gpu packets 8192\n", "file");
  CHECK(appended.devices.packets_on_one_gpu == 8192);
  CHECK(parse_table("tutti-tuning 1\nmachine mine\n", "file").machine == "mine");
}

TEST_CASE("a wrong line is named") {
  std::string const good = "rule all_reduce 3-5 crowded pulls 4096 two_shot pull 12 34\n";
  CHECK(complaint(good).empty());
  auto const says = [&](std::string const& line, std::string const& what) {
    std::string const said = complaint(good + line + "\n");
    INFO(said);
    CHECK(said.find("tuning table file, line 3: ") != std::string::npos);
    CHECK(said.find(what) != std::string::npos);
  };
  says("rules", "\"rules\" is not one of machine, date");
  says("rule", "\"\" is not a collective; there are all_reduce, reduce");
  says("rule all_reduce two", "\"two\" is not a number of ranks");
  says("rule all_reduce 2-", "\"\" is not a number of ranks");
  says("rule all_reduce 2 lonely", "\"lonely\" is not how ranks share cores; there are any, apart, crowded");
  says("rule all_reduce 2 any far", "\"far\" is not what ranks can read");
  says("rule all_reduce 2 any any 4k", "\"4k\" is not a number of bytes");
  says("rule all_reduce 2 any any -4", "\"-4\" is not a number of bytes");
  says("rule all_reduce 2 any any 4 rong", "\"rong\" is not an algorithm");
  says("rule all_reduce 2 any any 4 ring packet", "\"packet\" is not a protocol of a rule");
  says("rule all_reduce 2 any any 4 ring automatic 1", "\"\" is not a number of bytes");
  says("rule all_reduce 2 any any 4 ring automatic 1 1 more", "\"more\" is unexpected at the end of the line");
  says("rule all_reduce 2 any any 4 bruck automatic 1 1", "bruck does not serve all_reduce");
  says("rule all_reduce 2 any any 4 recursive_doubling pull 1 1",
       "pull does not serve all_reduce by recursive_doubling");
  says("link far 1 2", "\"far\" is not what lies between ranks; there are cache, node, messages, across");
  says("device one_gpu packet 1",
       "\"one_gpu packet\" is not a limit of devices; there are one_gpu packets, several_gpus");
  says("device packets 8192", "\"packets 8192\" is not a limit of devices; there are one_gpu packets, several_gpus");
  says("device one_gpu packets 8k", "\"8k\" is not a number of bytes, or any");
  says("device one_gpu packets 8 9", "\"9\" is unexpected");
  says("link node 1", "\"\" is not a number of femtoseconds");
  says("apart 1 2 3", "\"\" is not a number of picoseconds");
  says("crowded 1 2 3 99999999999999999999999", "is not a number of picoseconds");
}

TEST_CASE("a rule may name two_level, for ranks on nodes") {
  owned_table const read =
      parse_table("tutti-tuning 1\nrule all_reduce 4 any nodes 4096 two_level automatic 0 0\n", "file");
  CHECK(read.rules.at(0).algorithm == algorithm_id::two_level);
  CHECK(read.rules.at(0).memory == reach::nodes);
  for (collective const c : every_collective)
    CHECK(complaint("rule " + std::string(name(c)) + " 4 any nodes 4096 two_level automatic 0 0\n").empty());
}

TEST_CASE("another version is refused") {
  CHECK_THROWS_WITH_AS((void)parse_table("tutti-tuning 3\n", "file"),
                       doctest::Contains("it does not begin with \"tutti-tuning 2\", but with \"tutti-tuning 3\""),
                       error);
  for (std::string const text : {"", "tutti-tuning 3\n", "{\"rules\": []}"}) {
    CHECK_THROWS_AS((void)parse_table(text, "file"), error);
  }
}
