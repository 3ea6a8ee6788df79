// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-tune: tutti reads the table that it writes, and a table is written completely or not at all.
// labels: processes
// tool: tutti-tune
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "launch/command.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/core/file.hpp"
#include "tutti/tune/find.hpp"
#include "tutti/tune/shipped.hpp"
#include "tutti/tune/text.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

namespace fs = std::filesystem;

std::string const quick = std::string(TUTTI_TUNE) + " -r 2,3 -c all_reduce,barrier --max 4KiB -s 0.2";

}  // namespace

TEST_CASE("it writes a table, a header and the times") {
  temporary_folder const at;
  std::string const base = at.path().string();
  command c(quick + " -o " + base + "/new/table --header " + base + "/table.hpp --results " + base + "/times.csv");
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  CHECK(c.said("\nbarrier, 2 to 2 ranks: "));
  CHECK(c.said("wrote " + base + "/new/table"));

  owned_table const table = parse_table(read_file(base + "/new/table").value(), "table");
  CHECK(table.machine == this_machine());
  CHECK(table.command.find("tutti-tune --ranks 2,3 --max 4096 --seconds 0.2") != std::string::npos);
  CHECK(table.apart.hop + table.apart.message > 0);
  CHECK((table.links[distance::cache].known() || table.links[distance::node].known()));
  // The measured rules come first. They leave to the built-in table what is larger.
  CHECK(table.rules.front().what == collective::all_reduce);
  tuning_table const& built_in = shipped_tables.at(find_shipped_table()).table;
  for (int const ranks : {2, 3, 8})
    for (bool const crowded : {false, true}) {
      problem const p{collective::all_reduce, 8193, ranks, true, false, crowded};
      rule const *const mine = table.view().find(p), *const theirs = built_in.find(p);
      REQUIRE((mine == nullptr) == (theirs == nullptr));
      if (mine != nullptr) CHECK(*mine == *theirs);
    }
  CHECK(read_file(base + "/table.hpp").value().find("inline constexpr tuning_table ") != std::string::npos);
  CHECK(read_file(base + "/times.csv").value().starts_with("collective,ranks,bytes,algorithm,protocol,blocks,"));
  CHECK(std::distance(fs::directory_iterator(at.path() / "new"), fs::directory_iterator()) == 1);  // no draft is left
}

TEST_CASE("what is not measured is kept: rules, constants of the cost model, limits for devices") {
  temporary_folder const at;
  std::string const file = (at.path() / "table").string();
  std::string const rules[] = {"all_reduce 2 any any any one_shot automatic 1000 8",
                               "barrier 2 any messages any dissemination automatic 1000 0"};
  std::ofstream(file) << tuning_version
                      << "\ncommand an earlier one\napart 100000 40000 30 20\ncrowded 200000 50000 60 70\nrule "
                      << rules[0] << "\nrule " << rules[1]
                      << "\nrule barrier 2 any any any dissemination automatic 1000 0\ndevice one_gpu packets 8192\n"
                      << "link across 31000000 8500000\n";
  command c(std::string(TUTTI_TUNE) + " -r 2 -c barrier -s 0.1 -o " + file);
  CHECK(c.wait() == 0);
  CAPTURE(c.output);
  owned_table const table = parse_table(read_file(file).value(), "table");
  CHECK(table.devices.packets_on_one_gpu == 8192);
  CHECK(table.links[distance::across] == link_time{31'000'000, 8'500'000});
  std::vector<std::string> kept;
  for (rule const& r : table.rules) kept.push_back(to_text(r));
  for (std::string const& r : rules) CHECK(std::ranges::count(kept, r) == 1);
  CHECK(table.rules.front().what == collective::barrier);  // measured
  CHECK(table.command.starts_with("an earlier one; tutti-tune --ranks 2 "));
  // A barrier moves no bytes.
  for (costs const* const one : {&table.apart, &table.crowded}) {
    CHECK(one->sent == (one == &table.apart ? 30 : 60));
    CHECK(one->combined == (one == &table.apart ? 20 : 70));
  }
}

