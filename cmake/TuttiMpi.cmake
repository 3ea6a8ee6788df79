# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The MPIs that stand side by side, by the flags that their compiler wrappers print: FindMPI knows one MPI a build.
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
endfunction()

# As root, and with more ranks than cores. The MPIs' own leaks are not ours.
set(TUTTI_MPI_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1)

# tutti_mpi_run(test kind ranks target ...): the ctest that runs a target under the launcher TUTTI_MPIRUN_<kind>; the rest
# as for tutti_run.
function(tutti_mpi_run test kind ranks target)
  tutti_run(${test} ${target} ${ARGN} LAUNCHER ${TUTTI_MPIRUN_${kind}} -n ${ranks})
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT TUTTI_TIMEOUT=20 ${TUTTI_MPI_ENVIRONMENT})
  set_tests_properties(${test} PROPERTIES PROCESSORS 2)
endfunction()
