# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Reads the lines at the head of a source, and says what is wrong with them.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/TuttiHeadLines.cmake)

file(WRITE head_lines.cpp "// A test.\n// labels: thread\n")
tutti_head_line(ranks head_lines.cpp ranks 4)
tutti_labels(labels head_lines.cpp)

file(WRITE head_lines.cpp "// A test.\n// labels: processes waits\n// timeout: 90\n")
tutti_labels(labels head_lines.cpp)
tutti_head_line(timeout head_lines.cpp timeout 120)
tutti_head_line(ranks head_lines.cpp ranks)
message("it read ${labels}, ${timeout} and nothing${ranks}")
