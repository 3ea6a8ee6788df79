// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The distribution of the elements of a reduction among the ranks that combine them.
#include "call.hpp"

#include <optional>

namespace interpose {
namespace {

std::optional<operation> predefined_operation(MPI_Op op) {
  if (op == MPI_SUM) return operation::sum;
  if (op == MPI_MAX) return operation::max;
  if (op == MPI_MIN) return operation::min;
  if (op == MPI_PROD) return operation::product;
  if (op == MPI_LAND) return operation::land;
  if (op == MPI_LOR) return operation::lor;
  if (op == MPI_LXOR) return operation::lxor;
  if (op == MPI_BAND) return operation::band;
  if (op == MPI_BOR) return operation::bor;
  if (op == MPI_BXOR) return operation::bxor;
  if (op == MPI_MAXLOC) return operation::maxloc;
  if (op == MPI_MINLOC) return operation::minloc;
  return {};
}

}  // namespace

reason reduction::decide() {
  datatype const known = look_up(type_);
  element_bytes_ = static_cast<std::size_t>(known.extent);
  if (auto const known_op = predefined_operation(op_)) {
    how_ = find(*known_op, known.kind);
    return how_.run != nullptr ? reason::none : reason::operation;
  }
  if (op_ == MPI_REPLACE || op_ == MPI_NO_OP) return reason::operation;
  return known.size == 0 || !has_no_gaps(type_, known) ? reason::gaps : reason::none;
}

}  // namespace interpose
