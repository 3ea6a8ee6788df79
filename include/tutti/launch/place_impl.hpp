// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/place.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include "tutti/core/environment.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/launch/place.hpp"

namespace tutti {

namespace detail {

[[noreturn]] TUTTI_INLINE void refuse_place(std::initializer_list<text_part> what) {
  throw error({.code = error_code::bad_argument,
               .what = join(what),
               .way_out = "start the program with a launcher, or unset the launcher's variables to run alone"});
}

TUTTI_INLINE std::optional<int> environment_number(char const* name) {
  std::string_view const text = environment_variable(name);
  if (text.empty()) return {};
  std::uint64_t value = 0;
  if (read_number(text, 1 << 30, value) != text.size())
    refuse_place({name, "=\"", text, "\" is not a number from 0 to 2^30"});
  return static_cast<int>(value);
}

struct launcher {
  char const* name;
  char const* rank;
  char const* size;
  char const* local_size[2];
  char const* job[3];
  bool own_names;  // nobody else sets these variables, so setting only one of rank and size is a mistake
};

// Asked in this order, the innermost launcher first. Slurm sets SLURM_PROCID in batch scripts as well, where this
// process is alone; only srun sets SLURM_STEP_NUM_TASKS. With --mpi=pmi2, srun sets PMI_RANK and PMI_SIZE too.
inline constexpr launcher launchers[] = {
    {"tutti-run", "TUTTI_RANK", "TUTTI_SIZE", {"TUTTI_SIZE"}, {"TUTTI_JOB"}, true},
    {"mpirun (Open MPI)",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     {"OMPI_COMM_WORLD_LOCAL_SIZE"},
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMIX_SERVER_URI2"},
     true},
    {"mpirun (MPICH)", "PMI_RANK", "PMI_SIZE", {"MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"}, {}, true},
    {"torchrun", "RANK", "WORLD_SIZE", {"LOCAL_WORLD_SIZE"}, {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}, false},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     {"SLURM_STEP_TASKS_PER_NODE"},
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     false},
};

// The process that started all ranks of this machine, for launchers that give the job no name, and the namespace of its
// number: containers on the network of their host may have processes of equal numbers. MPICH's launcher leaves
// each rank one end of a socket pair, whose peer credentials name it even through a script in between.
TUTTI_INLINE std::string starter() {
  ucred who{};
  socklen_t bytes = sizeof who;
  auto const connection = environment_number("PMI_FD");
  bool const known = connection && ::getsockopt(*connection, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.pid > 0;
  return join({known ? who.pid : ::getppid(), "-", process_namespace()});
}

}  // namespace detail

TUTTI_INLINE place find_place() {
  for (detail::launcher const& l : detail::launchers) {
    bool const has_rank = !detail::environment_variable(l.rank).empty(),
               has_size = !detail::environment_variable(l.size).empty();
    if (l.own_names && has_rank != has_size)
      detail::refuse_place({has_rank ? l.rank : l.size, " is set and ", has_rank ? l.size : l.rank, " is not"});
    if (!has_rank || !has_size) continue;
    place out{*detail::environment_number(l.rank), *detail::environment_number(l.size), 1, l.name, ""};
    if (out.size < 1 || out.rank >= out.size)
      detail::refuse_place({l.rank, "=", out.rank, " is not a rank of ", l.size, "=", out.size});
    out.local_size = out.size;
    for (char const* const variable : l.local_size) {
      if (variable == nullptr || detail::environment_variable(variable).empty()) continue;
      // "4" or, from srun, "4(x2)" for two machines of four ranks, "3,2" for three and two.
      std::string_view const text = detail::environment_variable(variable);
      std::uint64_t number = 0;
      std::size_t const digits = detail::read_number(text, static_cast<std::uint64_t>(out.size), number);
      bool const whole = digits == text.size() || text[digits] == '(' || text[digits] == ',';
      out.local_size = static_cast<int>(number);
      if (digits == 0 || !whole || number == 0)
        detail::refuse_place({variable, "=\"", text, "\" does not fit ", l.size, "=", out.size});
      break;
    }
    out.job = detail::join({out.size});
    bool named = false;
    for (char const* const variable : l.job) {
      if (variable == nullptr || detail::environment_variable(variable).empty()) continue;
      out.job.append("-").append(detail::environment_variable(variable));
      named = true;
    }
    if (!named) out.job.append("-").append(detail::starter());
    return out;
  }
  return {};
}

}  // namespace tutti
