// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that disagree, are late or leave, over MPI and over nodes.
// ranks: 4
// labels: waits
// timeout: 200
#include "fault/mismatches.hpp"

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// What this process writes to standard error during f().
template <class F>
std::string written_to_stderr(F&& f) {
  std::FILE* const file = std::tmpfile();
  int const usual = ::dup(STDERR_FILENO);
  ::dup2(::fileno(file), STDERR_FILENO);
  f();
  ::dup2(usual, STDERR_FILENO);
  ::close(usual);
  std::string out(4096, '\0');
  std::rewind(file);
  out.resize(std::fread(out.data(), 1, out.size(), file));
  std::fclose(file);
  return out;
}

// Ranks make a last call in which none waits for another, and close. Rank 0 prints how their calls differ.
template <class Call>
std::string check_last_call(Call&& call, std::string const& words) {
  return on_ranks(4, [&](auto& comm) {
    std::optional group(*comm.split(0));
    barrier(*group);
    call(*group);
    std::string const said = written_to_stderr([&] { group.reset(); });
    bool const prints = comm.rank() == 0 && !words.empty();
    expect(prints ? said.find(words) != said.npos : said.empty(), "a rank that closes says: " + said);
    barrier(comm);
  });
}

}  // namespace

TEST_CASE("ranks that close over MPI find out that their last calls differed") {
  std::vector<float> four(4);
  CHECK(check_last_call([&](auto& c) { broadcast(c, four, 0, {.algorithm = algorithm_id::one_shot}); }, "") == "");
  CHECK(check_last_call([&](auto& c) { broadcast(c, four, c.rank(), {.algorithm = algorithm_id::one_shot}); },
                        "ranks disagree in call #2: rank 0 calls broadcast of 4 float, root 0 (one_shot") == "");
  auto const only_one = [&](auto& c) {
    if (c.rank() == 3) broadcast(c, four, 3, {.algorithm = algorithm_id::one_shot});
  };
  CHECK(check_last_call(only_one,
                        "ranks made different calls: rank 0 closes its communicator after call #1, barrier") == "");
}

TEST_CASE("ranks that disagree, do not come or leave are named at all ranks over MPI") {
  CHECK(on_ranks(4, [](auto& comm) { check_disagreements(comm); }) == "");
}

TEST_CASE("ranks that disagree, do not come or leave are named at all ranks over nodes") {
  for (int const on_a_node : {3, 4}) {
    CAPTURE(on_a_node);
    CHECK(on_ranks(4, on_nodes_of(on_a_node), [](auto& comm) { check_disagreements(comm); }) == "");
  }
}
