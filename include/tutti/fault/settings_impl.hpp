// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of fault/settings.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <locale.h>
#include <unistd.h>

#include "tutti/core/environment.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/settings.hpp"

namespace tutti::detail {

TUTTI_INLINE bool settings::read_timeout(std::chrono::nanoseconds& to) {
  std::string_view const text = environment_variable("TUTTI_TIMEOUT");
  if (text.empty()) return true;
  static locale_t const any_program = ::newlocale(LC_ALL_MASK, "C", nullptr);  // the program's may expect a comma
  char* end = nullptr;
  double const seconds = ::strtod_l(text.data(), &end, any_program);
  if (end == text.data() || *end != '\0' || !(seconds >= 1e-9 && seconds < 1e9)) return false;
  to = std::chrono::nanoseconds(static_cast<long long>(seconds * 1e9));
  return true;
}

TUTTI_INLINE settings settings::from_environment(std::chrono::nanoseconds timeout) {
  settings out;
  if (timeout.count() > 0) out.timeout = timeout;
  else if (!read_timeout(out.timeout))
    refuse_variable("TUTTI_TIMEOUT", environment_variable("TUTTI_TIMEOUT"), "a time",
                    "a number of seconds from 1e-9 to 1e9, e.g. 300");
  out.algorithms = overrides(environment_variable("TUTTI_ALGORITHM"));
  if (std::string_view const text = environment_variable("TUTTI_LOG"); !text.empty()) {
    static constexpr std::array<std::string_view, 4> levels{"none", "error", "info", "debug"};
    auto const level = std::find(levels.begin(), levels.end(), text);
    if (level == levels.end()) refuse_variable("TUTTI_LOG", text, "a level", "none, error, info or debug");
    out.log = static_cast<log_level>(level - levels.begin());
  }
  if (std::string_view const text = environment_variable("TUTTI_RECORD_SIGNAL"); !text.empty()) {
    std::uint64_t number = 0;
    bool const whole = read_number(text, std::numeric_limits<int>::max(), number) == text.size();
    out.record_signal = static_cast<int>(number);
    struct sigaction now{};
    // Those that cannot be handled, and those of a program that cannot go on where they came.
    constexpr std::uint64_t ends = 1u << SIGKILL | 1u << SIGSTOP | 1u << SIGSEGV | 1u << SIGBUS | 1u << SIGILL |
                                   1u << SIGFPE | 1u << SIGTRAP | 1u << SIGABRT;
    bool const survived = number > 63 || (ends >> number & 1) == 0;
    if (!whole || !survived || ::sigaction(out.record_signal, nullptr, &now) != 0)
      refuse_variable("TUTTI_RECORD_SIGNAL", text, "a signal that a program can handle and survive",
                      "its number, e.g. 10 for SIGUSR1 on Linux");
  }
  if (std::string_view const text = environment_variable("TUTTI_CHECK"); !text.empty()) {
    out.checks_buffers = text == "buffers" || text == "buffers,threads";
    out.checks_threads = text == "threads" || text == "buffers,threads";
    if (!out.checks_buffers && !out.checks_threads)
      refuse_variable("TUTTI_CHECK", text, "a check", "buffers, threads or buffers,threads, or unset it");
  }
  out.record = environment_variable("TUTTI_RECORD");
  if (!out.record.empty()) expect_writable("TUTTI_RECORD", out.record);
  out.trace = environment_variable("TUTTI_TRACE");
  out.statistics = environment_flag("TUTTI_STATISTICS", false, "1 to count calls, or unset it");
  out.sums_in_switch = environment_flag("TUTTI_NVLS", false, "1 to let NVLink switches compute sums, or unset it");
  // Open MPI 4 sets it for the ranks of a job that is to continue when one of them has died.
  bool const continues = environment_variable("OMPI_MCA_orte_enable_recovery") == "1";
  if (!environment_flag("TUTTI_NATIVE", !continues, "0 to keep calls out of the MPI's own collectives, or unset it"))
    out.avoids_native = environment_variable("TUTTI_NATIVE") == "0" ? "TUTTI_NATIVE=0" : "mpirun --enable-recovery";
  out.meets = environment_flag("TUTTI_MEET", true, "0 to skip the check before native calls, or unset it");
  return out;
}

TUTTI_INLINE void settings::expect_writable(char const* name, std::string const& prefix) {
  std::size_t const slash = prefix.rfind('/');
  std::string const folder = join({slash == prefix.npos ? "." : std::string_view(prefix).substr(0, slash + 1)});
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse_variable(name, prefix, join({"where files can be created: ", std::strerror(errno)}).c_str(),
                    "the start of a path in an existing folder, e.g. /tmp/run");
}

}  // namespace tutti::detail
