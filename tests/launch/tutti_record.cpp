// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-record: ranks that are behind, ranks that disagree, and several traces joined to one.
// labels: processes
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "launch/command.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"

using namespace tutti::testing;

namespace {

std::string const tool = TUTTI_RECORD_TOOL;

void write(std::string const& path, std::string const& text) { std::ofstream(path) << text; }

// Of two ranks, rank 1 has not reached the second call of rank 0, and its first call was a different one.
std::string record_of(int rank) {
  std::string const mine = rank == 0 ? "barrier" : "all_reduce of 4 float", print = rank == 0 ? "1" : "2";
  std::string const first =
      R"({"sequence": 1, "ended": true, "where": "a.cpp:1", "call": ")" + mine + R"(", "fingerprint": )" + print + "}";
  std::string const second =
      R"(, {"sequence": 2, "ended": false, "where": "a.cpp:2", "call": "scan", "fingerprint": 3})";
  std::string const peer = rank == 0 ? R"({"rank": 1, "called": 1, "finished": 1, "awaits": "recv from rank 0"})"
                                     : R"({"rank": 0, "called": 2, "finished": 1, "call": "scan", "fingerprint": 3})";
  return R"({"rank": )" + std::to_string(rank) + R"(, "ranks": 2, "reason": "so", "calls": [)" + first +
         (rank == 0 ? second : "") +
         R"(], "messages": [{"message": "a send", "where": "a.cpp:3", "ended": true},
                            {"message": "a recv", "where": "a.cpp:4", "ended": false}], "peers": [)" +
         peer + "]}";
}

}  // namespace

TEST_CASE("show names the ranks that are behind and the first call in which ranks disagree") {
  temporary_folder const at;
  std::string const zero = at.path() / "r.0.json", one = at.path() / "r.1.json";
  write(zero, record_of(0));
  write(one, record_of(1));
  command both(tool + " show " + zero + " " + one);
  CHECK(both.wait() == 0);
  CAPTURE(both.output);
  CHECK(both.said("rank 0 is in call #2, scan (a.cpp:2)\n"));
  CHECK(both.said("rank 1 has completed call #1, all_reduce of 4 float (a.cpp:1)\n"));
  CHECK(both.said("behind: rank 1 has not reached call #2\n"));
  CHECK(both.said("ranks disagree in call #1:\n  rank 0: barrier\n  rank 1: all_reduce of 4 float\n"));

  CHECK(both.said("rank 0 has not completed a recv (a.cpp:4)\nrank 1 has not completed a recv (a.cpp:4)\n"));

  command alone(tool + " show " + one);
  CHECK(alone.wait() == 0);
  CHECK(!alone.said("rank 0 is waiting"));
  command other(tool + " show " + zero);
  CHECK(other.wait() == 0);
  CHECK(other.said("rank 1 is waiting in recv from rank 0\n"));
  CHECK(alone.said("rank 0 is in call #2, scan (no record of this rank)\n"));
}

TEST_CASE("traces are joined, also one that breaks off") {
  temporary_folder const at;
  std::string const zero = at.path() / "t.0.json", one = at.path() / "t.1.json", all = at.path() / "all.json";
  write(zero, "[\n{\"name\": \"a\"},\n{\"name\": \"b\"},\n");
  write(one, "[\n{\"name\": \"c\"},\n{\"name\": \"d");
  command c(tool + " join " + zero + " " + one + " -o " + all);
  CHECK(c.wait() == 0);
  CHECK(c.said("wrote 3 events of 2 files to "));
  std::ifstream file(all);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) ==
        R"({"displayTimeUnit":"ns","traceEvents":[{"name":"a"},{"name":"b"},{"name":"c"}]})"
        "\n");
}

TEST_CASE("a picture has a lane for each communicator") {
  temporary_folder const at;
  std::string const path = at.path() / "t.0.json", picture = at.path() / "t.svg";
  write(path, R"([
{"name": "scan", "ph": "X", "ts": 1000.0, "dur": 500.0, "pid": 0, "tid": 0},
{"name": "barrier", "ph": "X", "ts": 2000.0, "dur": 1000.0, "pid": 0, "tid": 1},
)");
  command c(tool + " draw " + path + " -o " + picture);
  CHECK(c.wait() == 0);
  CHECK(c.said("drew 2 ms of 2 lanes to "));
  std::ifstream file(picture);
  std::string const svg(std::istreambuf_iterator<char>(file), {});
  CHECK(svg.find("rank 0, group 1") != std::string::npos);
  CHECK(svg.find("x=\"610.00\" y=\"69\" width=\"500.00\"") != std::string::npos);  // the barrier: the second half
}

