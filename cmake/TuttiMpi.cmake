# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The MPIs that stand side by side, by the flags that their compiler wrappers print: FindMPI knows one MPI a build.
include(CheckCXXSourceCompiles)
set(TUTTI_MPIS openmpi mpich CACHE STRING "The MPIs that tests and benchmarks are built for")
foreach(kind IN LISTS TUTTI_MPIS)
  find_program(TUTTI_MPIRUN_${kind} mpirun.${kind})
endforeach()

# tutti_find_mpi(kind who): the target tutti_<kind> of an MPI, or a line that says who is left without.
function(tutti_find_mpi kind who)
  if(TARGET tutti_${kind})
    return()
  endif()
  find_program(TUTTI_MPICXX_${kind} mpicxx.${kind})
  if(NOT TUTTI_MPICXX_${kind})
    message(STATUS "tutti: ${who}: there is no mpicxx.${kind} (Debian: lib${kind}-dev); what needs it is left out")
    return()
  endif()
  execute_process(COMMAND ${TUTTI_MPICXX_${kind}} -show OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(includes ${flags})
  list(FILTER includes INCLUDE REGEX "^-I")
  list(TRANSFORM includes REPLACE "^-I" "")
  list(FILTER flags INCLUDE REGEX "^-[Ll]")
  add_library(tutti_${kind} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(tutti_${kind} INTERFACE ${flags})
  target_include_directories(tutti_${kind} SYSTEM INTERFACE ${includes})
  target_compile_definitions(tutti_${kind} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  # Fault tolerance that tutti uses: that of Open MPI 5. MPICH 4.0 has the calls, and ends the job in them.
  set(CMAKE_REQUIRED_LIBRARIES tutti_${kind})
  check_cxx_source_compiles("
    #include <mpi.h>
    #include <mpi-ext.h>
    static_assert(OMPI_HAVE_MPI_EXT_FTMPI);
    int main() { return MPIX_Comm_revoke(MPI_COMM_WORLD); }" TUTTI_ULFM_${kind})
  # A launcher that lets ranks go on when one has died: that of Open MPI 4. The others end them, or themselves.
  execute_process(COMMAND ${TUTTI_MPIRUN_${kind}} --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX MATCH "Open(RTE| MPI)\\) 4\\." recovers "${version}")
  set(TUTTI_RECOVERY_${kind} "${recovers}" CACHE INTERNAL "")
endfunction()

# As root, and with more ranks than cores (PRTE is the launcher of Open MPI 5). The MPIs' own leaks are not ours.
set(TUTTI_MPI_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  OMPI_MCA_mpi_yield_when_idle=1)

# tutti_mpi_run(test kind ranks target ...): the ctest that runs a target under the launcher TUTTI_MPIRUN_<kind>; the rest
# as for tutti_run. `ULFM` runs it with fault tolerance, by the launcher itself or by a script that starts it; `RECOVERY`
# by a script, under a launcher that goes on when a rank has died.
function(tutti_mpi_run test kind ranks target)
  cmake_parse_arguments(PARSE_ARGV 4 run "" "ULFM;RECOVERY" "")
  set(launcher ${TUTTI_MPIRUN_${kind}})
  if(run_ULFM)
    list(APPEND launcher --with-ft ulfm)
    set(with TUTTI_TEST_ULFM=1)
  endif()
  if(EXISTS "${run_ULFM}")
    list(PREPEND launcher ${run_ULFM} ${ranks})
  endif()
  if(run_RECOVERY)
    list(APPEND launcher --enable-recovery)
    list(PREPEND launcher ${run_RECOVERY} ${ranks})
    set(with TUTTI_TEST_RECOVERY=1)
  endif()
  if(with)
    # MPI_Finalize of Open MPI 4.1.4 and 5.0.7 otherwise waits for ever in one job of ten whose ranks were killed, without tutti
    # too.
    list(APPEND with OMPI_MCA_async_mpi_finalize=1)
  endif()
  tutti_run(${test} ${target} ${run_UNPARSED_ARGUMENTS} LAUNCHER ${launcher} -n ${ranks})
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT TUTTI_TIMEOUT=20 ${TUTTI_MPI_ENVIRONMENT} ${with})
endfunction()
