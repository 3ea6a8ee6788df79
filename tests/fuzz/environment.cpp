// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Variables of the environment, a line NAME=value for each: they are refused with a sentence, or mean something possible.
// runs: 40000
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "fuzz/input.hpp"
#include "tutti/core/error.hpp"
#include "tutti/fault/settings.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/launch/measure_links.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/training/elastic/elastic_options.hpp"
#include "tutti/transport/shared_memory/segment_file.hpp"
#include "tutti/transport/system/call_watchdog.hpp"
#include "tutti/tune/find.hpp"

namespace {

constexpr char const* variables[] = {"TUTTI_TIMEOUT",
                                     "TUTTI_ALGORITHM",
                                     "TUTTI_LOG",
                                     "TUTTI_RECORD",
                                     "TUTTI_RECORD_SIGNAL",
                                     "TUTTI_TRACE",
                                     "TUTTI_STATISTICS",
                                     "TUTTI_CHECK",
                                     "TUTTI_MEET",
                                     "TUTTI_NATIVE",
                                     "TUTTI_NVLS",
                                     "TUTTI_ELASTIC",
                                     "TUTTI_ELASTIC_JOIN",
                                     "TUTTI_HEAP",
                                     "TUTTI_TOPOLOGY",
                                     "TUTTI_TUNING",
                                     "TUTTI_WATCHDOG",
                                     "TUTTI_SURVIVAL",
                                     "TUTTI_RANK",
                                     "TUTTI_SIZE",
                                     "TUTTI_JOB",
                                     "OMPI_COMM_WORLD_RANK",
                                     "OMPI_COMM_WORLD_SIZE",
                                     "OMPI_COMM_WORLD_LOCAL_SIZE",
                                     "PMIX_NAMESPACE",
                                     "PMIX_SERVER_URI2",
                                     "PMI_RANK",
                                     "PMI_SIZE",
                                     "PMI_FD",
                                     "MPI_LOCALNRANKS",
                                     "RANK",
                                     "WORLD_SIZE",
                                     "LOCAL_WORLD_SIZE",
                                     "SLURM_PROCID",
                                     "SLURM_STEP_NUM_TASKS",
                                     "SLURM_STEP_TASKS_PER_NODE",
                                     "SLURM_JOB_ID",
                                     "SLURM_STEP_ID",
                                     "OMPI_MCA_ess_base_jobid",
                                     "OMPI_MCA_orte_enable_recovery",
                                     "TORCHELASTIC_RUN_ID",
                                     "MASTER_PORT"};

void set_variables(std::string const& text) {
  for (char const* const name : variables) ::unsetenv(name);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    for (std::string_view const name : variables)
      if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == '=')
        ::setenv(std::string(name).c_str(), line.c_str() + name.size() + 1, 1);
}

template <class Read>
void expect_refusal_or(Read&& read) {
  try {
    read();
  } catch (tutti::error const& e) {
    require(e.code() == tutti::error_code::bad_argument && !e.way_out().empty());
  }
}

}  // namespace

void take(std::string const& text) {
  set_variables(text);
  expect_refusal_or([] { require(tutti::detail::settings::from_environment().timeout.count() > 0); });
  expect_refusal_or([] {
    tutti::place const at = tutti::find_place();
    require(0 <= at.rank && at.rank < at.size && 1 <= at.local_size && at.local_size <= at.size);
  });
  expect_refusal_or([] { require(tutti::detail::heap_bytes(4, 1 << 30) <= tutti::detail::half_of_all_addresses); });
  expect_refusal_or([] { tutti::detail::wants_link_times(); });
  expect_refusal_or([] { tutti::detail::wants_watchdog(); });
  expect_refusal_or([] { tutti::detail::find_tuning_file(false); });
  tutti::detail::report_join(0);  // to a pipe that this process does not have
  expect_refusal_or([] {
    auto const job = tutti::detail::elastic_job::from_environment();
    require(-1 <= job.joins_as && 0 <= job.min_ranks && job.min_ranks <= job.max_ranks);
  });
}
