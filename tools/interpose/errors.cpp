// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti's messages name types of the interposer, which the program has never heard of.
#include "errors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "operations.hpp"
#include "tutti/core/text.hpp"

namespace interpose {
namespace {

using tutti::detail::join;

void replace_all(std::string& text, std::string_view old, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(old, at)) != text.npos; at += with.size())
    text.replace(at, old.size(), with);
}

// "all_reduce of 4 interpose::cell<4, 4>, in pieces (hash of their sizes: 6) with an operation of MPI" ends in "with MPI_SUM of int32" then.
// That of a _v form is a hash of its counts.
void name_combinations(std::string& text) {
  constexpr std::string_view begin = ", in pieces (hash of their sizes: ", end = ") with an operation of MPI";
  for (std::size_t at = 0; (at = text.find(begin, at)) != text.npos; at += begin.size()) {
    std::uint64_t number = 0;
    std::size_t const first = at + begin.size();
    std::size_t const last = first + tutti::detail::read_number(std::string_view(text).substr(first), 9'999, number);
    bool const of_counts = std::string_view(text).substr(0, text.rfind(" of ", at)).ends_with("_v");
    if (!of_counts && text.compare(last, end.size(), end) == 0)
      text.replace(at, last + end.size() - at, " with " + name_of_combination(number));
  }
}

// "4 interpose::cell<8, 8>" becomes "4 elements of 8 bytes".
std::string without_inner_types(std::string text) {
  constexpr std::string_view cell = "interpose::cell<";
  name_combinations(text);
  replace_all(text, "std::byte", "bytes");
  for (std::size_t at = 0; (at = text.find(cell)) != text.npos;) {
    std::size_t const size = at + cell.size(), comma = text.find(',', size), end = text.find('>', size);
    if (comma >= end || end == text.npos) break;
    text.replace(at, end + 1 - at, join({"elements of ", text.substr(size, comma - size), " bytes"}));
  }
  return text;
}

std::string name_of(MPI_Datatype type) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Type_get_name(type, name, &length);
  return length > 0 ? name : "a derived datatype";
}

std::string name_of_communicator(MPI_Comm comm) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Comm_get_name(comm, name, &length);
  return length > 0 ? join({"communicator ", name}) : "a communicator without a name";
}

// A class of the library's own, because MPICH adds no texts to predefined ones.
int class_of_errors() {
  static int const added = [] {
    int out = MPI_ERR_OTHER;
    if (PMPI_Add_error_class(&out) == MPI_SUCCESS)
      PMPI_Add_error_string(out, "a collective failed that libtutti-mpi.so carried out");
    return out;
  }();
  return added;
}

}  // namespace

std::string describe_call(std::string_view function, MPI_Datatype type, MPI_Comm comm) {
  std::string const elements = type == MPI_DATATYPE_NULL ? "" : " of " + name_of(type);
  return join({function, elements, " on ", name_of_communicator(comm)});
}

int failure::report(std::string_view call, std::string_view problem) {
  std::lock_guard const lock(reporting_);
  if (code() != MPI_SUCCESS) return code();
  constexpr std::string_view head = "tutti: ";
  if (problem.starts_with(head)) problem.remove_prefix(head.size());
  std::string text = join({head, call, ": ", without_inner_types(std::string(problem))});
  std::fprintf(stderr, "%s\n", text.c_str());
  text.resize(std::min<std::size_t>(text.size(), MPI_MAX_ERROR_STRING - 1));
  int out = class_of_errors();  // if the MPI takes no more codes
  if (PMPI_Add_error_code(class_of_errors(), &out) == MPI_SUCCESS) PMPI_Add_error_string(out, text.c_str());
  code_ = out;
  return out;
}

}  // namespace interpose
