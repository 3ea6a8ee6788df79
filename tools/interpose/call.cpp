// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who combines the elements of a reduction.
#include "call.hpp"

#include <algorithm>
#include <memory>
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

reduction::reduction(function what, MPI_Comm comm, int count, MPI_Datatype type, MPI_Op op)
    : call(what, comm), type_(type), op_(op) {
  expect(count, type).expect(op != MPI_OP_NULL);
  if (passes()) return;
  datatype const known = look_up(type);
  element_bytes_ = static_cast<std::size_t>(known.extent);
  if (auto const known_op = predefined_operation(op)) {
    how_ = find(*known_op, known.kind);
    if (how_.run == nullptr) pass_for(reason::operation);
  } else if (op == MPI_REPLACE || op == MPI_NO_OP) {
    pass_for(reason::operation);
  } else if (known.size == 0 || !has_no_gaps(type, known)) {
    pass_for(reason::gaps);
  }
}

// In place MPI has the result at the beginning of the input, where tutti would read it.
void reduction::predefined::reduce_scatter(input in, output out, sizes counts) const {
  auto const copy = out.data() == in.data() ? std::make_unique_for_overwrite<std::byte[]>(out.size()) : nullptr;
  output const to = copy ? output(copy.get(), out.size()) : out;
  if (std::ranges::adjacent_find(counts, std::ranges::not_equal_to{}) == counts.end())
    interpose::reduce_scatter(comm, how, in, to);
  else reduce_scatter_v(comm, how, in, to, counts);
  if (copy) std::ranges::copy(to, out.begin());
}

}  // namespace interpose
