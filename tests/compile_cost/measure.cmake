# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compiles SOURCE as a user would and prints what processor time that takes and the size of the program. It asserts
# neither: a time belongs to a machine.
execute_process(COMMAND sh -c "\"$@\" && times" sh ${COMPILER} -std=c++20 -O2 -pthread -I${INCLUDE} ${SOURCE} -o ${PROGRAM}
  OUTPUT_VARIABLE times COMMAND_ERROR_IS_FATAL ANY)
# The second line of `times` is of the children: in their own code and in the system's, as 0m7.250000s.
if(NOT times MATCHES "\n([0-9]+)m([0-9]+)[.,]([0-9])[0-9]*s")
  message(FATAL_ERROR "not understood: ${times}")
endif()
math(EXPR seconds "60 * ${CMAKE_MATCH_1} + ${CMAKE_MATCH_2}")
set(seconds ${seconds}.${CMAKE_MATCH_3})
execute_process(COMMAND ${STRIP} ${PROGRAM} COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${PROGRAM} bytes)
cmake_path(GET SOURCE FILENAME name)
message(NOTICE "compile cost: ${name} with -O2: ${seconds} s, ${bytes} bytes stripped")
