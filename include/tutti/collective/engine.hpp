// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all collectives share: from a request to a plan, and from a plan to an execution that ends or throws.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

#include "tutti/collective/communicator.hpp"
#include "tutti/collective/options.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/execute/roll_call.hpp"

namespace tutti {

// A contiguous array of elements: std::vector, std::array, std::span, shared_array, ... What is written to must outlive the
// call: an lvalue, or a view such as std::span.
template <class R>
concept buffer =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && element<std::ranges::range_value_t<R>>;
template <class R>
concept mutable_buffer = buffer<R> && std::ranges::borrowed_range<R> &&
                         !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
template <class R>
using value_of = std::ranges::range_value_t<R>;

namespace detail {

template <class Transport>
void expect_size(communicator<Transport> const& comm, text_part const& what, std::size_t size, std::size_t expected,
                 std::source_location where) {
  if (size == expected) return;
  refuse(comm.rank(), join({what.view(), " has ", size, " elements where the call needs ", expected}),
         "give it that size", where);
}

template <class Transport>
void expect_root(communicator<Transport> const& comm, int root, std::source_location where) {
  if (root >= 0 && root < comm.size()) return;
  refuse(comm.rank(), join({"root ", root, " is not a rank of a communicator of ", comm.size()}),
         join({"use a rank from 0 to ", comm.size() - 1}), where);
}

// Input and output are the same memory, begin to end of what this rank has of both, or do not touch.
inline void expect_apart(int rank, void const* in, std::size_t in_bytes, void const* out, std::size_t out_bytes,
                         void const* same_place, std::source_location where) {
  auto const a = reinterpret_cast<std::uintptr_t>(in), b = reinterpret_cast<std::uintptr_t>(out);
  if (in_bytes == 0 || out_bytes == 0 || out == same_place || a + in_bytes <= b || b + out_bytes <= a) return;
  refuse(rank, "input and output overlap, but are not in place", "use one buffer, or two that do not touch", where);
}

template <class Algorithm, class List>
inline constexpr bool listed = false;
template <class Algorithm, class... Algorithms>
inline constexpr bool listed<Algorithm, list<Algorithms...>> = (std::is_same_v<Algorithm, Algorithms> || ...);

// A named algorithm counts like one that was asked for in the options.
template <class Algorithm>
constexpr algorithm_id id_of(options const& o) {
  if constexpr (std::is_same_v<Algorithm, automatic>) return o.algorithm;
  else if constexpr (listed<Algorithm, algorithms> || std::is_same_v<Algorithm, native>)
    return find_algorithm(Algorithm::name);
  else return algorithm_id::automatic;
}

// Whether the named algorithm may be used: refused at compile time, but for options that name another one as well.
template <class Algorithm, collective C, class Op, class Transport>
void check_algorithm(communicator<Transport> const& comm, options const& o, std::source_location where) {
  if constexpr (std::is_same_v<Algorithm, native>)
    static_assert(has_library<Transport>,
                  "native hands a call to the collectives of the transport's own library, and this transport has none; "
                  "use it over tutti::mpi");
  else if constexpr (!std::is_same_v<Algorithm, automatic>)
    static_assert(serves<Algorithm, C>,
                  "this algorithm does not serve this collective; leave the choice to tutti, or see "
                  "include/tutti/algorithm/ for who serves what");
  if constexpr (!std::is_same_v<Algorithm, automatic>) {
    if constexpr (serves<Algorithm, C> && !std::is_void_v<Op>)
      static_assert(
          !schedule<Algorithm, C>::needs_commutative || is_commutative<Op>,
          "this algorithm combines contributions out of rank order; use tutti::binomial_tree or tutti::one_shot, or "
          "mark the operation with tutti::commutative");
    if (o.algorithm != algorithm_id::automatic && o.algorithm != id_of<Algorithm>(o))
      refuse(comm.rank(),
             join({"the call names ", Algorithm::name, " by its type and ", name(o.algorithm), " in its options"}),
             "name one of them", where);
  }
}

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
problem problem_of(group<Transport>& g, request const& r) {
  auto const& t = g.transport();
  problem out{r.what, r.bytes(), g.ranks(), r.commutative, r.ragged, t.crowded()};
  if constexpr (maps_memory<Transport>) out.pulls = t.pulls();
  else out.messages = true;
  out.native = has_library<Transport>;
  out.wide = r.wide;
  return out;
}

// The longest message or block that packets carry; 0 where they can't.
template <class Transport>
std::size_t most_in_packets(request const& r, int ranks) {
  if (r.ragged || r.unlisted != nullptr) return 0;
  if constexpr (shows_packets<Transport>)
    return most_packet_bytes / static_cast<std::size_t>(deals(r.what) ? ranks : 1);
  else if constexpr (sends_at_once<Transport>) return r.prepares ? 0 : Transport::eager_bytes;
  else return 0;
}

// The plan of a request; throws bad_argument where the caller asks for what can't be had.
template <class Transport>
[[gnu::cold]] plan make_plan(group<Transport>& g, request const& r, std::source_location where) {
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

// A call that goes through a schedule or packets: opened once, waits, closed when it went well.
template <class Transport>
class running_call {
 public:
  running_call(group<Transport>& g, request const& r, options const& o, std::string_view type, std::string_view op,
               std::source_location where)
      : group_(g),
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

  running_call(running_call const&) = delete;
  running_call& operator=(running_call const&) = delete;
  ~running_call() {
    if (!completed_) group_.give_up();
  }

  tutti::plan const& plan() const { return plan_; }
  std::uint32_t tag() const { return group_.tag(); }
  std::chrono::nanoseconds timeout() const { return timeout_; }

  // Drives anything with poll() and found() to its end, which is that of the call.
  template <class Work>
  void complete(Work& work) {
    drive(work);
    complete();
  }
  void complete() {
    group_.finish(where_);
    completed_ = true;
  }

  // The same for a part of the call.
  template <class Work>
  void drive(Work& work) {
    auto& transport = group_.transport();
    bool const done = wait_until_done([&] { return work.poll(); }, transport.waits(), countdown(timeout_),
                                      [&](auto const& ready) {
                                        transport.nap(ready);
                                        group_.examine(where_);
                                        return true;
                                      });
    if (work.found()) group_.report(work.found(), where_);
    if (!done) group_.report_timeout(timeout_, where_);
  }
  [[noreturn]] void report(surprise const& s) { group_.report(s, where_); }

 private:
  group<Transport>& group_;
  std::chrono::nanoseconds timeout_;
  std::source_location where_;
  tutti::plan const& plan_;
  bool completed_ = false;
};

// Calls f(schedule) with the schedule that was named at compile time, or the one that was chosen.
template <class Algorithm, collective C, class F>
void with_schedule(algorithm_id chosen, F&& f) {
  if constexpr (std::is_same_v<Algorithm, automatic>) f(find_schedule(chosen, C));
  else f(schedule<Algorithm, C>{});
}

template <class Algorithm, collective C>
inline constexpr unlisted_algorithm unlisted{Algorithm::name, type_id<Algorithm>(),
                                             dynamic_schedule::of<schedule<Algorithm, C>>()};

// An algorithm that a user wrote runs its own schedule, whatever its name, and ranks must agree on it.
template <class Algorithm, collective C>
constexpr unlisted_algorithm const* unlisted_or_none() {
  if constexpr (!std::is_same_v<Algorithm, automatic> && !listed<Algorithm, algorithms> && serves<Algorithm, C>)
    return &unlisted<Algorithm, C>;
  else return nullptr;
}

// From this size on, the caller finds little of an output in a cache, and it is written past the caches: 8 MiB by two_shot
// on 2 ranks in 0.8 of the time, 128 MiB in 0.75 (AMD EPYC, Zen 4).
inline constexpr std::size_t streamed_output = std::size_t{8} << 20;

// Slices that are fetched are larger than slots, for half a microsecond a call of the system; all that are combined at once
// stay in a second-level cache.
constexpr std::size_t fetched_slice(int ranks) {
  std::size_t const share = (std::size_t{256} << 10) / static_cast<std::size_t>(ranks - 1);
  return share < slot_bytes ? slot_bytes : std::bit_floor(share);
}

// While a message is short, each slice leaves at once, and none waits for its receiver to be asked.
template <class Transport>
constexpr std::size_t slice_of(std::size_t message, std::size_t element) {
  if constexpr (sends_at_once<Transport>)
    if (message <= Transport::slice_bytes && element <= Transport::eager_bytes) return Transport::eager_bytes;
  return Transport::slice_bytes;
}

// Runs a call of at most most_in_packets bytes by packets.
template <collective C, class Transport, class Body>
void execute_packets(group<Transport>& g, running_call<Transport>& call, request const& r, Body body,
                     typename Body::element const* in, typename Body::element* out) {
  if constexpr (shows_packets<Transport> || sends_at_once<Transport>) {
    packet_execution<C, Transport, Body> work(g.transport(), {g.ranks(), r.root}, in, out,
                                              r.bytes() / sizeof(typename Body::element), body, call.tag(), g.inbox());
    call.complete(work);
  }
}

// Runs the schedule of a call, or of a part of it, over these surfaces. Surfaces of collectives whose chunks are parts of
// one message need no layout; `elements` is its length then.
template <class Algorithm, collective C, class Transport, class Call, class Body>
void execute_schedule(group<Transport>& g, Call& call, request const& r, Body body,
                      surfaces<typename Body::element>& memory, std::size_t elements) {
  using T = typename Body::element;
  using engine = execution<Transport, dynamic_schedule, Body>;
  shape const s{g.ranks(), r.root, !r.commutative};
  with_schedule<Algorithm, C>(call.plan().algorithm, [&](auto schedule) {
    if constexpr (!by_block(C)) {
      constexpr std::size_t grain = sizeof(T) < cache_line ? cache_line / sizeof(T) : 1;
      int const lanes = schedule.lanes(s), chunks = schedule.chunks(s);
      for (layout* const where : {&memory.input.where, &memory.output.where, &memory.scratch.where})
        where->become_whole(elements, lanes, chunks, grain);
    }
    if (schedule.scratch) {
      bool const one_slice = schedule.pipelined && schedule.phases(s) == 1;
      memory.scratch.slice = one_slice ? engine::slot_elements : 0;
      std::size_t const room =
          one_slice ? engine::slot_elements * static_cast<std::size_t>(schedule.lanes(s)) : memory.scratch.where.end();
      memory.scratch.data = reinterpret_cast<T*>(g.scratch.at_least(room * sizeof(T)));
    }
    protocol const how = call.plan().how;
    bool const pulls = how == protocol::pull;
    if (memory.in_place && !(pulls ? schedule.direct_in_place : schedule.in_place)) {
      std::size_t const bytes = memory.input.where.end() * sizeof(T);
      std::byte* const copy = g.copy.at_least(bytes);
      if (bytes > 0) std::memcpy(copy, memory.input.data, bytes);
      memory.input.data = reinterpret_cast<T const*>(copy);
      memory.in_place = false;
    }
    bool const safe = memory.in_place ? schedule.direct_in_place : schedule.direct;
    access travel{.refers = safe && how != protocol::staged,
                  .pulls = pulls,
                  .slice = slice_of<Transport>(r.bytes(), sizeof(T)),
                  .streams = memory.output.where.end() * sizeof(T) >= streamed_output};
    if (pulls) {
      travel.slice = fetched_slice(s.ranks);
      if (Body::reduces) travel.fetched = g.fetched.at_least(travel.slice * static_cast<std::size_t>(s.ranks));
    }
    execution<Transport, decltype(schedule), Body> work(g.transport(), g.references, schedule, s, memory, body,
                                                        call.tag(), travel, r.ragged && r.counts == 0);
    call.complete(work);
  });
}

// What comes before the main part of a call: the same tag, and its end is not that of the call.
template <class Transport>
struct prelude {
  running_call<Transport>& call;

  tutti::plan const& plan() const { return call.plan(); }
  std::uint32_t tag() const { return call.tag(); }
  template <class Work>
  void complete(Work& work) {
    call.drive(work);
  }
};

// Where ranks of a _v form know the sizes of their own blocks alone: receivers are told what senders have, and compare.
template <collective C, class Transport>
void compare_blocks(group<Transport>& g, running_call<Transport>& call, request const& r,
                    surfaces<std::byte> const& memory) {
  int const rank = g.rank(), ranks = g.ranks();
  bool const gives = C != collective::scatter || rank == r.root, takes = C != collective::gather || rank == r.root;
  std::vector<std::uint64_t> theirs(static_cast<std::size_t>(ranks)), ours(theirs);
  auto const bytes = [&](layout const& where, int q) { return static_cast<std::uint64_t>(where.at(0, q).count); };
  for (int q = 0; q < ranks && gives; ++q)
    if (C != collective::gather || q == rank) ours[static_cast<std::size_t>(q)] = bytes(memory.input.where, q);
  layout const blocks = layout::blocks(sizeof(std::uint64_t), ranks);
  auto* const from = reinterpret_cast<std::byte*>(ours.data());
  auto* const to = reinterpret_cast<std::byte*>(theirs.data());
  surfaces<std::byte> sizes{.input = {from, blocks}, .output = {to, blocks}, .scratch = {nullptr, blocks}};
  std::size_t const own = blocks.at(0, rank).begin;
  if (C == collective::gather) sizes.input = {from + own, blocks.only(rank)};
  if (C == collective::scatter) sizes.output = {to + own, blocks.only(rank)};
  prelude<Transport> before{call};
  execute_schedule<one_shot, C>(g, before, {.what = C, .root = r.root}, moving{}, sizes, 0);
  for (int q = 0; q < ranks && takes; ++q) {
    if (C == collective::scatter && q != rank) continue;
    std::uint64_t const sent = theirs[static_cast<std::size_t>(q)], expected = bytes(memory.output.where, q);
    if (sent != expected)
      call.report({.peer = C == collective::scatter ? r.root : q,
                   .bytes = static_cast<std::size_t>(sent),
                   .expected = static_cast<std::size_t>(expected)});
  }
}

// All ranks are in this call, and none has given it up. Once all have said that they are here, those who came first may
// have given up before the last one came, so all say it again. But not where they come soon after each other, and give up
// late: whoever comes within 50 ms of when it came to the meeting before comes within 50 ms of everybody.
template <class Transport>
void meet(group<Transport>& g, running_call<Transport>& call) {
  static constexpr std::chrono::milliseconds soon{50};
  static constexpr std::chrono::seconds late{10};
  auto const now = deadline::clock::now();
  bool const again = now - g.last_meeting > soon || call.timeout() < late;
  roll_call<Transport> first(g.transport(), call.tag(), again);
  call.drive(first);
  if (first.anyone_wants_more()) {
    roll_call<Transport> second(g.transport(), call.tag(), false);
    call.drive(second);
  }
  g.last_meeting = now;
  g.transport().all_have_come();
}

// Hands a call to the library of the transport, which would wait for ever: so all ranks meet first, and one that is late,
// gone or in another call is found as in any algorithm.
template <collective C, class Transport, class Body>
void execute_native(group<Transport>& g, running_call<Transport>& call, request const& r, Body body,
                    surfaces<typename Body::element>& memory, std::size_t elements) {
  using T = typename Body::element;
  // All that may throw comes before the others are in the library.
  if (r.ragged) Transport::library::template expect_countable<C>(g.transport(), r, memory);
  bool const in_place = memory.in_place && Transport::library::works_in_place(C);
  if (Body::prepares || (memory.in_place && !in_place)) {
    std::size_t const count = by_block(C) ? memory.input.where.end() : elements;
    T* const copy = reinterpret_cast<T*>(g.copy.at_least(count * sizeof(T)));
    body(&memory.input.data, 1, &copy, 1, count, {.prepare = Body::prepares ? 0 : -1});
    memory.input.data = copy;
    memory.in_place = false;
  }
  if constexpr (C == collective::gather || C == collective::scatter || C == collective::all_to_all)
    if (r.ragged) compare_blocks<C>(g, call, r, memory);
  meet(g, call);
  Transport::library::template call<C>(g.transport(), r, memory, elements, body);
  if constexpr (Body::finishes) {
    std::size_t const count = by_block(C) ? memory.output.where.at(0, g.rank()).count : elements;
    T const* const all = memory.output.data;
    if (all != nullptr) body(&all, 1, &memory.output.data, 1, count, {.finish = g.ranks()});
  }
  call.complete();
}

template <class Algorithm, collective C, class Transport, class Body>
void execute(group<Transport>& g, running_call<Transport>& call, request const& r, Body body,
             surfaces<typename Body::element>& memory, std::size_t elements = 0) {
  if constexpr (has_library<Transport>)
    if (call.plan().algorithm == algorithm_id::native) return execute_native<C>(g, call, r, body, memory, elements);
  if constexpr (!std::is_same_v<Algorithm, native>) execute_schedule<Algorithm, C>(g, call, r, body, memory, elements);
}

}  // namespace detail
}  // namespace tutti
