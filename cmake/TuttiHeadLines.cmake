# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The lines `// key: value` at the head of a source, which CONTRIBUTING.md describes.
set(TUTTI_LABELS alike alone computes memory native once optimised processes threads twin unsanitized waits wide)

# tutti_head_line(result source key [example]): the value of the line `// key: value`. If there is none, it is empty; with an example of a
# value, that is an error.
function(tutti_head_line result source key)
  file(STRINGS ${source} lines REGEX "^// ${key}: " LIMIT_COUNT 1)
  string(REGEX REPLACE "^// ${key}: *" "" value "${lines}")
  if(ARGC GREATER 3 AND value STREQUAL "")
    message(SEND_ERROR "tutti: ${source} needs a line `// ${key}: ${ARGV3}`")
  endif()
  set(${result} "${value}" PARENT_SCOPE)
endfunction()

# tutti_labels(result source): the list in the line `// labels:`.
function(tutti_labels result source)
  tutti_head_line(labels ${source} labels)
  separate_arguments(labels)
  foreach(label IN LISTS labels)
    if(NOT label IN_LIST TUTTI_LABELS)
      list(JOIN TUTTI_LABELS ", " known)
      message(SEND_ERROR "tutti: ${source} has the label ${label}; the labels are ${known}")
    endif()
  endforeach()
  set(${result} "${labels}" PARENT_SCOPE)
endfunction()