TEST_CASE("a file that is not a record or a trace is rejected") {
  temporary_folder const at;
  std::string const path = at.path() / "x";
  write(path, "{}");
  for (std::string const& arguments :
       {"show " + path, "join " + path + " -o " + path + "2", std::string("show /nowhere")}) {
    command c(tool + " " + arguments);
    CHECK(c.wait() == 1);
    CHECK(c.said("tutti-record: "));
  }
}

TEST_CASE("a file of the other kind is named, with the command that reads it") {
  temporary_folder const at;
  std::string const trace = at.path() / "t.0.json", flight = at.path() / "r.0.json";
  write(trace, "[\n{\"name\": \"a\"},\n{\"name\": \"b\"}\n]\n");
  write(flight, record_of(0));
  command shown(tool + " show " + trace);
  CHECK(shown.wait() == 1);
  CHECK(shown.said(trace + " is a trace, not a flight record: read it with `tutti-record draw`"));
  command joined(tool + " join " + flight + " -o " + trace + "2");
  CHECK(joined.wait() == 1);
  CHECK(joined.said(flight + " is a flight record, not a trace: read it with `tutti-record show`"));
  CHECK(!joined.said("json.exception"));
  write(flight, record_of(0) + "\xC3");
  command cut(tool + " show " + flight);
  CHECK(cut.wait() == 1);
  CHECK(cut.said(flight + " is not a flight record: it is not valid JSON"));
  write(flight, R"({"calls": [5], "peers": [], "ranks": 1, "rank": 0})");
  command broken(tool + " show " + flight);
  CHECK(broken.wait() == 1);
  CHECK(broken.said("a field is missing or of the wrong type"));
  CHECK(!broken.said("json.exception"));
}

TEST_CASE("a picture cannot begin after the end, has room for the last label, and no lanes without calls") {
  temporary_folder const at;
  std::string const path = at.path() / "t.0.json", picture = at.path() / "t.svg";
  write(path, R"([{"name": "early", "ph": "X", "ts": 1000.0, "dur": 1.0, "pid": 0, "tid": 1},
                  {"name": "a<b", "ph": "X", "ts": 1100.0, "dur": 400.0, "pid": 0, "tid": 0}])");
  command late(tool + " draw " + path + " -o " + picture + " --begin 20");
  CHECK(late.wait() == 1);
  CHECK(late.said("nothing to draw from 20 ms on: the traces last 0.5 ms"));
  command drawn(tool + " draw " + path + " -o " + picture + " --begin 0.1");
  CHECK(drawn.wait() == 0);
  CHECK(drawn.said("of 1 lanes"));
  std::ifstream file(picture);
  std::string const svg(std::istreambuf_iterator<char>(file), {});
  CHECK(svg.find("width=\"1170\"") != std::string::npos);
  CHECK(svg.find("a&lt;b") != std::string::npos);
}

TEST_CASE("a wrong command line ends with 2, work that fails with 1") {
  for (char const* const wrong : {"", " show", " draw trace", " draw trace -o picture --length nan",
                                  " draw trace -o picture --begin inf", " show --wrong record", " print record"}) {
    command c(tool + wrong);
    CAPTURE(wrong);
    CHECK(c.wait() == 2);
  }
  CHECK(command(tool + " show /no/such/record").wait() == 1);
}

