// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti's messages name its functions and the type std::byte, of which the program may never have heard.
#include "errors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "binding.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace interpose {
namespace {

using tutti::detail::join;

constexpr std::string_view head = "tutti: ";

std::string without_inner_types(std::string text) {
  constexpr std::string_view inner = "std::byte", known = "bytes";
  for (std::size_t at = 0; (at = text.find(inner, at)) != text.npos; at += known.size())
    text.replace(at, inner.size(), known);
  return text;
}

// What the user of an MPI program can do: tutti's advice may name functions of tutti.
std::string way_out_of(tutti::error const& e) {
  switch (e.code()) {
    case tutti::error_code::rank_lost: return "check the output of the rank that ended";
    case tutti::error_code::timeout:
      return "find out what keeps the ranks that have not arrived, or raise TUTTI_TIMEOUT";
    case tutti::error_code::revoked: return "check the messages of the other ranks";
    case tutti::error_code::rank_left:
      return e.way_out().find("threw") != std::string::npos ? "check the messages of that rank" : e.way_out();
    default: return e.way_out();
  }
}
std::string number_of(tutti::error const& e) { return e.rank() >= 0 ? join({" [rank ", e.rank(), "]"}) : ""; }

std::string in_words_of_mpi(std::exception const& problem) {
  std::string_view what = problem.what();
  if (auto const* const e = dynamic_cast<tutti::error const*>(&problem))
    return without_inner_types(join({e->happened(), number_of(*e), "; ", way_out_of(*e)}));
  if (what.starts_with(head)) what.remove_prefix(head.size());
  return std::string(what);
}

// Whether all ranks of a communicator get such errors.
bool is_of_several_ranks(tutti::error_code code) {
  return code == tutti::error_code::timeout || code == tutti::error_code::rank_lost ||
         code == tutti::error_code::revoked;
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

bool ends_the_program(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  PMPI_Comm_get_errhandler(comm, &handler);
  bool out = handler == MPI_ERRORS_ARE_FATAL;
#if defined(MPI_ERRORS_ABORT)
  out = out || handler == MPI_ERRORS_ABORT;
#endif
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  return out;
}

int failure::report(std::string_view call, std::exception const& problem, bool ends) {
  std::lock_guard const lock(reporting_);
  if (code() != MPI_SUCCESS) return code();
  std::string const whole = join({head, call, ": ", in_words_of_mpi(problem)});
  auto const* const known = dynamic_cast<tutti::error const*>(&problem);
  bool const is_common = known != nullptr && is_of_several_ranks(known->code());
  std::string const brief = is_common ? join({head, call, ": ", tutti::name(known->code()), number_of(*known)}) : whole;
  bool const prints_all = !is_common || is_first_report(static_cast<int>(known->code()));
  std::fprintf(stderr, "%s\n", prints_all ? whole.c_str() : brief.c_str());
  std::string text = ends ? brief : whole;
  text.resize(std::min<std::size_t>(text.size(), MPI_MAX_ERROR_STRING - 1));
  int out = class_of_errors();  // if the MPI takes no more codes
  if (PMPI_Add_error_code(class_of_errors(), &out) == MPI_SUCCESS) PMPI_Add_error_string(out, text.c_str());
  code_ = out;
  return out;
}

}  // namespace interpose
