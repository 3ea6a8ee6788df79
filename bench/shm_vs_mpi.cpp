// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti's collectives over shared memory beside MPI's: in one run, by turns, size by size. Every process is a rank of both.
// bench/shm_vs_mpi.sh runs it against several settings of Open MPI; bench/README.md tells how to read it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sched.h>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include "both_sides.hpp"
#include "report.hpp"
#include "start_line.hpp"

namespace {

using namespace bench;

struct settings {
  std::vector<std::string> collectives{"all_reduce"}, modes{"it", "b2b"}, buffers{"private", "shared"}, algorithms;
  std::size_t min = 8, max = 128 << 20, factor = 4;
  int repeats = 7;
  double block_ms = 10;
  bool in_place = false;
  tutti::protocol protocol = tutti::protocol::automatic;
  std::string json, peer = "plain";
  std::vector<std::string> merge;
};

struct contender {
  std::string name;
  std::string algorithm;
  arrays memory;
  std::span<float const> result;
  std::function<void()> call;
};

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// -- The environment, for the head of the output.

std::string first_after(char const* file, std::string const& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "?";
}

// On which any of the ranks may run: a launcher may have bound each to one of its own.
int count_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  MPI_Allreduce(MPI_IN_PLACE, &set, sizeof set, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
  return CPU_COUNT(&set);
}

std::string load() {
  std::string text;
  std::getline(std::ifstream("/proc/loadavg"), text);
  return text;
}

std::string environment_line(int cores) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  std::string mpi(version, static_cast<std::size_t>(length));
  mpi = mpi.substr(0, mpi.find_first_of(",\n"));
  std::time_t const time = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%F %H:%M UTC", std::gmtime(&time));
#if defined(__clang__)
  char const* const compiler = "clang";
#else
  char const* const compiler = "g++";
#endif
  return fmt::format("{}; {} (family {}, model {}), {} cores; {}; {} {}; load {}", date,
                     first_after("/proc/cpuinfo", "model name"), first_after("/proc/cpuinfo", "cpu family"),
                     first_after("/proc/cpuinfo", "model\t"), cores, mpi, compiler, __VERSION__, load());
}

// -- Measuring.

class course {
 public:
  course(settings const& s, tutti::communicator<tutti::shm>& comm, bool crowded)
      : settings_(s),
        comm_(comm),
        start_(MPI_COMM_WORLD, crowded),
        first_(s.max / sizeof(float)),
        second_(s.max / sizeof(float)),
        shared_first_(comm.allocate<float>(s.max / sizeof(float))),
        shared_second_(comm.allocate<float>(s.max / sizeof(float))) {}

  // Nothing where the size does not suit the collective.
  std::optional<row> run(task const& t, std::string const& mode) {
    if (!t.possible()) return {};
    std::vector<contender> all = contenders(t);
    if (all.size() < 2) return {};
    for (contender const& c : all) check(t, c);

    std::vector<plan> plans;
    for (contender const& c : all) plans.push_back(calibrate(t, mode, c));
    std::vector<std::vector<double>> us(all.size());
    for (int repeat = 0; repeat < settings_.repeats; ++repeat)
      for (std::size_t k = 0; k < all.size(); ++k) us[k].push_back(block(t, mode, all[k], plans[k]));

    row out{std::string(name(t.what)),
            mode,
            t.in_place ? "in place" : "out of place",
            t.ranks,
            t.bytes,
            settings_.peer,
            median(us[0]),
            {}};
    for (std::size_t k = 1; k < all.size(); ++k) {
      std::vector<double> ratios(us[k].size());
      std::transform(us[0].begin(), us[0].end(), us[k].begin(), ratios.begin(), std::divides<>());
      double const time = median(us[k]), algbw = static_cast<double>(t.bytes) / time / 1e3;
      out.ours.push_back({all[k].name, all[k].algorithm, time, median(ratios), *std::ranges::min_element(ratios),
                          *std::ranges::max_element(ratios), algbw, algbw * t.bus_factor()});
    }
    return out;
  }

 private:
  struct plan {
    int samples = 3;  // how many times are taken in a block
    int calls = 1;    // the calls that one time covers: 1 in mode it
  };

  // The peer is the first.
  std::vector<contender> contenders(task const& t) {
    arrays const own = cut(t, first_, second_), shared = cut(t, shared_first_, shared_second_);
    bool const at_begin = t.what == tutti::collective::reduce_scatter && t.in_place;
    std::vector<contender> out{
        {"MPI", "", own, at_begin ? own.in.first(t.block()) : own.out, [=] { call_mpi(MPI_COMM_WORLD, t, own); }}};
    auto const add = [&](std::string const& label, tutti::options const& o) {
      std::string const runs(name(tutti::explain<float>(comm_, t.what, t.explained(), o).algorithm));
      for (std::string const& b : settings_.buffers) {
        arrays const a = b == "shared" ? shared : own;
        out.push_back({label.empty() ? b : label + " " + b, runs, a, a.out, [=, this] { call_tutti(comm_, t, a, o); }});
      }
    };
    if (settings_.algorithms.empty()) add("", {.protocol = settings_.protocol});
    for (std::string const& wanted : settings_.algorithms)
      if (tutti::algorithm_id const id = tutti::find_algorithm(wanted); tutti::find_schedule(id, t.what))
        add(wanted, {.algorithm = id, .protocol = settings_.protocol});
    return out;
  }

