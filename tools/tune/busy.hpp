// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether other programs used the machine during a measurement. Times of a busy machine choose algorithms that are slow on an idle one.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include "../complain.hpp"
#include "contest.hpp"
#include "session.hpp"
#include "start_line.hpp"
#include "tutti/transport/system/caches.hpp"
#include "write.hpp"

namespace tuning {

// Before a measurement; the load is that of the last minute.
inline void warn_if_busy(settings const& s) {
  double load = 0;
  long const cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (::getloadavg(&load, 1) == 1 && load > 0.5 * static_cast<double>(cores))
    complain("{}: other programs use this machine (load {:.1f} on {} cores); if they go on, the times will mislead\n",
             s.program, load, cores);
}

// The seconds that a process and the children that it has waited for have used.
inline double own_seconds() {
  double out = 0;
  for (auto const who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(who, &used);
    for (timeval const& time : {used.ru_utime, used.ru_stime})
      out += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return out;
}

// The seconds for which these cores have worked. In a virtual machine, those that another one has taken count too.
inline double busy_seconds(cpu_set_t const& cores) {
  std::ifstream file("/proc/stat");
  double ticks = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("cpu") || line.starts_with("cpu ")) continue;
    std::istringstream words(line.substr(3));
    int core = 0;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft_interrupts = 0, stolen = 0;
    words >> core >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >> stolen;
    if (core >= 0 && core < CPU_SETSIZE && CPU_ISSET(static_cast<unsigned>(core), &cores))
      ticks += user + nice + system + interrupts + soft_interrupts + stolen;
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// What other programs do with some cores during the life of this object.
class other_programs {
 public:
  // `own`: the seconds that the programs of the measurement have used.
  other_programs(cpu_set_t const& cores, double own)
      : cores_(cores), others_(busy_seconds(cores) - own), began_(now()) {}

  // 0 if they do nothing, 1 if they have all cores.
  double share(double own) const {
    double const all = static_cast<double>(now() - began_) * 1e-9 * CPU_COUNT(&cores_);
    return all > 0 ? std::max(0.0, busy_seconds(cores_) - own - others_) / all : 0;
  }

 private:
  cpu_set_t cores_;
  double others_;
  std::int64_t began_;
};

// How the machine was busy, in words, or nothing.
inline std::string busyness(double share_of_others, disturbance const& seen) {
  if (share_of_others > 0.1) return fmt::format("other programs had {:.0f} % of the cores", 100 * share_of_others);
  if (4 * seen.disturbed > seen.blocks)
    return fmt::format("other programs took cores from the ranks in {} of {} blocks", seen.disturbed, seen.blocks);
  return {};
}

// Writes the table, and returns the exit code. Programs find the default file, so it remains as it is if the machine was busy.
inline int write_table(settings const& s, draft const& file, std::string const& text, std::string const& busy) {
  bool const is_default = s.output == settings{}.output;
  if (busy.empty() || s.even_if_busy || !is_default) {
    file.commit(text);
    fmt::print("wrote {}\n", s.output);
    if (!busy.empty()) complain("{}: {}, so the times may mislead; measure again when it is idle\n", s.program, busy);
    return 0;
  }
  draft const beside(s.output + ".busy");
  beside.commit(text);
  complain(
      "{0}: {1}, so the times may mislead, and {2} stays as it is; the table is in {3}. Measure again when the "
      "machine is idle, or pass --even-if-busy; to try this table, set TUTTI_TUNING={3}\n",
      s.program, busy, s.output, beside.target());
  return 1;
}

}  // namespace tuning