TEST_CASE("short messages do not change what a byte costs, and a table of another machine is replaced") {
  temporary_folder const at;
  std::string const file = (at.path() / "table").string(), tune = std::string(TUTTI_TUNE) + " -r 2 -s 0.1 -o " + file;
  std::string const costs_before = "\napart 100000 40000 30 20\ncrowded 200000 50000 60 70\n";
  std::ofstream(file) << tuning_version << costs_before;
  for (int turn = 0; turn < 2; ++turn) {
    command c(tune + " -c all_reduce --max 64");
    CHECK(c.wait() == 0);
  }
  owned_table const kept = parse_table(read_file(file).value(), "table");
  CHECK((kept.apart.sent == 30 && kept.apart.combined == 20 && kept.crowded.sent == 60));
  CHECK(kept.command.find("; ") == std::string::npos);  // the same command twice

  std::ofstream(file) << tuning_version << "\nmachine Other CPU, 64 cores\ncommand theirs" << costs_before;
  command c(tune + " -c barrier");
  CHECK(c.wait() == 0);
  CHECK(c.said("tutti-tune: replaces the table of another machine, Other CPU, 64 cores\n"));
  owned_table const own = parse_table(read_file(file).value(), "table");
  CHECK(own.apart.sent != 30);
  CHECK(own.command.find("theirs") == std::string::npos);
}

TEST_CASE("a path that cannot be written is reported") {
  command c(quick + " -o /proc/nowhere/table");
  CHECK(c.wait() == 1);
  CAPTURE(c.output);
  CHECK(c.said("tutti-tune: tutti: cannot write /proc/nowhere/table"));
  command wrong(std::string(TUTTI_TUNE) + " -c all_reduce -r 1");
  CHECK(wrong.wait() == 2);
}

TEST_CASE("the loss of limits for devices in a broken table is reported") {
  temporary_folder const at;
  std::string const file = (at.path() / "table").string();
  std::ofstream(file) << tuning_version << "\ndevice one_gpu packets 8192\ndevcie one_gpu packets 8192\n";
  command c(std::string(TUTTI_TUNE) + " -r 2 -c barrier -s 0.1 -o " + file);
  CHECK(c.wait() == 0);
  CHECK(c.said("\"devcie\" is not one of"));
  CHECK(c.said("; the table is replaced, and any limits for devices that it contained are lost\n"));
}

TEST_CASE("a measurement is written although nobody reads what the tool prints") {
  temporary_folder const at;
  std::string const file = (at.path() / "table").string();
  std::string const tune = std::string(TUTTI_TUNE) + " -r 2 -c barrier -s 0.1 -o " + file;
  for (std::string const closed : {"2>&-", "2>/dev/full"}) {
    CAPTURE(closed);
    std::ofstream(file) << tuning_version << "\nbroken\n";  // which is reported
    CHECK(command(tune + " " + closed).wait() == 0);
    CHECK_NOTHROW((void)parse_table(read_file(file).value(), "table"));
  }
  if (sanitized) return;  // stdbuf loads a library
  fs::remove(file);
  CHECK(command("stdbuf -o0 " + tune + " >/dev/full").wait() == 1);
  CHECK(fs::exists(file));
}

