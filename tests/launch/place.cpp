// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// find_place: the environment variables that each launcher sets.
#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/launch/place.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

using variables = std::vector<std::pair<char const*, char const*>>;

// An environment with these variables and no others.
struct environment_of_launcher {
  explicit environment_of_launcher(variables const& set) {
    ::clearenv();
    for (auto const& [name, value] : set) ::setenv(name, value, 1);
  }
};

std::string refusal(variables const& set) {
  environment_of_launcher const e(set);
  try {
    find_place();
  } catch (error const& why) {
    CHECK(why.code() == error_code::bad_argument);
    return why.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every launcher is found") {
  struct stat numbers{};
  REQUIRE(::stat("/proc/self/ns/pid", &numbers) == 0);
  std::string const parent = std::to_string(::getppid()) + "-" + std::to_string(numbers.st_ino);
  struct {
    variables set;
    place expected;
  } const cases[] = {
      {{}, {0, 1, 1, "", ""}},
      {{{"TUTTI_RANK", "2"}, {"TUTTI_SIZE", "4"}, {"TUTTI_JOB", "ab"}}, {2, 4, 4, "tutti-run", "4-ab"}},
      {{{"TUTTI_RANK", "2"}, {"TUTTI_SIZE", "4"}}, {2, 4, 4, "tutti-run", "4-" + parent}},
      {{{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "8"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
        {"PMIX_NAMESPACE", "77"},
        {"OMPI_MCA_ess_base_jobid", "77"},
        {"PMIX_SERVER_URI2", "76.0;tcp4://127.0.0.1:49033"}},
       {1, 8, 4, "mpirun (Open MPI)", "8-77-77-76.0;tcp4://127.0.0.1:49033"}},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}}, {0, 2, 2, "mpirun (MPICH)", "2-" + parent}},
      // srun --mpi=pmi2
      {{{"PMI_RANK", "3"},
        {"PMI_SIZE", "8"},
        {"SLURM_PROCID", "3"},
        {"SLURM_STEP_NUM_TASKS", "8"},
        {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}},
       {3, 8, 4, "mpirun (MPICH)", "8-" + parent}},
      {{{"SLURM_PROCID", "3"},
        {"SLURM_STEP_NUM_TASKS", "4"},
        {"SLURM_STEP_TASKS_PER_NODE", "4"},
        {"SLURM_JOB_ID", "9"},
        {"SLURM_STEP_ID", "1"}},
       {3, 4, 4, "srun", "4-9-1"}},
      {{{"SLURM_PROCID", "3"},
        {"SLURM_STEP_NUM_TASKS", "5"},
        {"SLURM_STEP_TASKS_PER_NODE", "3,2"},
        {"SLURM_JOB_ID", "9"},
        {"SLURM_STEP_ID", "1"}},
       {3, 5, 3, "srun", "5-9-1"}},
      // A batch script by itself: sbatch -n 4, and the program started without srun.
      {{{"SLURM_JOB_ID", "9"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_TASKS_PER_NODE", "4"}},
       {0, 1, 1, "", ""}},
      {{{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"TORCHELASTIC_RUN_ID", "none"},
        {"MASTER_PORT", "29500"}},
       {1, 2, 2, "torchrun", "2-none-29500"}},
      // A variable that many programs use means nothing by itself.
      {{{"RANK", "colonel"}}, {0, 1, 1, "", ""}},
      // The innermost launcher decides: torchrun within srun, tutti-run within any other.
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}},
       {1, 2, 2, "torchrun", "2-1"}},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"TUTTI_RANK", "1"}, {"TUTTI_SIZE", "2"}, {"TUTTI_JOB", "x"}},
       {1, 2, 2, "tutti-run", "2-x"}}};
  for (auto const& one : cases) {
    environment_of_launcher const e(one.set);
    place const found = find_place();
    CAPTURE(one.expected.launcher);
    CHECK(found.rank == one.expected.rank);
    CHECK(found.size == one.expected.size);
    CHECK(found.local_size == one.expected.local_size);
    CHECK(found.launcher == one.expected.launcher);
    CHECK(found.job == one.expected.job);
  }
}

TEST_CASE("an environment that contradicts itself is refused") {
  struct {
    variables set;
    char const* sentence;
  } const cases[] = {
      {{{"TUTTI_RANK", "4"}, {"TUTTI_SIZE", "4"}}, "TUTTI_RANK=4 is not a rank of TUTTI_SIZE=4"},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "0"}}, "TUTTI_RANK=0 is not a rank of TUTTI_SIZE=0"},
      {{{"TUTTI_RANK", "-1"}, {"TUTTI_SIZE", "4"}}, "TUTTI_RANK=\"-1\" is not a number from 0 to 2^30"},
      {{{"TUTTI_RANK", "one"}, {"TUTTI_SIZE", "4"}}, "TUTTI_RANK=\"one\" is not a number from 0 to 2^30"},
      {{{"TUTTI_RANK", "1"}}, "TUTTI_RANK is set and TUTTI_SIZE is not"},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}}, "OMPI_COMM_WORLD_SIZE is set and OMPI_COMM_WORLD_RANK is not"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}},
       "OMPI_COMM_WORLD_LOCAL_SIZE=\"3\" does not fit OMPI_COMM_WORLD_SIZE=2"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "many"}},
       "MPI_LOCALNRANKS=\"many\" does not fit PMI_SIZE=2"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "4294967298"}},
       "LOCAL_WORLD_SIZE=\"4294967298\" does not fit WORLD_SIZE=4"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2 or 3"}},
       "LOCAL_WORLD_SIZE=\"2 or 3\" does not fit WORLD_SIZE=4"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2 is not a rank of WORLD_SIZE=2"}};
  for (auto const& one : cases) {
    std::string const said = refusal(one.set);
    CAPTURE(said);
    CHECK(said.find(one.sentence) != said.npos);
  }
}
