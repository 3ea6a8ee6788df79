// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti's messages name the type std::byte, of which the program may never have heard.
#include "errors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "tutti/core/text.hpp"

namespace interpose {
namespace {

using tutti::detail::join;

std::string without_inner_types(std::string text) {
  constexpr std::string_view inner = "std::byte", known = "bytes";
  for (std::size_t at = 0; (at = text.find(inner, at)) != text.npos; at += known.size())
    text.replace(at, inner.size(), known);
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
