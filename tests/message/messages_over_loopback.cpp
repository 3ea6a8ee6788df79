// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks, over loopback.
// labels: threads twin
// timeout: 200
#include <doctest/doctest.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "message/messages.hpp"
#include "support/mesh.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("messages arrive over loopback") {
  for (bool const mesh : {true, false}) {
    CAPTURE(mesh);
    mesh_as const processor(mesh);
    for (int const ranks : mesh ? ranks_to_test({2}) : message_rank_counts()) {
      CAPTURE(ranks);
      CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_messages(comm); }));
    }
  }
  for (int const ranks : ranks_to_test({2, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_messages_by_thread(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_turns(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_probes_of_threads(comm); }));
  }
}

// Its sender may have given up, and changed the memory that was fetched. Nobody waits in tutti between the send and the fault,
// which would receive the message.
TEST_CASE("a message that is received after a fault does not count") {
  std::atomic<int> stage{0};
  auto const reach = [&](int next) {
    stage = next;
    stage.notify_all();
  };
  CHECK_NOTHROW(run_threads(2, [&](auto& comm) {
    std::array<int, 1> data{comm.rank()};
    if (comm.rank() == 0) {
      stage.wait(0);
      send(comm, data, 1);
      reach(2);
      stage.wait(2);
    } else {
      receive_work incoming = irecv(comm, data, 0);
      reach(1);
      stage.wait(1);
      comm.revoke("enough");
      error const e = error_of([&] { incoming.wait(); });
      reach(3);
      expect_error(e, error_code::revoked, "enough");
    }
  }));
}

namespace {

// What two ranks write to standard error, of which rank 0 calls `sends` and rank 1 `receives`, which may leave messages behind.
template <class Sends, class Receives>
std::string text_at_end(Sends const& sends, Receives const& receives) {
  std::FILE* const file = std::tmpfile();
  int const before = ::dup(STDERR_FILENO);
  ::dup2(::fileno(file), STDERR_FILENO);
  run_threads(2, [&](auto& comm) {
    if (comm.rank() == 0) sends(comm);
    barrier(comm);
    if (comm.rank() == 1) receives(comm);
  });
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::rewind(file);
  std::string out(2000, ' ');
  out.resize(std::fread(out.data(), 1, out.size(), file));
  std::fclose(file);
  return out;
}

}  // namespace

TEST_CASE("messages that are lost when communicators close are named") {
  std::vector<int> const small(4), large(100'000);
  auto const send_three = [&](auto& comm) { send(comm, small, 1, 5), send(comm, small, 1, 6), send(comm, 1, 1, 8); };
  auto const receive_last = [](auto& comm) { static_cast<void>(recv<int>(comm, 0, 8)); };
  CHECK(
      text_at_end(send_three, receive_last) ==
      "tutti: rank 1 closed its communicator without receiving 2 messages; the first is of 16 bytes from rank 0, tag 5 "
      "[rank 1]; receive every message that is sent\n");
  CHECK(text_at_end([](auto& comm) { send(comm, 1, 1, 8); }, receive_last) == "");

  auto const send_large = [&](auto& comm) { static_cast<void>(isend(comm, large, 1, 7)), send(comm, 1, 1, 8); };
  std::string const text = text_at_end(send_large, receive_last);
  CHECK(contains(text,
                 "rank 0 closed its communicator before 1 message that it had started could end: send of 100000 int to "
                 "rank 1, tag 7, at "));
  CHECK(contains(text, "messages_over_loopback.cpp:"));
  CHECK(contains(
      text, "rank 1 closed its communicator without receiving 1 message; the first is of 400000 bytes from rank 0"));
}
