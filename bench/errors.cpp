// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long ranks over MPI take to throw an error after one of them has made a mistake, and then to close the communicator: for each
// mistake, as many new communicators as the first argument says. The second is mpi or hierarchical. If the third is late, rank 0 comes 2 s
// after the others, and does not enter the MPI before. The fourth is a word that the mistakes contain.
//   tests/mpi/two_nodes.sh openmpi 4 "bench_errors_openmpi 40 hierarchical in-time revokes"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "median.hpp"
#include "tutti/mpi.hpp"

namespace {

using namespace std::chrono_literals;

constexpr int guilty = 1;

constexpr char const* mistakes[] = {"a rank passes another count", "an operation throws",
                                    "a rank revokes the communicator", "a rank closes its communicator"};

// Each throws on all ranks, but for a rank that closes its communicator.
template <class Comm>
void call(std::optional<Comm>& comm, std::string const& what) {
  bool const wrong = comm->rank() == guilty;
  std::vector<float> v(4, 1);
  if (what == "a rank passes another count") return all_reduce(*comm, std::span(v).first(wrong ? 3 : 4));
  if (what == "an operation throws") {  // in the MPI's own functions, this would end the process
    auto const throwing_sum = [wrong](float a, float b) {
      if (wrong) throw std::runtime_error("an operation");
      return a + b;
    };
    all_reduce(*comm, v, throwing_sum, {.algorithm = tutti::algorithm_id::recursive_doubling});
    return barrier(*comm);  // ranks that need nothing of rank 1 learn of the error here
  }
  if (what == "a rank revokes the communicator" && wrong) comm->revoke("enough");
  if (what == "a rank closes its communicator" && wrong) return comm.reset();
  barrier(*comm);
}

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// Of the slowest rank.
double slowest(double mine) {
  double out = 0;
  MPI_Allreduce(&mine, &out, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return out;
}

template <class Make>
void measure(int rounds, bool first_is_late, std::string const& word, Make&& make) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bool const late = first_is_late && rank == 0;
  if (rank == 0)
    std::printf(
        "| mistake | error, median (ms) | longest | above 1 s | closed, median (ms) | longest |\n"
        "|---|---:|---:|---:|---:|---:|\n");
  for (std::string const what : mistakes) {
    if (what.find(word) == what.npos) continue;
    std::vector<double> told, closed;
    for (int round = 0; round < rounds; ++round) {
      std::optional comm(make());
      barrier(*comm);
      MPI_Barrier(MPI_COMM_WORLD);
      auto const begin = std::chrono::steady_clock::now();
      if (late) std::this_thread::sleep_for(2s);
      bool threw = false;
      try {
        call(comm, what);
      } catch (std::exception const&) {
        threw = true;
      }
      double const until_error = milliseconds_since(begin);
      bool const closes = !threw && !comm;  // it gets no error
      if (!threw && !closes) {
        std::printf("rank %d got no error: %s\n", rank, what.c_str());
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      auto const closing = std::chrono::steady_clock::now();
      comm.reset();
      double const until_closed = milliseconds_since(closing);
      told.push_back(slowest(late || closes ? 0 : until_error));
      closed.push_back(slowest(closes ? until_error : until_closed));
    }
    if (rank != 0) continue;
    auto const slow = std::ranges::count_if(told, [](double t) { return t > 1000; });
    std::printf("| %s | %.1f | %.1f | %d of %d | %.1f | %.1f |\n", what.c_str(), median(told), std::ranges::max(told),
                static_cast<int>(slow), rounds, median(closed), std::ranges::max(closed));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s rounds mpi|hierarchical [in-time|late] [word]\n", argv[0]);
    return 2;
  }
  int const rounds = std::atoi(argv[1]);
  bool const late = argc > 3 && std::string(argv[3]) == "late";
  std::string const word = argc > 4 ? argv[4] : "";
  MPI_Init(&argc, &argv);
  if (std::string(argv[2]) == "mpi") measure(rounds, late, word, [] { return tutti::from_mpi(); });
  else measure(rounds, late, word, [] { return tutti::from_mpi<tutti::hierarchical>(); });
  MPI_Finalize();
}
