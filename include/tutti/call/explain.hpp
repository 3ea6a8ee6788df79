// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// explain: the algorithm that tutti would choose for a call, and the reason.
#pragma once

#include <string>
#include <string_view>

#include "tutti/call/call.hpp"
#include "tutti/call/perform.hpp"
#include "tutti/call/topology.hpp"
#include "tutti/core/text.hpp"
#include "tutti/tune/find.hpp"

namespace tutti {

namespace detail {

template <class Transport>
std::string levels_of(Transport const& transport) {
  if constexpr (has_levels<Transport>)
    return join(
        {Transport::inside::name, " inside and ", Transport::across::name, " across ", transport.nodes().text()});
  else return {};
}

}  // namespace detail

// The answer of explain: the algorithm and protocol of a call, and the reason.
struct explanation {
  algorithm_id algorithm;
  tutti::protocol protocol;
  std::string text;  // a sentence, and a line for each level if the topology is known
};

// Explains how a collective `what` with `count` elements T (per block, if every rank has a block) and Op would be
// carried out on this communicator. Sends nothing; any rank may call it. Throws bad_argument for impossible options.
//
//   std::puts(tutti::explain<float, tutti::sum>(comm, tutti::collective::all_reduce, 1 << 20).text.c_str());
template <element T, class Op = sum, transport Transport>
explanation explain(communicator<Transport>& comm, collective what, std::size_t count, options const& o = {},
                    std::source_location where = std::source_location::current()) {
  comm.expect_usable(where);
  if constexpr (detail::has_levels<Transport>)
    if (auto* const node = detail::node_for<automatic>(comm, o.algorithm, where))
      return explain<T, Op>(*node, what, count, o, where);
  detail::request r{.what = what,
                    .algorithm = o.algorithm,
                    .how = o.protocol,
                    .type = detail::type_id<T>(),
                    .element_bytes = sizeof(T),
                    .count = count};
  if (reduces(what)) detail::set_operation<T, Op>(r);
  std::string text = detail::join({name(what), " of ", count, " ", detail::type_name<T>()});
  if (reduces(what)) detail::append(text, {" with ", detail::name_of<Op>()});
  detail::append(text, {" on ", comm.size(), comm.size() == 1 ? " rank over " : " ranks over ", Transport::name, ": "});
  if (comm.size() == 1 && o.algorithm != algorithm_id::automatic)
    detail::expect_served_alone<Transport>(r, find_schedule, where);
  if (comm.size() == 1) return {algorithm_id::automatic, protocol::automatic, text + "one rank; calls copy at most"};
  detail::plan const p = detail::make_plan(comm.engine(), r, find_schedule, where);
  bool const direct = detail::maps_memory<Transport> && properties_of(p.algorithm, what).direct;
  detail::append(text, {name(p.algorithm), ", "});
  if (p.algorithm == algorithm_id::native)
    text += comm.engine().tuned.meets ? "by the MPI's own collective, after a check by all ranks"
                                      : "by the MPI's own collective, without a check before";
  else if (p.algorithm == algorithm_id::two_level)
    detail::append(text, {"over ", detail::levels_of(comm.engine().transport())});
  else if (p.how == protocol::packet) text += "packets";
  else if (p.how == protocol::staged || !direct) text += "staged";
  else if (p.how == protocol::pull) text += "direct from memory that peers can read, else pulled";
  else text += "direct from memory that peers can read, else staged";
  auto& tuned = comm.engine().tuned;
  detail::choice const tabled = tuned.select(detail::problem_of(comm.engine(), r, find_schedule));
  detail::append(text,
                 {" (", p.why == tabled.why ? tuned.reason(tabled, detail::this_machine()) : std::string(p.why), ")"});
  if (std::string_view const why = comm.engine().environment.avoids_native;
      detail::has_native_collectives<Transport> && p.algorithm != algorithm_id::native && !why.empty())
    detail::append(text, {"; native is not chosen, because of ", why});
  if constexpr (detail::knows_locations<Transport>) detail::append(text, {"\n", topology_of(comm).text()});
  return {p.algorithm, p.how, text};
}

}  // namespace tutti
