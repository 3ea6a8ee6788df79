# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Programs for hosts that SimGrid simulates. They are shared libraries, because SimGrid loads a copy for each rank.
find_program(TUTTI_SMPIRUN smpirun)
find_path(TUTTI_SMPI_INCLUDE smpi/mpi.h)
find_library(TUTTI_SIMGRID simgrid)

# tutti_smpirun(result ranks [platform]): the command that runs one on that many hosts. Simulated times are those of the network alone, without
# correction factors or compute time.
function(tutti_smpirun result ranks)
  set(platform fat_tree)
  if(ARGC GREATER 2)
    set(platform ${ARGV2})
  endif()
  set(${result} ${TUTTI_SMPIRUN} -np ${ranks} -platform ${PROJECT_SOURCE_DIR}/tests/simgrid/${platform}.xml
    --cfg=network/model:CM02 --cfg=network/crosstraffic:0 --cfg=smpi/simulate-computation:no --cfg=smpi/test:0
    --cfg=smpi/send-is-detached-thresh:0 --log=root.thresh:warning PARENT_SCOPE)
endfunction()

function(tutti_simulated_program target source)
  add_library(${target} MODULE ${source})
  set_target_properties(${target} PROPERTIES PREFIX "")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_include_directories(${target} SYSTEM PRIVATE ${TUTTI_SMPI_INCLUDE} ${TUTTI_SMPI_INCLUDE}/smpi)
  # All ranks would share a unique symbol.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_link_libraries(${target} PRIVATE tutti::tutti tutti_warnings ${TUTTI_SIMGRID})
endfunction()