TEST_CASE("what cannot be measured or written is refused before a measurement, and stays as it is") {
  temporary_folder const at;
  std::string const base = at.path().string(), table = base + "/table";
  std::ofstream(table) << tuning_version << "\nkept";
  std::ofstream(base + "/thesis.txt") << "chapter 1";
  REQUIRE(::mkfifo((base + "/pipe").c_str(), 0600) == 0);
  struct {
    std::string arguments;
    int code;
    std::string sentence;
  } const cases[] = {
      {"-o " + base, 1, base + " is a folder; name a file"},
      {"-o " + base + "/pipe", 1, base + "/pipe is a device or pipe; name a file"},
      {"-o " + base + "/thesis.txt", 1, "/thesis.txt is a file, but no tuning table, which begins with tutti-tuning"},
      {"-o ''", 1, "no output file is named; pass one with --output"},
      {"-o /proc/none/table", 1, "cannot write /proc/none/table: No such file or directory; name a file"},
      {"-o " + table + " --results " + base + "/./table", 1, "two of the output files are the same file"},
      {"-o " + base + "/new --header " + base + "/other/../new", 1, "two of the output files are the same file"},
      {"--max 4 -o " + table, 2, "--max: 4 is not a size from 8 bytes to 1024 GiB, such as 32MiB"},
      {"--max 8EiB -o " + table, 2, "--max: 9223372036854775808 is not a size from 8 bytes to 1024 GiB"},
      {"--max -1 -o " + table, 2, "--max: -1 is not a size from 8 bytes to 1024 GiB"},
      {"-s 0 -o " + table, 2, "--seconds: 0 is not a positive number of seconds"},
      {"-s nan -o " + table, 2, "--seconds: nan is not a positive number of seconds"}};
  for (auto const& one : cases) {
    CAPTURE(one.arguments);
    command c(std::string(TUTTI_TUNE) + " -r 2 -c barrier " + one.arguments);
    CHECK(c.wait() == one.code);
    CAPTURE(c.output);
    CHECK(c.said(one.sentence));
    CHECK(!c.said("2 to 2 ranks"));
  }
  CHECK(read_file(table) == std::string(tuning_version) + "\nkept");
  CHECK(read_file(base + "/thesis.txt") == "chapter 1");
  CHECK(fs::is_fifo(base + "/pipe"));
  CHECK(std::distance(fs::directory_iterator(at.path()), fs::directory_iterator()) == 3);
}

TEST_CASE("times of a busy machine do not replace the table that programs find, unless told so") {
  temporary_folder const at;
  std::string const base = at.path().string(), usual = base + "/tutti/tuning";
  fs::create_directories(base + "/tutti");
  std::ofstream(usual) << tuning_version << "\ncommand an earlier one\n";
  std::atomic<bool> ends = false;
  std::vector<std::jthread> others;
  for (unsigned i = 0; i < 1 + std::thread::hardware_concurrency() / 4; ++i)
    others.emplace_back([&] {
      while (!ends) {
      }
    });
  std::string const tune = "env XDG_CONFIG_HOME=" + base + " " + TUTTI_TUNE + " -r 2 -c barrier -s 2";
  command careful(tune);
  CHECK(careful.wait() == 1);
  CAPTURE(careful.output);
  CHECK(careful.said("so the times may mislead, and " + usual + " stays as it is; the table is in " + usual + ".busy"));
  CHECK(read_file(usual) == std::string(tuning_version) + "\ncommand an earlier one\n");
  CHECK(parse_table(read_file(usual + ".busy").value(), "table").machine == this_machine());
  command told(tune + " --even-if-busy");
  CHECK(told.wait() == 0);
  CHECK(told.said("wrote " + usual));
  CHECK(parse_table(read_file(usual).value(), "table").machine == this_machine());
  ends = true;
}

TEST_CASE("a symbolic link to the table stays one") {
  temporary_folder const at;
  std::string const base = at.path().string();
  std::ofstream(base + "/table") << tuning_version << "\nold";
  fs::create_symlink("table", base + "/link");
  command c(std::string(TUTTI_TUNE) + " -r 2 -c barrier -s 0.1 -o " + base + "/link");
  CHECK(c.wait() == 0);
  CHECK(fs::is_symlink(base + "/link"));
  CHECK(read_file(base + "/table").value().starts_with(complete_version));
}

TEST_CASE("a measurement that is interrupted leaves no file") {
  temporary_folder const at;
  command c(std::string(TUTTI_TUNE) + " -r 2 -c all_reduce -s 100 -o " + at.path().string() + "/table");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  c.signal(SIGINT);
  CHECK(c.wait() == 128 + SIGINT);
  CHECK(fs::is_empty(at.path()));
}
