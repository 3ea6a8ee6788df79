// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flight records, traces and statistics: their contents, and when they are written.
// labels: processes
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/environment.hpp"
#include "support/expect.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using json = nlohmann::json;

namespace {

json read(std::string const& path) {
  std::ifstream file(path);
  return json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace

TEST_CASE("a record has the last calls, where they were made, and what is known of peers") {
  temporary_folder const at;
  std::string const prefix = at.path() / "demand";
  run_local(3, [&](auto& comm) {
    std::vector<float> data(1000, 1.0f);
    for (int i = 0; i < 100; ++i) all_reduce(comm, data);
    broadcast(comm, data, 1);
    auto group = comm.subgroup({0, 1, 2});
    barrier(group);
    comm.write_record(prefix);
    group.write_record(prefix, "just so");
    expect(error_of([&] { comm.write_record("/proc/nowhere/x"); }).code() == error_code::bad_argument, "refused");
    barrier(comm);
  });
  for (int r = 0; r < 3; ++r) {
    json const record = read(prefix + "." + std::to_string(r) + ".json");
    CHECK(record["rank"] == r);
    CHECK(record["ranks"] == 3);
    CHECK(record["transport"] == "shm");
    CHECK(record["calls"].size() == 64);
    json const last = record["calls"].back();
    CHECK(last["sequence"] == 101);
    CHECK(last["ended"] == true);
    CHECK(last["collective"] == "broadcast");
    CHECK(last["bytes"] == 4000);
    CHECK(last["where"].get<std::string>().find("recorder.cpp:") != std::string::npos);
    CHECK(last["call"].get<std::string>().starts_with("broadcast of 1000 float, root 1 ("));
    CHECK(record["peers"].size() == 2);
    for (json const& peer : record["peers"]) CHECK(peer["called"] >= 100);
    json const group = read(prefix + "." + std::to_string(r) + "-1.json");
    CHECK(group["reason"] == "just so");
    CHECK(group["calls"].size() == 1);
  }
}

TEST_CASE("records of a communicator have one identity, and those of another group or run have others") {
  temporary_folder const at;
  std::set<std::string> found;
  auto const expect_new = [&](std::string const& name, auto const& run) {
    std::string const prefix = at.path() / name;
    run([&](auto& comm) {
      auto group = comm.subgroup({0, 1});
      barrier(group);
      comm.write_record(prefix);
      group.write_record(prefix);
    });
    for (std::string const group : {"", "-1"}) {
      json const record = read(prefix + ".0" + group + ".json");
      CHECK(record["version"] == 2);
      CHECK(record["identity"] == read(prefix + ".1" + group + ".json")["identity"]);
      found.insert(record["identity"].get<std::string>());
    }
  };
  auto const in_processes = [](auto const& f) { run_local(2, f); };
  expect_new("a", in_processes);
  expect_new("b", in_processes);
  expect_new("c", [](auto const& f) { run_threads(2, f); });
  CHECK(found.size() == 6);
}

TEST_CASE("a record has the last messages, and which of them have not ended") {
  temporary_folder const at;
  std::string const prefix = at.path() / "messages";
  run_local(2, [&](auto& comm) {
    std::vector<float> data(10);
    std::vector<double> late(3);
    int const peer = 1 - comm.rank();
    for (int i = 0; i < 100; ++i) {
      if (comm.rank() == 0) send(comm, data, peer, i);
      else recv(comm, data, any_source, i);
    }
    receive_work next = irecv(comm, late, peer, 7);
    comm.write_record(prefix);
    barrier(comm);
    send(comm, late, peer, 7);
    expect(next.get() == received{peer, 7, 3}, "what was sent");
    comm.write_record(prefix + "-later");
    send(comm, late, peer, 8);
    static_cast<void>(probe(comm, peer, 8));
    comm.write_record(prefix + "-probed");
    recv(comm, late, peer, 8);
  });
  for (int r = 0; r < 2; ++r) {
    json const messages = read(prefix + "." + std::to_string(r) + ".json")["messages"];
    REQUIRE(messages.size() == 64);
    json const last = messages.back(), before = messages[62];
    CHECK(last["number"] == 101);
    CHECK(last["message"] == "recv of up to 3 double from rank " + std::to_string(1 - r) + ", tag 7");
    CHECK(last["ended"] == false);
    CHECK(last["where"].get<std::string>().find("recorder.cpp:") != std::string::npos);
    CHECK(before["kind"] == (r == 0 ? "send" : "recv"));
    CHECK(before["tag"] == 99);
    CHECK(before["bytes"] == 40);
    CHECK(before["ended"] == true);
    if (r == 1) {
      CHECK(before["peer"] == any_source);
      CHECK(before["source"] == 0);
    }
    json const later = read(prefix + "-later." + std::to_string(r) + ".json")["messages"];
    CHECK(later[later.size() - 2]["number"] == 101);
    CHECK(later[later.size() - 2]["ended"] == true);
    CHECK(later.back()["ended"] == true);
    json const probed = read(prefix + "-probed." + std::to_string(r) + ".json")["messages"].back();
    CHECK(probed["kind"] == "probe");
    CHECK(probed["source"] == 1 - r);
  }
}

TEST_CASE("an error leaves a record at each rank, in which the odd one can be seen") {
  temporary_folder const at;
  environment const here{{"TUTTI_RECORD", at.path() / "run"}};
  CHECK_THROWS(run_local(3, [](auto& comm) {
    std::vector<double> data(comm.rank() == 1 ? 7 : 9);
    barrier(comm);
    all_reduce(comm, data);
  }));
  for (int r = 0; r < 3; ++r) {
    json const record = read(at.path() / ("run." + std::to_string(r) + ".json"));
    CHECK(record["reason"].get<std::string>().find("ranks disagree in call #2") != std::string::npos);
    CHECK(record["calls"].back()["ended"] == false);
    // A rank that finds the fault at the end of the barrier makes no second call.
    for (json const& peer : record["peers"])
      if (peer["called"] == 2 && record["calls"].back()["sequence"] == 2)
        CHECK((peer["fingerprint"] == record["calls"].back()["fingerprint"]) == (r != 1 && peer["rank"] != 1));
  }
}

TEST_CASE("a signal asks ranks that wait for a record, and they go on") {
  enum waits { in_a_call, for_a_message, polling_for_one, in_agreement };
  std::map<waits, std::string> const reasons{
      {in_a_call, "a signal, in call #2, barrier"},
      {for_a_message, "a signal, in recv of up to 1 int from rank 1"},
      {polling_for_one, "a signal, in recv of up to 1 int from rank 1"},
      {in_agreement, "a signal, after call #1, all_gather"},
  };
  for (auto const& [wanted, reason] : reasons) {
    waits const how = wanted;
    CAPTURE(reason);
    temporary_folder const at;
    environment const here{{"TUTTI_RECORD", at.path() / "run"}, {"TUTTI_RECORD_SIGNAL", std::to_string(SIGUSR1)}};
    std::string const file = at.path() / "run.0.json";
    run_local(2, [&](auto& comm) {
      auto const pids = [&] {
        std::vector<int> out(2);
        int const mine = ::getpid();
        all_gather(comm, std::span(&mine, 1), out);
        return out;
      }();
      // Rank 1 is late, and rank 0 gets the signal while it waits for it.
      if (comm.rank() == 0) std::ofstream(at.path() / "through");
      for (int i = 0; comm.rank() == 1 && i < 1000 && !std::filesystem::exists(file); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (std::filesystem::exists(at.path() / "through")) ::kill(pids[0], SIGUSR1);
      }
      std::array<int, 1> message{};
      if (how == in_a_call) barrier(comm);
      else if (how == in_agreement) comm.agree(1);
      else if (comm.rank() == 1) send(comm, message, 0);
      else if (how == for_a_message) recv(comm, message, 1);
      else
        for (work w = irecv(comm, message, 1); !w.test();) std::this_thread::yield();
    });
    json const record = read(file);
    INFO(record["reason"].get<std::string>());
    CHECK(record["reason"].get<std::string>().starts_with(reason));
    CHECK(record["peers"][0]["called"] <= 2);
    CHECK(record["peers"][0]["where"].get<std::string>().find("recorder.cpp:") != std::string::npos);
  }
}

TEST_CASE("a trace has every call of every communicator, and statistics their sums") {
  temporary_folder const at;
  environment const here{{"TUTTI_TRACE", at.path() / "trace"}};
  run_local(2, [](auto& comm) {
    std::vector<float> data(500, 1.0f);
    for (int i = 0; i < 10; ++i) all_reduce(comm, data);
    auto group = comm.subgroup({1, 0});
    broadcast(group, data);
    all_reduce(async(comm), data).wait();
    call_statistics const sums = comm.statistics(collective::all_reduce);
    expect(sums.calls == 11 && sums.bytes == 11 * 2000 && sums.total > sums.longest && sums.longest.count() > 0,
           "sums");
    expect(comm.statistics(collective::broadcast).calls == 0, "the group has its own");
  });
  for (int r = 0; r < 2; ++r) {
    json const events = read(at.path() / ("trace." + std::to_string(r) + ".json"));
    auto const count = [&](std::string const& name, int communicator) {
      return std::ranges::count_if(events, [&](json const& e) {
        return e["name"] == name && e.value("tid", 0) == communicator && e["pid"] == r;
      });
    };
    CHECK(count("all_reduce", 0) == 11);
    CHECK(count("broadcast", 1) == 1);
    CHECK(count("process_name", 0) == 1);
    CHECK(count("thread_name", 0) == 1);
    CHECK(count("thread_name", 1) == 1);
    double before = 0;
    for (json const& e : events) {
      if (e["ph"] != "X" || e["tid"] != 0) continue;
      CHECK(e["ts"].get<double>() >= before);
      before = e["ts"].get<double>() + e["dur"].get<double>();
    }
  }
}

TEST_CASE("a communicator that another thread makes has its own place in the trace of the process") {
  temporary_folder const at;
  environment const here{{"TUTTI_TRACE", at.path() / "trace"}};
  run_local(2, [](auto& comm) {
    std::vector<float> data(500, 1.0f);
    all_reduce(comm, data);
    auto swapped = comm.subgroup({1, 0});
    std::thread([&] {
      auto again = swapped.subgroup({0, 1});
      broadcast(again, data);
    }).join();
    all_reduce(comm, data);
  });
  for (int r = 0; r < 2; ++r) {
    std::map<int, std::vector<std::string>> calls;
    for (json const& e : read(at.path() / ("trace." + std::to_string(r) + ".json")))
      if (e["ph"] == "X") calls[e["tid"].get<int>()].push_back(e["name"].get<std::string>());
    CHECK(calls[0] == std::vector<std::string>{"all_reduce", "all_reduce"});
    CHECK(calls[2] == std::vector<std::string>{"broadcast"});
  }
}

TEST_CASE("what the environment asks for in a way that cannot be had is refused") {
  auto const refusal = [](char const* name, std::string const& value) {
    environment const here{{name, value}};
    return start_failure(2);
  };
  CHECK(refusal("TUTTI_LOG", "loud").find("TUTTI_LOG=\"loud\" is not a level; set it to none, error, info or debug") !=
        std::string::npos);
  CHECK(refusal("TUTTI_TRACE", "/proc/nowhere/x").find("TUTTI_TRACE: /proc/nowhere/x.") != std::string::npos);
  CHECK(refusal("TUTTI_RECORD_SIGNAL", "99").find("\"99\" is not a signal") != std::string::npos);
}
