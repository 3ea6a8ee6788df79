# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake "-DCOMPILE=command;argument..." -DSOURCE=... -P refuse.cmake: fails unless SOURCE compiles with TUTTI_CONTROL and,
# without it, is refused with the message that its head expects.
file(STRINGS ${SOURCE} expected REGEX "^// expect: " LIMIT_COUNT 1)
string(REGEX REPLACE "^// expect: *" "" expected "${expected}")
if(expected STREQUAL "")
  message(FATAL_ERROR "${SOURCE} has no line `// expect: ...`")
endif()

execute_process(COMMAND ${COMPILE} ${SOURCE} -DTUTTI_CONTROL RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the control does not compile:\n${said}")
endif()

execute_process(COMMAND ${COMPILE} ${SOURCE} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(result EQUAL 0)
  message(FATAL_ERROR "it compiles; it should be refused with: ${expected}")
endif()
string(FIND "${said}" "${expected}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "it is refused, but not with: ${expected}\n${said}")
endif()
