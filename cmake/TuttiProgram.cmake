# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# tutti_program: one of the project's own executables. It links the packages whose headers its sources include.

# CMake 3.31 and later warn wherever an option that tests pass on has no value, such as `TIMEOUT ${timeout}`, unless they are told which
# of two meanings that has. Both are right here.
if(POLICY CMP0174)
  cmake_policy(SET CMP0174 NEW)
endif()

# The warnings for our own code; consumers of tutti::tutti get none of them.
add_library(tutti_warnings INTERFACE)
target_compile_options(tutti_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
  $<$<BOOL:${TUTTI_WERROR}>:-Werror>)

set(TUTTI_PROGRAM_FLAGS "" CACHE STRING "Compiler flags of tools and examples, where they are only tested")
set(TUTTI_COMPUTING_FLAGS "" CACHE STRING "Further compiler flags of tests and examples with the label `computes`, and of usual.cpp")
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/usual.cpp PROPERTIES COMPILE_OPTIONS "${TUTTI_COMPUTING_FLAGS}")

# What makes building faster. g++ compiles unoptimised code in a tenth less time if it collects its garbage only beyond a gigabyte;
# clang for AddressSanitizer in a quarter less if it need not let the program choose whether to look for returned stack frames. gold
# links in half the time, and lld in a sixth.
set(TUTTI_PRECOMPILE OFF)
if(TUTTI_TEST_TOGETHER)
  # Compiler caches prefer to see the headers.
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(TUTTI_PRECOMPILE ON)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(tutti_warnings INTERFACE --param=ggc-min-heapsize=1000000)
  elseif(CMAKE_CXX_FLAGS MATCHES "-fsanitize=address")
    target_compile_options(tutti_warnings INTERFACE -fsanitize-address-use-after-return=always)
  endif()
  string(REGEX MATCH "^[0-9]+" version ${CMAKE_CXX_COMPILER_VERSION})
  find_program(TUTTI_GOLD ld.gold)
  find_program(TUTTI_LLD ld.lld-${version})
  if(TUTTI_LLD AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
    string(APPEND CMAKE_EXE_LINKER_FLAGS " -fuse-ld=lld")
  elseif(TUTTI_GOLD AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # it warns of each function of clang's sanitizers
    string(APPEND CMAKE_EXE_LINKER_FLAGS " -fuse-ld=gold")  # in libraries, it would export more than their version scripts say
  endif()
endif()

# One line per package: the pattern of its includes, its name, the target to link, and the Debian package.
set(TUTTI_PACKAGES
  "CLI/                  CLI11          CLI11::CLI11                   libcli11-dev"
  "cereal/               cereal         cereal::cereal                 libcereal-dev"
  "Eigen/                Eigen3         Eigen3::Eigen                  libeigen3-dev"
  "doctest/              doctest        doctest::doctest               doctest-dev"
  "fmt/                  fmt            fmt::fmt                       libfmt-dev"
  "mpi\\.h               MPI            MPI::MPI_CXX                   libopenmpi-dev"
  "nlohmann/             nlohmann_json  nlohmann_json::nlohmann_json   nlohmann-json3-dev"
  "zlib\\.h              ZLIB           ZLIB::ZLIB                     zlib1g-dev")

include(${CMAKE_CURRENT_LIST_DIR}/TuttiHeadLines.cmake)

# The #include lines of a source file and of the local headers that it includes.
function(tutti_includes result source)
  file(STRINGS ${source} lines REGEX "^#include [<\"]")
  cmake_path(GET source PARENT_PATH folder)
  foreach(line IN LISTS lines)
    string(REGEX MATCH "\"(.*)\"" quoted "${line}")
    foreach(header ${folder}/${CMAKE_MATCH_1} ${PROJECT_SOURCE_DIR}/tests/${CMAKE_MATCH_1})
      if(quoted AND EXISTS ${header})
        tutti_includes(nested ${header})
        list(APPEND lines ${nested})
      endif()
    endforeach()
  endforeach()
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

# tutti_program(target source... [HEADER_ONLY]): an executable, or further sources of one, that links tutti::compiled,
# or compiles all of tutti itself. If a package is missing, it prints which one and creates no target, so test for the
# target's existence before using it.
function(tutti_program target)
  cmake_parse_arguments(PARSE_ARGV 1 program "HEADER_ONLY" "" "")
  set(library tutti::compiled)
  if(program_HEADER_ONLY)
    set(library tutti::tutti)
  endif()
  foreach(source IN LISTS program_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH source)
    tutti_includes(found ${source})
    list(APPEND includes ${found})
    # A changed include may need another package.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  endforeach()
  foreach(row IN LISTS TUTTI_PACKAGES)
    string(REGEX REPLACE " +" ";" row "${row}")
    list(POP_FRONT row pattern package imported debian)
    if(NOT includes MATCHES "#include <${pattern}")
      continue()
    endif()
    if(NOT TARGET ${imported})
      find_package(${package} QUIET)
    endif()
    if(NOT TARGET ${imported})
      cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
      list(TRANSFORM program_UNPARSED_ARGUMENTS REPLACE ".*/" "" OUTPUT_VARIABLE names)
      list(JOIN names ", " names)
      set(sentence "tutti: ${folder}: ${names} needs ${package}, which was not found (Debian: ${debian})")
      if(TUTTI_REQUIRE_PACKAGES)
        message(SEND_ERROR "${sentence}")
      endif()
      message(STATUS "${sentence}; it is left out")
      return()
    endif()
    list(APPEND libraries ${imported})
  endforeach()
  if(NOT TARGET ${target})
    add_executable(${target})
  endif()
  target_sources(${target} PRIVATE ${program_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE ${library} tutti_warnings ${libraries})
endfunction()

# tutti_precompile(target LIBRARIES library... HEADERS header...): the target, which links these libraries, reads these headers from a
# file that is compiled once for all targets with the same flags, if TUTTI_PRECOMPILE is on. To be called when the flags are known.
function(tutti_precompile target)
  cmake_parse_arguments(PARSE_ARGV 1 shared "" "" "LIBRARIES;HEADERS")
  get_target_property(reused ${target} PRECOMPILE_HEADERS_REUSE_FROM)
  if(NOT TUTTI_PRECOMPILE OR reused)
    return()
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  if(NOT options)
    set(options "")
  endif()
  string(MD5 key "${options} ${shared_LIBRARIES} ${shared_HEADERS}")
  set(precompiled tutti_precompiled_${key})
  if(NOT TARGET ${precompiled})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "\n")
    add_library(${precompiled} OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
    set_target_properties(${precompiled} PROPERTIES COMPILE_OPTIONS "${options}")
    target_link_libraries(${precompiled} PRIVATE ${shared_LIBRARIES} tutti_warnings)
    target_precompile_headers(${precompiled} PRIVATE ${shared_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# tutti_run(test target [argument...] [TIMEOUT seconds] [LABELS label...] [LAUNCHER command...]): the ctest that runs a
# target. TIMEOUT is the time that it may take on an otherwise idle machine, by default 120 seconds. It is killed after
# four times that; the program learns the limit, ten seconds shorter, from TUTTI_TEST_SECONDS. The launcher and
# TUTTI_TEST_LAUNCHER precede the command, and tuning tables of the user are ignored.
#
# ctest -j and the property PROCESSORS count in half processors, so tools/test passes twice the number of processors. A test
# with the label waits mostly sleeps, and needs half of one. Polling ranks take the cores from another test, and both then
# take four times as long, so other tests with a launcher or one of the labels threads and processes need one and a half: on
# two processors, one of them runs beside one that sleeps.
#
# The target tests.<first label> builds what the tests with that label need, so that they can run while others are built.
function(tutti_run test target)
  cmake_parse_arguments(PARSE_ARGV 2 run "" "TIMEOUT" "LABELS;LAUNCHER")
  if(NOT run_TIMEOUT)
    set(run_TIMEOUT 120)
  endif()
  math(EXPR run_TIMEOUT "4 * ${run_TIMEOUT}")
  math(EXPR seconds "${run_TIMEOUT} - 10")
  add_test(NAME ${test}
    COMMAND ${run_LAUNCHER} ${TUTTI_TEST_LAUNCHER} $<TARGET_FILE:${target}> ${run_UNPARSED_ARGUMENTS})
  set_tests_properties(${test} PROPERTIES TIMEOUT ${run_TIMEOUT} LABELS "${run_LABELS}"
    ENVIRONMENT "TUTTI_TEST_SECONDS=${seconds};TUTTI_TUNING=")
  set(halves 2)
  if(waits IN_LIST run_LABELS)
    set(halves 1)
  elseif(run_LAUNCHER OR run_LABELS MATCHES "threads|processes")
    set(halves 3)
  endif()
  set_tests_properties(${test} PROPERTIES PROCESSORS ${halves})
  if(run_LABELS)
    list(GET run_LABELS 0 area)
    if(NOT TARGET tests.${area})
      add_custom_target(tests.${area})
    endif()
    add_dependencies(tests.${area} ${target})
  endif()
endfunction()
