// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a request to a plan, and a call that is open until it ends or throws.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string_view>

#include "tutti/call/arguments.hpp"

namespace tutti::detail {

// Why what is meant can't be had; empty where it can.
inline std::string_view objection_to(request const& r, algorithm_id chosen, problem const& p) {
  return r.unlisted != nullptr ? objection(r.unlisted->schedule, p) : objection(chosen, p);
}
// What is meant: the caller's own algorithm, or a registered one.
inline dynamic_schedule schedule_of(request const& r, algorithm_id chosen) {
  return r.unlisted != nullptr ? r.unlisted->schedule : find_schedule(chosen, r.what);
}
inline std::string_view algorithm_name(request const& r, algorithm_id chosen) {
  return r.unlisted != nullptr ? r.unlisted->name : name(chosen);
}

template <class Transport>
problem problem_of(engine<Transport>& g, request const& r) {
  auto const& t = g.transport();
  problem out{r.what, r.bytes(), g.ranks(), r.commutative, r.ragged, t.crowded()};
  if constexpr (maps_memory<Transport>) out.pulls = t.pulls();
  else out.messages = true;
  out.native = has_native_collectives<Transport> && !r.started;
  out.wide = r.wide;
  if constexpr (has_levels<Transport>) {
    if (r.started) return out;
    out.nodes = t.nodes().consecutive() ? node_order::consecutive : node_order::scattered;
    out.node_count = t.nodes().count();
    out.even_nodes = t.nodes().even();
    out.inside = share_caches(t.locations(), t.nodes()) ? distance::cache : distance::node;
  }
  return out;
}

// The longest message or block that packets carry; 0 where they can't.
template <class Transport>
std::size_t most_in_packets(request const& r, int ranks) {
  if (r.ragged || r.unlisted != nullptr) return 0;
  if constexpr (shares_packets<Transport>)
    return max_packet_bytes / static_cast<std::size_t>(deals(r.what) ? ranks : 1);
  else if constexpr (has_eager_limit<Transport>) return r.prepares ? 0 : Transport::eager_bytes;
  else return 0;
}

// The plan of a request; throws bad_argument where the caller asks for what can't be had.
template <class Transport>
[[gnu::cold]] plan make_plan(engine<Transport>& g, request const& r, std::source_location where) {
  problem const p = problem_of(g, r);
  choice chosen = g.tuned.select(p);
  if (r.unlisted != nullptr || r.algorithm != algorithm_id::automatic) {
    if (auto const why = objection_to(r, r.algorithm, p); !why.empty())
      refuse(g.rank(), join({algorithm_name(r, r.algorithm), " cannot do ", name(r.what), ": ", why}),
             join({"leave options::algorithm automatic, or use ", name(chosen.algorithm)}), where);
    shape const s{g.ranks(), r.root, !r.commutative};
    if (r.unlisted != nullptr && r.unlisted->schedule.lanes(s) * r.unlisted->schedule.phases(s) > max_tracks)
      refuse(g.rank(),
             join({algorithm_name(r, r.algorithm), " has more than ", max_tracks, " lanes and phases, taken together"}),
             "give it fewer", where);
    chosen = {r.algorithm, "asked for by the caller",
              chosen.algorithm == r.algorithm ? chosen.how : protocol::automatic};
  } else if (algorithm_id const wanted = g.environment.algorithms[r.what]; wanted != algorithm_id::automatic) {
    if (objection(wanted, p).empty())
      chosen = {wanted, "TUTTI_ALGORITHM", chosen.algorithm == wanted ? chosen.how : protocol::automatic};
    else chosen.why = "TUTTI_ALGORITHM does not fit this call; the default";
  }
  std::size_t const most = most_in_packets<Transport>(r, g.ranks());
  bool const packets = chosen.algorithm == algorithm_id::one_shot && r.bytes() <= most && most > 0;
  if (r.how == protocol::packet && !packets)
    refuse(g.rank(), "protocol packet cannot carry this call",
           join({"packets are for one_shot, not for _v forms, and here up to ", most, " bytes"}), where);
  dynamic_schedule const schedule = schedule_of(r, chosen.algorithm);
  // Of a schedule that was not verified, a wrong flag would be a slice that overruns its slot. What op.prepare makes of an
  // input is nowhere in memory.
  bool const fetchable =
      schedule.direct && schedule.fetchable && !schedule.pipelined && r.unlisted == nullptr && !r.prepares;
  if ((r.how == protocol::direct && !schedule.direct) || (r.how == protocol::pull && !fetchable))
    refuse(g.rank(), join({"protocol ", name(r.how), " is not safe for ", algorithm_name(r, chosen.algorithm)}),
           "use protocol staged, or another algorithm", where);
  if ((r.how == protocol::direct || r.how == protocol::pull) && !maps_memory<Transport>)
    refuse(g.rank(),
           join({"protocol ", name(r.how), " needs memory that ranks share, which ", Transport::name, " has not"}),
           "leave options::protocol automatic", where);
  if (r.how == protocol::pull && !p.pulls)
    refuse(g.rank(), "protocol pull needs ranks that can read each other's memory, and the system refuses that",
           "use another protocol, or see kernel.yama.ptrace_scope and the seccomp rules of the container", where);
  bool const pulls = chosen.how == protocol::pull && fetchable;
  protocol const best = packets ? protocol::packet : pulls ? protocol::pull : protocol::automatic;
  protocol const how = r.how != protocol::automatic ? r.how : best;
  request agreed = r;
  agreed.algorithm = chosen.algorithm;
  agreed.how = how;
  plan out{chosen.algorithm, how, static_cast<std::uint32_t>(key_of(agreed)), chosen.why};
  out.words = to_words(r, out);
  return out;
}

// A call that the other ranks know of, until it has ended well or somebody else sees to its end.
template <class Transport>
class opened_call {
 public:
  opened_call(engine<Transport>& g, request const& r, options const& o, std::string_view type, std::string_view op,
              std::source_location where)
      : engine_(g),
        timeout_(o.timeout.count() > 0 ? o.timeout : g.environment.timeout),
        where_(where),
        plan_(g.plans.find(r, [&] {
          g.introduce(r.type, type);
          if (r.op != 0) g.introduce(r.op, op);
          if (r.unlisted != nullptr) g.introduce(r.unlisted->id, r.unlisted->name);
          return make_plan(g, r, where);
        })) {
    if (o.timeout.count() < 0)
      refuse(g.rank(), "options::timeout is negative", "leave it 0 for the communicator's, or give a time", where);
    g.begin(plan_, where);
  }
  opened_call(opened_call const&) = delete;
  opened_call& operator=(opened_call const&) = delete;
  ~opened_call() {
    if (!settled_) engine_.give_up();
  }