  void check(task const& t, contender const& c) {
    if (t.what == tutti::collective::barrier) return c.call();
    write_pattern(t, c.memory);
    MPI_Barrier(MPI_COMM_WORLD);
    c.call();
    if (right(t, c.result)) return;
    fmt::print(stderr, "rank {}: {} of {} bytes by {} ({}) gave a wrong result\n", t.rank, name(t.what), t.bytes,
               c.name, c.algorithm);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  // As many calls as take the time of a block, the same at all ranks.
  plan calibrate(task const& t, std::string const& mode, contender const& c) {
    double const us = block(t, "it", c, {5, 1}), all = settings_.block_ms * 1e3 / us;
    if (mode == "it") return {static_cast<int>(std::clamp(all, 3.0, 5000.0)), 1};
    double const calls = std::clamp(50 / us, 1.0, 500.0);
    return {static_cast<int>(std::clamp(all / calls, 3.0, 500.0)), static_cast<int>(calls)};
  }

  // The median time in us of a call, of the slowest rank each time.
  double block(task const& t, std::string const& mode, contender const& c, plan const& p) {
    std::vector<double> us(static_cast<std::size_t>(p.samples));
    int const warm = std::min(p.samples, 20);
    for (int i = -warm; i < p.samples; ++i) {
      if (mode == "it") rewrite(t, c.memory, static_cast<float>(i & 3));
      std::int64_t const begin = start_.wait();
      for (int k = 0; k < p.calls; ++k) c.call();
      std::int64_t const end = now();
      if (i >= 0) us[static_cast<std::size_t>(i)] = static_cast<double>(end - begin) * 1e-3 / p.calls;
    }
    MPI_Allreduce(MPI_IN_PLACE, us.data(), p.samples, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return median(us);
  }

  settings const& settings_;
  tutti::communicator<tutti::shm>& comm_;
  start_line start_;
  std::vector<float> first_, second_;
  tutti::shared_array<float, tutti::shm> shared_first_, shared_second_;
};

void measure(settings const& s) {
  auto comm = tutti::init();
  int const cores = count_cores();
  course on(s, comm, comm.size() > cores);
  std::ofstream json;
  if (comm.is_main()) {
    fmt::print(
        "# {}\n# {} ranks; float sum; time of the last rank from a common start, median; ratio: the peer's time over "
        "ours\n",
        environment_line(cores), comm.size());
    if (!s.json.empty()) json.open(s.json);
  }
  printer print;
  bool const every = std::ranges::find(s.collectives, "all") != s.collectives.end();
  for (tutti::collective const what : benched) {
    if (!every && std::ranges::find(s.collectives, name(what)) == s.collectives.end()) continue;
    bool const sized = what != tutti::collective::barrier;
    for (std::string const& mode : s.modes)
      for (std::size_t bytes = sized ? s.min : 0; bytes <= s.max; bytes *= s.factor) {
        task const t{what, bytes, comm.size(), comm.rank(),
                     s.in_place && sized && what != tutti::collective::broadcast};
        auto const r = on.run(t, mode);
        if (r && comm.is_main()) {
          print(*r);
          if (json.is_open()) json << nlohmann::json(*r).dump() << std::endl;
        }
        if (!sized) break;
      }
  }
  if (comm.is_main()) fmt::print("\n# load at the end {}\n", load());
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  std::vector<std::string> collectives{"all"};
  for (tutti::collective const c : benched) collectives.emplace_back(name(c));
  std::vector<std::string> const algorithms(tutti::algorithms::names.begin(), tutti::algorithms::names.end());

  CLI::App app{"Times tutti's collectives over shared memory beside MPI's. Start it by mpirun."};
  app.add_option("-c,--collective", s.collectives, "which ones")
      ->delimiter(',')
      ->check(CLI::IsMember(collectives))
      ->capture_default_str();
  app.add_option("--min", s.min, "smallest size, such as 8 or 32KiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--max", s.max, "largest size")->transform(CLI::AsSizeValue(false))->capture_default_str();
  app.add_option("--factor", s.factor, "from one size to the next")->check(CLI::Range(2, 1024))->capture_default_str();
  app.add_option("--repeats", s.repeats, "blocks of each contender, by turns")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--block-ms", s.block_ms, "time of a block")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("-m,--mode", s.modes, "it: owners rewrite their inputs before every call; b2b: back to back")
      ->delimiter(',')
      ->check(CLI::IsMember({"it", "b2b"}))
      ->capture_default_str();
  app.add_flag("--in-place", s.in_place, "input and output are the same memory");
  app.add_option("--buffers", s.buffers, "tutti's arrays: private, or shared ones from comm.allocate")
      ->delimiter(',')
      ->check(CLI::IsMember({"private", "shared"}))
      ->capture_default_str();
  app.add_option("-a,--algorithm", s.algorithms, "pins tutti's algorithm; several compete")
      ->delimiter(',')
      ->check(CLI::IsMember(algorithms));
  std::map<std::string, tutti::protocol> protocols;
  for (auto const p :
       {tutti::protocol::automatic, tutti::protocol::packet, tutti::protocol::staged, tutti::protocol::direct})
    protocols.emplace(name(p), p);
  app.add_option("--protocol", s.protocol, "pins tutti's protocol")
      ->transform(CLI::CheckedTransformer(protocols))
      ->capture_default_str();
  app.add_option("--peer", s.peer, "what to call the peer's setting")->capture_default_str();
  app.add_option("--json", s.json, "writes a line for each row to this file");
  app.add_option("--merge", s.merge, "only prints the rows of these files, against the strongest peer at each size");
  CLI11_PARSE(app, argc, argv);

  try {
    if (!s.merge.empty()) {
      printer print;
      for (row const& r : merge(s.merge)) print(r);
      return 0;
    }
    MPI_Init(&argc, &argv);
    measure(s);
    MPI_Finalize();
  } catch (std::exception const& e) {
    fmt::print(stderr, "bench_shm_vs_mpi: {}\n", e.what());
    int started = 0;
    MPI_Initialized(&started);
    if (started != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
}
