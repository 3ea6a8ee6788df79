// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions that initialise and finalize MPI.
#include <cstdio>
#include <mpi.h>
#include <string_view>

#include "binding.hpp"
#include "callers.hpp"
#include "loaded_mpis.hpp"
#include "statistics.hpp"
#include "tutti/core/environment.hpp"

namespace {

bool has_started = false;

int note_start(int code) {
  if (code != MPI_SUCCESS) return code;
  has_started = true;
  interpose::start();
  return code;
}

// As the MPI's launcher numbers the processes: it may not know this one by now.
bool is_first_process() {
  for (char const* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (std::string_view const rank = tutti::detail::environment_variable(name); !rank.empty()) return rank == "0";
  return true;
}

// Where statistics are wanted, and MPI was started, but not by a function of this library.
struct last_words {
  ~last_words() {
    if (!interpose::counted.wanted() || has_started || !is_first_process()) return;
    int by_mpi_init = 0;
    PMPI_Initialized(&by_mpi_init);
    if (by_mpi_init != 0)
      std::fputs(
          "tutti: this program did not call MPI_Init through libtutti-mpi.so; programs that look its functions up in a "
          "handle, by dlsym, do not see the library\n",
          stderr);
    else if (interpose::counted.any())
      std::fputs(
          "tutti: this program did not call MPI_Init, so its collectives were the MPI's; communicators of MPI sessions "
          "are not served without it\n",
          stderr);
  }
} const at_exit;

}  // namespace

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  interpose::expect_one_mpi();
  return note_start(PMPI_Init(argc, argv));
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  interpose::expect_one_mpi();
  return note_start(PMPI_Init_thread(argc, argv, required, provided));
}

int MPI_Finalize() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  interpose::stop();
  int const code = PMPI_Finalize();
  if (rank == 0 && interpose::counted.wanted()) std::fputs(interpose::counted.text().c_str(), stderr);
  return code;
}

INTERPOSE_ALL(Init, (int* argc, char*** argv), argc, argv)
INTERPOSE_ALL(Init_thread, (int* argc, char*** argv, int required, int* provided), argc, argv, required, provided)
INTERPOSE_ALL(Finalize, ())

}  // extern "C"
