// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which launcher started this process, and as what.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <unistd.h>

#include "tutti/core/error.hpp"

namespace tutti {

// A process among those of its job.
struct place {
  int rank = 0;
  int size = 1;
  int local_size = 1;    // how many of them on this machine
  std::string launcher;  // empty: alone
  std::string job;       // the same at all ranks of the job, on this machine at least
};

namespace detail {

inline std::optional<int> environment_number(char const* name) {
  char const* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return {};
  char* end = nullptr;
  long const value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 0 || value > 1 << 30)
    throw error({.code = error_code::bad_argument, .what = std::string(name) + "=\"" + text + "\" is not a number of ranks",
                 .way_out = "start the program by a launcher, or unset the variable to run alone"});
  return static_cast<int>(value);
}

inline std::string environment_text(char const* name) {
  char const* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

struct launcher {
  char const* name;
  char const* rank;
  char const* size;
  char const* local_size;
  char const* job[2];
};

// In the order in which they are asked: the innermost launcher first. Slurm sets SLURM_NTASKS in batch scripts as well,
// where this process is alone; SLURM_STEP_NUM_TASKS is srun's. MPICH's launcher has no job name in the environment; its
// ranks of one machine are children of one process, as those of the others are.
inline constexpr launcher launchers[] = {
    {"tutti-run", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_SIZE", {"TUTTI_JOB", nullptr}},
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"mpirun (MPICH)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {nullptr, nullptr}},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

}  // namespace detail

// What the environment says. Throws bad_argument where it contradicts itself.
inline place find_place() {
  for (detail::launcher const& l : detail::launchers) {
    auto const rank = detail::environment_number(l.rank), size = detail::environment_number(l.size);
    if (!rank || !size) continue;
    if (*size < 1 || *rank >= *size)
      throw error({.code = error_code::bad_argument,
                   .what = std::string(l.rank) + "=" + std::to_string(*rank) + " is not a rank of " + l.size + "=" + std::to_string(*size),
                   .way_out = "start the program by a launcher, or unset both to run alone"});
    place out{*rank, *size, 1, l.name, ""};
    // "4" or, from srun, "4(x2)" for two machines of four ranks, "3,2" for three and two.
    std::string const local = detail::environment_text(l.local_size);
    out.local_size = local.empty() ? *size : std::atoi(local.c_str());
    out.job = std::to_string(*size);
    bool named = false;
    for (char const* const variable : l.job) {
      if (variable == nullptr || detail::environment_text(variable).empty()) continue;
      out.job += "-" + detail::environment_text(variable);
      named = true;
    }
    if (!named) out.job += "-" + std::to_string(::getppid());
    return out;
  }
  return {};
}

}  // namespace tutti
