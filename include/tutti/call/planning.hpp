// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns a request into a plan: the algorithm and protocol of a call, with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string_view>

#include "tutti/call/arguments.hpp"
#include "tutti/call/own_steps.hpp"

namespace tutti::detail {

template <class Algorithm, collective C>
inline constexpr unlisted_algorithm unlisted{Algorithm::name, type_id<Algorithm>(),
                                             dynamic_schedule::of<schedule<Algorithm, C>>(), expect_safe_steps};

// A user's own algorithm runs its own schedule, whatever its name, and ranks must agree on it.
template <class Algorithm, collective C>
constexpr unlisted_algorithm const* unlisted_or_none() {
  if constexpr (!std::is_same_v<Algorithm, automatic> && !listed<Algorithm, algorithms> && serves<Algorithm, C>)
    return &unlisted<Algorithm, C>;
  else return nullptr;
}

// Why an algorithm cannot carry out a call; empty if it can.
inline std::string_view objection_to(request const& r, algorithm_id chosen, problem const& p) {
  if (r.unlisted == nullptr) return objection(chosen, p);
  static_assert(max_ranks == 1024, "sentences name this number");
  if (p.many) return "an algorithm that is not part of the library supports at most 1024 ranks";
  return objection(r.unlisted->schedule, p);
}
// The schedule of the caller's own algorithm, or of a registered one.
template <collective C>
dynamic_schedule schedule_of(request const& r, algorithm_id chosen) {
  return r.unlisted != nullptr ? r.unlisted->schedule : find_schedule_of<C>(chosen, C);
}
inline schedule_properties properties_of(request const& r, algorithm_id chosen) {
  if (r.unlisted != nullptr) return r.unlisted->schedule;
  return tutti::properties_of(chosen, r.what);
}
inline std::string_view algorithm_name(request const& r, algorithm_id chosen) {
  return r.unlisted != nullptr ? r.unlisted->name : name(chosen);
}

// Refuses a named algorithm that cannot carry out a call.
[[gnu::cold, gnu::noinline]] inline void expect_served(request const& r, problem const& p, int rank,
                                                       std::source_location where) {
  if (auto const why = objection_to(r, r.algorithm, p); !why.empty())
    refuse(rank, join({algorithm_name(r, r.algorithm), " cannot do ", name(r.what), ": ", why}),
           "leave options::algorithm automatic", where);
}
// The same on one rank, which needs none, so that a call is not refused only on several.
template <class Transport>
[[gnu::cold]] void expect_served_alone(request const& r, schedule_finder& schedules, std::source_location where) {
  problem const p{.what = r.what,
                  .ranks = 1,
                  .commutative = r.commutative,
                  .ragged = r.ragged,
                  .native = has_native_collectives<Transport>,
                  .at_once = r.at_once,
                  .nodes = has_levels<Transport> ? node_order::consecutive : node_order::unknown,
                  .schedules = schedules};
  expect_served(r, p, 0, where);
}

template <class Transport>
problem problem_of(engine<Transport>& on, request const& r, schedule_finder& schedules) {
  auto const& t = on.transport();
  problem out{.what = r.what,
              .bytes = r.bytes(),
              .ranks = on.ranks(),
              .commutative = r.commutative,
              .ragged = r.ragged,
              .crowded = t.crowded(),
              .many = on.ranks() > max_ranks,
              .schedules = schedules};
  if constexpr (maps_memory<Transport>) out.pulls = t.pulls();
  else out.messages = true;
  out.native = has_native_collectives<Transport> && !r.started;
  out.named_native = !on.environment.avoids_native.empty();
  out.wide = r.wide;
  out.at_once = r.at_once;
  if constexpr (has_levels<Transport>) {
    if (r.started) return out;
    out.nodes = t.nodes().consecutive() ? node_order::consecutive : node_order::scattered;
    out.schedules = find_schedule;  // for the parts of two levels
    out.node_count = t.nodes().count();
    out.largest_node = t.nodes().even() ? 0 : t.nodes().largest();
    out.inside = share_caches(t.locations(), t.nodes()) ? distance::cache : distance::node;
  }
  return out;
}

// The longest message or block that packets carry; 0 if they cannot carry the call.
template <class Transport>
std::size_t longest_packet(request const& r, int ranks) {
  if (r.ragged || r.unlisted != nullptr) return 0;
  if constexpr (shares_packets<Transport>) return longest_shared_packet(r.what, ranks);
  else if constexpr (has_eager_limit<Transport>) return r.prepares ? 0 : Transport::eager_bytes;
  else return 0;
}

// The two parts of make_plan are inlined, because functions of their own would make every program larger.

// The algorithm of a request: the caller's, else that of TUTTI_ALGORITHM if it can carry out the call, else the best one known.
template <class Transport>
[[gnu::always_inline]] inline choice choose(engine<Transport>& on, request const& r, problem const& p,
                                            std::source_location where) {
  choice chosen;
  if constexpr (has_levels<Transport>) chosen = on.tuned.select(p);
  else chosen = on.tuned.select_in_one_level(p);
  // The protocol of a choice is for its own algorithm only.
  auto const replace = [&](algorithm_id by, std::string_view why) {
    chosen = {by, why, chosen.algorithm == by ? chosen.how : protocol::automatic};
  };
  if (r.unlisted != nullptr || r.algorithm != algorithm_id::automatic) {
    expect_served(r, p, on.rank(), where);
    if (r.unlisted != nullptr && !r.unlisted->verified()) r.unlisted->expect_safe(r, on.rank(), on.ranks(), where);
    replace(r.algorithm, "requested by the caller");
  } else if (algorithm_id const wanted = on.environment.algorithms[r.what]; wanted != algorithm_id::automatic) {
    if (objection(wanted, p).empty()) replace(wanted, "TUTTI_ALGORITHM");
    else chosen.why = "TUTTI_ALGORITHM does not serve this call; the default";
  }
  if (r.unlisted == nullptr && chosen.algorithm == algorithm_id::automatic)
    refuse(on.rank(),
           join({"no algorithm can do ", name(r.what), r.ragged ? " in its _v form" : "", " among ", on.ranks(),
                 " ranks"}),
           "use a group of at most 1024 ranks, or name the algorithm native", where);
  return chosen;
}

// The protocol of a request by the chosen algorithm: the caller's, which must be safe and possible, else the fastest one.
template <class Transport>
[[gnu::always_inline]] inline protocol choose_protocol(engine<Transport>& on, request const& r, problem const& p,
                                                       choice const& chosen, std::source_location where) {
  std::size_t const longest = longest_packet<Transport>(r, on.ranks());
  bool const packets = chosen.algorithm == algorithm_id::one_shot && r.bytes() <= longest && longest > 0;
  if (r.how == protocol::packet && !packets)
    refuse(on.rank(), "protocol packet cannot carry this call",
           join({"packets are for one_shot, not for _v forms, and here up to ", longest, " bytes"}), where);
  schedule_properties const schedule = properties_of(r, chosen.algorithm);
  // In a schedule that was not verified, a wrong flag would let a slice overrun its slot. The result of op.prepare on
  // an input is not in memory that could be fetched.
  bool const fetchable =
      schedule.direct && schedule.fetchable && !schedule.pipelined && r.unlisted == nullptr && !r.prepares;
  if (r.how > protocol::pull || (r.how == protocol::direct && !schedule.direct) ||
      (r.how == protocol::pull && !fetchable))
    refuse(on.rank(), join({"protocol ", name(r.how), " is not safe for ", algorithm_name(r, chosen.algorithm)}),
           "use protocol staged, or another algorithm", where);
  if ((r.how == protocol::direct || r.how == protocol::pull) && !maps_memory<Transport>)
    refuse(on.rank(),
           join({"protocol ", name(r.how), " needs memory that ranks share, but ", Transport::name, " has none"}),
           "leave options::protocol automatic", where);
  if (r.how == protocol::pull && !p.pulls)
    refuse(on.rank(), "protocol pull reads the memory of peers, which the system does not allow",
           "use another protocol, or check kernel.yama.ptrace_scope and the container's seccomp rules", where);
  if (r.how != protocol::automatic) return r.how;
  if (packets) {
    bool const in_one_piece = shares_packets<Transport> && is_faster_in_one_piece(r.what, on.ranks(), r.bytes());
    return in_one_piece ? protocol::staged : protocol::packet;
  }
  return chosen.how == protocol::pull && fetchable ? protocol::pull : protocol::automatic;
}

// The plan of a request, by one of these schedules. Throws bad_argument if the request is impossible.
template <class Transport>
[[gnu::cold]] plan make_plan(engine<Transport>& on, request const& r, schedule_finder& schedules,
                             std::source_location where) {
  problem const p = problem_of(on, r, schedules);
  choice const chosen = choose(on, r, p, where);
  request agreed = r;
  agreed.algorithm = chosen.algorithm;
  agreed.how = choose_protocol(on, r, p, chosen, where);
  plan out{agreed.algorithm, agreed.how, static_cast<std::uint32_t>(key_of(agreed)), chosen.why};
  out.words = to_words(r, out);
  return out;
}

}  // namespace tutti::detail
