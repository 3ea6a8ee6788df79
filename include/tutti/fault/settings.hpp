// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Settings from environment variables, read once for each communicator.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/tune/overrides.hpp"

namespace tutti::detail {

// Which messages go to standard error; each level includes those before it.
enum class log_level : std::uint8_t { none, error, info, debug };

struct settings {
  static constexpr std::chrono::nanoseconds usual_timeout = std::chrono::minutes(5);

  std::chrono::nanoseconds timeout = usual_timeout;  // TUTTI_TIMEOUT
  overrides algorithms{};                            // TUTTI_ALGORITHM
  log_level log = log_level::none;                   // TUTTI_LOG
  std::string record{};                              // TUTTI_RECORD: where flight records go, less ".<rank>.json"
  int record_signal = 0;                             // TUTTI_RECORD_SIGNAL
  std::string trace{};                               // TUTTI_TRACE: the same for traces
  bool statistics = false;                           // TUTTI_STATISTICS=1
  bool checks_buffers = false;                       // TUTTI_CHECK=buffers
  bool checks_threads = false;                       // TUTTI_CHECK=threads
  bool sums_in_switch = false;                       // TUTTI_NVLS=1
  bool meets = true;                                 // unless TUTTI_MEET=0; that of rank 0 counts
  // Why calls that name no algorithm are not left to the MPI's own collectives, which a rank cannot leave when another dies; empty:
  // they may be. TUTTI_NATIVE
  std::string_view avoids_native{};

  bool finds_every_thread() const { return checks_threads || log == log_level::debug; }
  bool observes() const { return log == log_level::debug || !trace.empty() || statistics; }

  // `timeout`: of TUTTI_TIMEOUT, if the caller has read it already, else 0.
  [[gnu::cold]] static settings from_environment(std::chrono::nanoseconds timeout = {});
  // Takes the time of TUTTI_TIMEOUT, if that is set, and returns whether it is one.
  [[gnu::cold]] static bool read_timeout(std::chrono::nanoseconds& to);

 private:
  static void expect_writable(char const* name, std::string const& prefix);
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/settings_impl.hpp"
#endif