  tutti::detail::plan const& plan() const { return plan_; }
  std::uint32_t tag() const { return engine_.tag(); }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  std::source_location where() const { return where_; }

 protected:
  engine<Transport>& engine_;
  std::chrono::nanoseconds timeout_;
  std::source_location where_;
  tutti::detail::plan const& plan_;
  bool settled_ = false;
};

// A call that goes through a schedule or packets, and ends before it returns to the program.
template <class Transport>
class running_call : public opened_call<Transport> {
 public:
  static constexpr bool blocks = true;

  using opened_call<Transport>::opened_call;

  // Drives what make(), or make(memory), makes: anything with poll() and found(), whose end is that of the call.
  template <class Make>
  void run(Make&& make) {
    auto work = make();
    drive(work);
    complete();
  }
  template <class Memory, class Make>
  void run(Memory& memory, Make&& make) {
    run([&] { return make(memory); });
  }
  void complete() {
    engine_.finish(where_);
    this->settled_ = true;
  }

  // The same for a part of the call.
  template <class Work>
  void drive(Work& work) {
    auto& transport = engine_.transport();
    bool const done = wait_until_done([&] { return work.poll(); }, transport.waits(), countdown(this->timeout()),
                                      [&](auto const& ready) {
                                        transport.nap(ready);
                                        engine_.examine(where_);
                                        return true;
                                      });
    if (work.found()) engine_.report(work.found(), where_);
    if (!done) engine_.report_timeout(this->timeout(), where_);
  }
  [[noreturn]] void report(protocol_violation const& s) { engine_.report(s, where_); }

 private:
  using opened_call<Transport>::engine_;
  using opened_call<Transport>::where_;
};

}  // namespace tutti::detail