TEST_CASE("traces that were joined can be drawn, and joined again") {
  temporary_folder const at;
  std::string const trace = at.path() / "t.0.json", all = at.path() / "all.json", again = at.path() / "again.json";
  write(trace, R"([{"name": "scan", "ph": "X", "ts": 1000.0, "dur": 500.0, "pid": 0, "tid": 0}])");
  CHECK(command(tool + " join " + trace + " -o " + all).wait() == 0);
  command drawn(tool + " draw " + all + " -o " + again);
  CHECK(drawn.wait() == 0);
  CHECK(drawn.said("drew 0.5 ms of 1 lanes"));
  command joined(tool + " join " + all + " " + trace + " -o " + again);
  CHECK(joined.wait() == 0);
  CHECK(joined.said("wrote 2 events of 2 files"));
  command shown(tool + " show " + all);
  CHECK(shown.wait() == 1);
  CHECK(shown.said("is a trace, not a flight record"));
}

TEST_CASE("an input is never replaced by a result") {
  temporary_folder const at;
  std::string const trace = at.path() / "t.0.json", text = "[{\"name\": \"a\"}]";
  write(trace, text);
  for (std::string const what : {"join", "draw"}) {
    command c(tool + " " + what + " " + trace + " -o " + at.path().string() + "/./t.0.json");
    CHECK(c.wait() == 1);
    CHECK(c.said("t.0.json is an input: name another file for the result"));
  }
  std::ifstream file(trace);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == text);
}

TEST_CASE("a file that is named twice is refused") {
  temporary_folder const at;
  std::string const trace = at.path() / "t.0.json";
  write(trace, "[{\"name\": \"a\"}]");
  command c(tool + " join " + trace + " " + at.path().string() + "/./t.0.json -o " + at.path().string() + "/all.json");
  CHECK(c.wait() == 1);
  CHECK(c.said("/./t.0.json is named twice"));
  CHECK(!std::filesystem::exists(at.path() / "all.json"));
}

TEST_CASE("what cannot be read or written is reported with the reason") {
  temporary_folder const at;
  std::string const flight = at.path() / "r.0.json", trace = at.path() / "t.0.json";
  write(flight, record_of(0));
  write(trace, "[{\"name\": \"a\"}]");
  struct {
    std::string arguments, sentence;
  } const cases[] = {
      {"show /no/such/record", "cannot read /no/such/record: No such file or directory"},
      {"show " + at.path().string(), ": Is a directory"},
      {"show /dev/zero", "cannot read /dev/zero: it is a device; name a file or a pipe"},
      {"join " + trace + " -o /no/such/folder", "cannot write \"/no/such/folder\": No such file or directory"},
      {"join " + trace + " -o /dev/full", "cannot write \"/dev/full\": No space left on device"}};
  for (auto const& one : cases) {
    command c(tool + " " + one.arguments);
    CAPTURE(one.arguments);
    CHECK(c.wait() == 1);
    CHECK(c.said(one.sentence));
  }
  command endless("sh -c 'yes | " + tool + " show /dev/stdin'");
  CHECK(endless.wait() == 1);
  CHECK(endless.said("/dev/stdin is "));
  command full("sh -c '" + tool + " show " + flight + " >/dev/full'");
  CHECK(full.wait() == 1);
  CHECK(full.said("tutti-record: cannot write the output: No space left on device"));
  write(flight, R"({"calls": [], "peers": [], "ranks": 1, "rank": -1})");
  command foreign(tool + " show " + flight);
  CHECK(foreign.wait() == 1);
  CHECK(foreign.said("it names rank -1, but its communicator has 1 ranks"));
}

TEST_CASE("no incomplete result stays") {
  temporary_folder const at;
  std::string const trace = at.path() / "t.0.json", result = at.path() / "all.json";
  write(trace, "[{\"name\": \"" + std::string(4000, 'a') + "\"}]");
  command c("sh -c 'trap \"\" XFSZ; ulimit -f 1; exec " + tool + " join " + trace + " -o " + result + "'");
  CHECK(c.wait() == 1);
  CAPTURE(c.output);
  CHECK(c.said("all.json\": File too large"));
  CHECK(!std::filesystem::exists(result));
}

