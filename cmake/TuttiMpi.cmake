# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds for several MPIs side by side, with the flags that their compiler wrappers print: FindMPI finds only one MPI per build.
include(CheckCXXSourceCompiles)
set(TUTTI_MPIS openmpi mpich CACHE STRING "The MPIs that tests and benchmarks are built for")
option(TUTTI_TOOLS_OVER_MPI "Build tools over MPI" ON)
option(TUTTI_INTERPOSE "Build libtutti-mpi.so" ON)
foreach(kind IN LISTS TUTTI_MPIS)
  find_program(TUTTI_MPIRUN_${kind} mpirun.${kind})
endforeach()

# tutti_find_mpi(kind who): creates the target tutti_<kind> of an MPI, or prints a line that the folder `who` has to do without.
function(tutti_find_mpi kind who)
  if(TARGET tutti_${kind})
    return()
  endif()
  find_program(TUTTI_MPICXX_${kind} mpicxx.${kind})
  if(NOT TUTTI_MPICXX_${kind})
    message(STATUS "tutti: ${who}: mpicxx.${kind} was not found (Debian: lib${kind}-dev); programs that need it are left out")
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
  # tutti uses the fault tolerance of Open MPI 5. MPICH 4.0 has the calls too, but they end the job.
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_REQUIRED_LIBRARIES tutti_${kind})
  check_cxx_source_compiles("
    #include <mpi.h>
    #include <mpi-ext.h>
    static_assert(OMPI_HAVE_MPI_EXT_FTMPI);
    int main() { return MPIX_Comm_revoke(MPI_COMM_WORLD); }" TUTTI_ULFM_${kind})
  # Only the launcher of Open MPI 4 lets the other ranks continue when one has died.
  execute_process(COMMAND ${TUTTI_MPIRUN_${kind}} --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX MATCH "Open(RTE| MPI)\\) 4\\." recovers "${version}")
  set(TUTTI_RECOVERY_${kind} "${recovers}" CACHE INTERNAL "")
endfunction()

# Allows ranks to run as root and in excess of the cores (PRTE is the launcher of Open MPI 5), and ignores leaks of the MPIs.
set(TUTTI_MPI_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  OMPI_MCA_mpi_yield_when_idle=1)

# tutti_yield_in_waits(target kind): links a test with what makes ranks of MPICH leave the cores to others while they wait.
function(tutti_yield_in_waits target kind)
  if(NOT kind STREQUAL mpich)
    return()
  endif()
  if(NOT TARGET tutti_mpich_yields)
    add_library(tutti_mpich_yields OBJECT ${PROJECT_SOURCE_DIR}/tests/support/mpich_yields.cpp)
    target_compile_features(tutti_mpich_yields PRIVATE cxx_std_20)
    target_link_libraries(tutti_mpich_yields PRIVATE tutti_warnings)
  endif()
  target_link_libraries(${target} PRIVATE tutti_mpich_yields ${CMAKE_DL_LIBS})
endfunction()

# tutti_mpi_run(test kind ranks target ...): adds a test that runs a target under the launcher TUTTI_MPIRUN_<kind>; further arguments
# as for tutti_run. `ULFM` enables fault tolerance, and may name a script that starts the launcher. `RECOVERY` names a script that starts
# the launcher such that it continues when a rank has died. `KILLS` names a script that chooses the launcher's options itself; it ends with
# 77 if there are none.
function(tutti_mpi_run test kind ranks target)
  cmake_parse_arguments(PARSE_ARGV 4 run "" "ULFM;RECOVERY;KILLS" "")
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
  if(run_KILLS)
    list(PREPEND launcher ${run_KILLS} ${ranks})
  endif()
  if(with)
    # Otherwise MPI_Finalize of Open MPI 4.1.4 and 5.0.7 hangs in one of ten jobs whose ranks were killed, also without tutti.
    list(APPEND with OMPI_MCA_async_mpi_finalize=1)
  endif()
  tutti_run(${test} ${target} ${run_UNPARSED_ARGUMENTS} LAUNCHER ${launcher} -n ${ranks})
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT TUTTI_TIMEOUT=20 ${TUTTI_MPI_ENVIRONMENT} ${with})
  if(run_KILLS)
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()
