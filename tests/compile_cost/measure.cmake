# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles SOURCE as a user would and prints the better time of two and the size of the program. It asserts neither: a
# time belongs to a machine.
set(best 0)
foreach(run RANGE 1 2)
  string(TIMESTAMP begin "%s%f")  # microseconds
  execute_process(COMMAND ${COMPILER} -std=c++20 -O2 -pthread -I${INCLUDE} ${SOURCE} -o ${PROGRAM}
    COMMAND_ERROR_IS_FATAL ANY)
  string(TIMESTAMP end "%s%f")
  math(EXPR took "(${end} - ${begin}) / 1000")
  if(best EQUAL 0 OR took LESS best)
    set(best ${took})
  endif()
endforeach()
execute_process(COMMAND ${STRIP} ${PROGRAM} COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${PROGRAM} bytes)
cmake_path(GET SOURCE FILENAME name)
message(NOTICE "compile cost: ${name} with -O2: ${best} ms, ${bytes} bytes stripped")
