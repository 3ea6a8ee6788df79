// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The end of a call by an error, and the choice of the function that combines.
#include "call.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/call/survive.hpp"
#include "tutti/core/text.hpp"

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

int call::end_by(std::exception const& e) const {
  std::string const mine = describe();
  if (ranks() > 1) bound_->ranks->engine().give_up(std::string_view(mine));  // in case the others do not know
  bool const ends = ends_the_program(comm_);
  int const code = bound_->failed->report(mine, e, ends);
  if (may_wait_ && !ends && all_failed_here()) bound_->why = reason::handed_back;
  return fail(code);
}

// Peers read the names on the board, which has room for a few: so counts are not part of them.
int call::announce() const {
  return attempt([&](communicator& all) {
    std::string const text = tutti::detail::join({"the MPI's ", name()});
    int element_bytes = 0;
    PMPI_Type_size(type_, &element_bytes);
    tutti::detail::call_names const what{"bytes", text};
    std::size_t const bytes = static_cast<std::size_t>(count_) * static_cast<std::size_t>(element_bytes);
    if (may_wait_) {
      long_wait const noticed(&describe_wait, this);
      return interpose::announce(all, what, bytes);
    }
    auto started = std::make_unique<pending>();
    started->function = name();
    started->failed = failed();
    started->work = start_announcing(all, what, bytes);
    add_without_request(std::move(started));
  });
}

// Each rank votes by the number of its call, and by its complement: the conjunction of all votes has both only if they
// are equal. A rank that makes no further call lets the others wait for TUTTI_TIMEOUT, 5 minutes if it is not set.
bool call::all_failed_here() const try {
  constexpr int bits = 15, all = (1 << bits) - 1;
  int const mine = static_cast<int>(bound_->calls) & all, vote = mine | (~mine & all) << bits;
  tutti::agreement const found = bound_->ranks->agree(vote, {});
  return found.gone.empty() && found.flags == vote;
} catch (std::exception const&) {  // not all ranks have voted
  return false;
}

std::string call::describe_wait(void const* waiting, int seconds) {
  auto const& c = *static_cast<call const*>(waiting);
  auto& engine = c.bound_->ranks->engine();
  std::string out =
      tutti::detail::join({c.describe(), ": rank ", c.rank(), " has waited for ", seconds, " s, and goes on"});
  for (int peer = 0; peer < c.ranks(); ++peer)
    if (peer != c.rank() && engine.notices().called(peer) < engine.sequence())
      out += tutti::detail::join({"; rank ", peer, " has not made the call: it is ", engine.states().doing(peer)});
  return out;
}

bool reduction::commutes(MPI_Op op) {
  int out = 0;
  PMPI_Op_commutative(op, &out);
  return out != 0;
}

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