TEST_CASE("JSON of too many levels is refused, but brackets in strings are no levels") {
  temporary_folder const at;
  std::string const trace = at.path() / "t.0.json";
  auto const joins = [&](std::string const& arguments) {
    write(trace, R"([{"name": "a", "args": )" + arguments + "}]\n");
    command join(tool + " join " + trace + " -o " + trace + ".all");
    return join.wait() == 0;
  };
  CHECK(joins("[[[[[[1]]]]]]"));
  CHECK_FALSE(joins("[[[[[[[1]]]]]]]"));
  CHECK(joins(R"(["[[[[[[[[[[[[", "\"[[[[[[[[[[[[", "\\", [1], [2]])"));
}

TEST_CASE("files that do not fit into memory are an error") {
  if (sanitized) return;  // sanitizers need more memory than this limit
  temporary_folder const at;
  std::string const trace = at.path() / "t.0.json", event = R"({"name": "a", "args": {"call": "b"}})";
  std::ofstream file(trace);
  for (int i = 0; i < 200'000; ++i) file << (i == 0 ? "[" : ",") << event;
  file << "]\n";
  file.close();
  command c("sh -c 'ulimit -v 60000; " + tool + " join " + trace + " -o " + trace + "2'");
  CHECK(c.wait() == 1);
  CHECK(c.output == "tutti-record: these files do not fit into memory; read fewer at once\n");
}

TEST_CASE("two records of one rank are refused, and records of different times cause a warning") {
  temporary_folder const at;
  std::string const zero = at.path() / "r.0.json", again = at.path() / "g.0.json", one = at.path() / "r.1.json";
  write(zero, record_of(0));
  write(again, record_of(0));
  command twice(tool + " show " + zero + " " + again);
  CHECK(twice.wait() == 1);
  CHECK(twice.said(again + " does not fit: it is of rank 0, and so is " + zero +
                   ", so they are of different communicators or runs; pass the files of one communicator of one run"));

  auto const record_at = [](int rank, int time) {
    return R"({"time": )" + std::to_string(time) + ", " + record_of(rank).substr(1);
  };
  write(zero, record_at(0, 1000));
  write(one, record_at(1, 1060));
  command together(tool + " show " + zero + " " + one);
  CHECK(together.wait() == 0);
  CHECK(!together.said("warning"));
  write(one, record_at(1, 1061));
  command apart(tool + " show " + zero + " " + one);
  CHECK(apart.wait() == 0);
  CHECK(apart.output.starts_with("warning: " + zero + " was written 61 s before " + one +
                                 "; if it is of an earlier run, leave it out\n"));
}

TEST_CASE("records of several communicators or jobs have a section each, whatever their order") {
  temporary_folder const at;
  auto const record_by = [](std::string const& identity, int rank) {
    return R"({"version": 2, "identity": ")" + identity + R"(", "transport": "shm", )" + record_of(rank).substr(1);
  };
  std::string const zero = at.path() / "r.0.json", one = at.path() / "r.1.json", old = at.path() / "old.0.json";
  write(zero, record_by("11", 0));
  write(one, record_by("11", 1));
  command together(tool + " show " + zero + " " + one);
  CHECK(together.wait() == 0);
  CHECK(together.output.starts_with("rank 0 is in call #2"));

  write(old, record_by("7", 0));
  command both(tool + " show " + zero + " " + old + " " + one);
  CHECK(both.wait() == 0);
  CAPTURE(both.output);
  CHECK(both.output.starts_with("communicator 1 of 2, 2 ranks over shm: " + zero + ", " + one +
                                "\nrank 0 is in call #2"));
  CHECK(both.said("\n\ncommunicator 2 of 2, 2 ranks over shm: " + old + "\nrank 0 is in call #2"));
  CHECK(both.said("rank 1 has completed call #1 (no record of this rank)\n"));

  // Rank 1 left no record in a later job, and its file is of an earlier one.
  write(one, record_by("7", 1));
  command stale(tool + " show " + zero + " " + one);
  CHECK(stale.wait() == 0);
  CHECK(stale.said("communicator 2 of 2"));
  CHECK(!stale.said("ranks disagree"));

  write(old, record_by("11", 0));
  command twice(tool + " show " + zero + " " + old);
  CHECK(twice.wait() == 1);
  CHECK(twice.said(old + " does not fit: it is of rank 0, and so is " + zero +
                   ", so they are of different times; pass one of them"));
  write(old, R"({"version": 3, )" + record_of(0).substr(1));
  command newer(tool + " show " + old);
  CHECK(newer.wait() == 1);
  CHECK(newer.said("it has version 3 of the format, and this tutti-record knows those up to 2; use that of the tutti"));
}
