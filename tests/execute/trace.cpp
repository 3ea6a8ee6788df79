// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A run over threads sends exactly the messages that the cursor predicts: the same receivers, elements, slices and order.
// labels: threads computes
// timeout: 240
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "support/recording.hpp"
#include "support/sanitized.hpp"
#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/cursor.hpp"
#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/contract.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/execute/eager.hpp"
#include "tutti/execute/host.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/transport/threads/loopback.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

using element = std::uint64_t;
using endpoint = testing::recording<loopback>;
using walk = detail::walk<dynamic_schedule, surfaces<element>>;

enum class travels { staged, direct, pull };
// Which ranks take part by eager messages, the others slice by slice.
enum class eager_ranks { none, odd, all };

struct trial {
  algorithm_id algorithm{};
  collective what{};
  dynamic_schedule schedule{};
  shape of{};
  travels how{};
  bool in_place = false;
  std::size_t count = 0;  // elements of the message, or of each block
  bool uneven = false;    // blocks differ in length, some are empty, and empty messages are announced
  std::size_t slice = 0;  // elements
  eager_ranks eager = eager_ranks::none;

  // Whether all of a rank's memory is read in place, so that messages of these regions refer to runs of slices. An eager rank has
  // nothing that would be longer than a slice.
  bool shows_memory(int rank) const {
    return how == travels::direct && schedule.fetchable && !schedule.pipelined && !is_eager(rank);
  }
  bool refers_to_runs(int rank, region const& give) const {
    return shows_memory(rank) && give.where != space::scratch && (give.split || give.what.count == 1);
  }
  bool is_eager(int rank) const { return eager == eager_ranks::all || (eager == eager_ranks::odd && rank % 2 == 1); }

  std::string text() const {
    static constexpr char const* hows[] = {"staged", "direct", "pull"};
    static constexpr char const* eager_texts[] = {"", ", odd ranks eager", ", eager"};
    return join({name(algorithm), " ", name(what), ", ", of.ranks, " ranks, root ", of.root,
                 of.ordered ? ", ordered" : "", ", ", hows[static_cast<int>(how)], in_place ? ", in place" : "",
                 eager_texts[static_cast<int>(eager)], ", ", count, uneven ? " elements, uneven" : " elements"});
  }
};

// The memory of one rank. Every element of every rank has a distinct value, so a sum reveals its contributions.
class buffers {
 public:
  buffers(trial const& t, int rank) : in_place_(t.in_place) {
    int const lanes = t.schedule.lanes(t.of), chunks = t.schedule.chunks(t.of);
    layout in = layout::whole(t.count, lanes, chunks, 8), out = in;
    if (by_block(t.what)) {
      in = out = layout::blocks(t.count, t.of.ranks);
      if (t.uneven) {
        bool const exchange = analyze::renumbers(t.what);
        for (int q = 0; q < t.of.ranks; ++q) {
          in_counts_.push_back(length(t, exchange ? rank : 0, q));
          out_counts_.push_back(exchange ? length(t, q, rank) : in_counts_.back());
        }
        in = table(in_counts_, in_offsets_), out = table(out_counts_, out_offsets_);
      }
    }
    arrays_[0].resize(in.end());
    arrays_[1].resize(out.end());
    for (std::size_t i = 0; i < in.end(); ++i) arrays_[0][i] = value(rank, i);
    if (in_place_) arrays_[0].resize(std::max(in.end(), out.end()));
    bool const one_slice = t.schedule.pipelined && t.schedule.phases(t.of) == 1;
    arrays_[2].resize(one_slice ? t.slice * static_cast<std::size_t>(lanes) : out.end());

    bool const own_in = analyze::input_of(t.what, t.of, rank) == analyze::holding::own;
    bool const own_out = analyze::output_of(t.what, t.of, rank) == analyze::holding::own;
    element* const result = arrays_[in_place_ ? 0 : 1].data();
    memory.input = {arrays_[0].data() + (own_in ? in.at(0, rank).begin : 0), own_in ? in.only(rank) : in};
    memory.output = {result + (own_out ? out.at(0, rank).begin : 0), own_out ? out.only(rank) : out};
    memory.scratch = {arrays_[2].data(), out, one_slice ? t.slice : 0};
    memory.in_place = in_place_;
  }
  buffers(buffers&&) = default;

  // The array and offset of a pointer, which are the same in every run.
  std::pair<int, std::ptrdiff_t> place_of(void const* data) const {
    for (int a = 0; a < 3; ++a) {
      auto const* const p = static_cast<element const*>(data);
      if (!arrays_[a].empty() && p >= arrays_[a].data() && p < arrays_[a].data() + arrays_[a].size())
        return {a, p - arrays_[a].data()};
    }
    return {-1, 0};
  }
  std::vector<element> const& result() const { return arrays_[in_place_ ? 0 : 1]; }

  surfaces<element> memory{};

 private:
  static std::size_t length(trial const& t, int from, int to) {
    return static_cast<std::size_t>((2 * from + to) % 3) * t.count / 2;
  }
  static layout table(std::vector<std::size_t> const& counts, std::vector<std::size_t>& offsets) {
    offsets.resize(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), std::size_t{0});
    return layout::table(counts.data(), offsets.data(), static_cast<int>(counts.size()));
  }
  static element value(int rank, std::size_t i) {
    return mix(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i));
  }

  bool in_place_;
  std::vector<std::size_t> in_counts_, out_counts_, in_offsets_, out_offsets_;
  std::vector<element> arrays_[3];
};

std::vector<buffers> buffers_of(trial const& t) {
  std::vector<buffers> out;
  for (int r = 0; r < t.of.ranks; ++r) out.emplace_back(t, r);
  return out;
}

// The messages of one track of one rank.
struct message {
  int to;
  bool more;
  std::vector<element> values;
  bool refers;                           // to memory of the sender
  std::pair<int, std::ptrdiff_t> place;  // there
  friend bool operator==(message const&, message const&) = default;
};
struct trace {
  std::vector<message> sent;
  std::vector<int> released;  // the senders of what it has read
};
struct outcome {
  std::vector<trace> traces;  // rank by rank, track by track
  std::vector<std::vector<element>> results;
};

// Walks through the schedule with the cursor alone. Values are copied at once, and channels never fill up.
class account {
 public:
  explicit account(trial const& t) : trial_(t), buffers_(buffers_of(t)) {
    for (int r = 0; r < t.of.ranks; ++r)
      walks_.emplace_back(t.schedule, t.of, r, buffers_[static_cast<std::size_t>(r)].memory, t.slice, t.uneven);
    tracks_ = walks_[0].tracks();
    out_.traces.resize(walks_.size() * static_cast<std::size_t>(tracks_));
  }

  outcome operator()() {
    for (bool moved = true; moved;) {
      moved = false;
      for (walk& w : walks_)
        for (int track = 0; track < tracks_; ++track)
          while (advance(w, track)) moved = true;
    }
    for (walk& w : walks_)
      for (int track = 0; track < tracks_; ++track) REQUIRE(w[track].finished);
    for (buffers const& b : buffers_) out_.results.push_back(b.result());
    return std::move(out_);
  }

 private:
  bool advance(walk& w, int track) {
    detail::cursor& c = w[track];
    if (c.finished) return false;
    bool moved = false;
    if (c.may_send(w.available(track))) {
      std::size_t const slices = trial_.refers_to_runs(c.me.rank, c.now.give) ? longest_run : 1;
      if (std::min(c.sent + slices, c.end) <= w.available(track) || slices == 1) {
        auto const part = w.slice(c.me.lane, c.now.give, c.sending, c.sent, slices);
        if (w.travels(part, c.sent))
          send(w, c, track, c.now.give, c.sending, part, read(c, c.now.give, c.sending, part.range));
        if (slices > 1) c.sent_run_to_one();
        else c.sent_to_one();
        moved = true;
      }
    }
    if (c.may_receive(w.available(track))) moved |= c.now.keep.split ? receive_next(w, c, track) : receive(w, c, track);
    if (c.step_done()) {
      w.leave(c);
      return true;
    }
    return moved;
  }

  // To peer k, elements of a region where they lie in memory.
  void send(walk& w, detail::cursor const& c, int track, region const& r, int k, detail::message_slice const& part,
            std::vector<element> const& values) {
    int const peer = w.peer(c.now.to, c.now.forwards() ? k : c.sending);
    if (peer == c.me.rank) return;
    int pieces = 0;
    element const* data = nullptr;
    buffers& mine = buffers_of_rank(c);
    if (r.where != space::none)
      for (auto p = mine.memory.pieces(c.me.lane, r, mine.memory.share(r, r.split ? k : 0), part.range); p.count() > 0;
           p.skip(p.count()))
        ++pieces, data = p.data();
    std::size_t const bytes = part.range.count * sizeof(element);
    bool const refers =
        pieces == 1 && !trial_.is_eager(c.me.rank) &&
        ((trial_.how == travels::direct && bytes > inline_bytes) || (trial_.how == travels::pull && bytes >= 4096));
    trace_of(c, track).sent.push_back(
        {peer, part.more, values, refers, refers ? mine.place_of(data) : std::pair<int, std::ptrdiff_t>{}});
    channels_[{c.me.rank, peer, track}].push_back(values);
  }

  bool receive(walk& w, detail::cursor& c, int track) {
    auto const part = w.slice(c.me.lane, c.now.keep, 0, c.received);
    if (w.travels(part, c.received)) {
      for (int k = 0; k < c.now.from.count; ++k)
        if (!arrived(c, w.peer(c.now.from, k), track)) return false;
      std::vector<element> sum(part.range.count, 0);
      for (int k = 0; k < c.now.from.count; ++k) {
        std::vector<element> const next =
            contribution(c, w.peer(c.now.from, k), track, part, w.run(c.me.lane, c.now.keep, 0, c.received));
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
      }
      keep(c, 0, part.range, sum);
      if (c.now.forwards())
        for (int k = 0; k < c.now.to.count; ++k) send(w, c, track, c.now.keep, k, part, sum);
    }
    c.received_from_all();
    return true;
  }

  bool receive_next(walk& w, detail::cursor& c, int track) {
    int const peer = w.peer(c.now.from, c.receiving);
    auto const part = w.slice(c.me.lane, c.now.keep, c.receiving, c.received);
    if (w.travels(part, c.received)) {
      if (!arrived(c, peer, track)) return false;
      keep(c, c.receiving, part.range,
           contribution(c, peer, track, part, w.run(c.me.lane, c.now.keep, c.receiving, c.received)));
    }
    c.received_from_one();
    return true;
  }

  bool arrived(detail::cursor const& c, int peer, int track) {
    return peer == c.me.rank || !channels_[{peer, c.me.rank, track}].empty();
  }
  // A slice, which may have travelled in a run.
  std::vector<element> contribution(detail::cursor const& c, int peer, int track, detail::message_slice const& part,
                                    detail::message_slice const& run) {
    extent const& range = part.range;
    if (peer == c.me.rank) return read(c, c.now.own, 0, range);
    auto& queue = channels_[{peer, c.me.rank, track}];
    std::vector<element> out = queue.front();
    if (out.size() == run.range.count) {
      auto const begin = queue.front().begin() + static_cast<std::ptrdiff_t>(range.begin - run.range.begin);
      out.assign(begin, begin + static_cast<std::ptrdiff_t>(range.count));
      if (range.end() < run.range.end()) return out;
    }
    queue.pop_front();
    REQUIRE(out.size() == range.count);
    trace_of(c, track).released.push_back(peer);
    return out;
  }
  std::vector<element> read(detail::cursor const& c, region const& r, int k, extent range) {
    std::vector<element> out;
    surfaces<element> const& memory = buffers_of_rank(c).memory;
    for (auto p = memory.pieces(c.me.lane, r, memory.share(r, k), range); p.count() > 0; p.skip(p.count()))
      out.insert(out.end(), p.data(), p.data() + p.count());
    REQUIRE(out.size() == range.count);
    return out;
  }
  void keep(detail::cursor const& c, int k, extent range, std::vector<element> const& values) {
    if (c.now.keep.where == space::none) return;
    surfaces<element> const& memory = buffers_of_rank(c).memory;
    auto from = values.begin();
    for (auto p = memory.writable_pieces(c.me.lane, c.now.keep, memory.share(c.now.keep, k), range); p.count() > 0;
         p.skip(p.count())) {
      std::copy_n(from, p.count(), p.data());
      from += static_cast<std::ptrdiff_t>(p.count());
    }
  }

  buffers& buffers_of_rank(detail::cursor const& c) { return buffers_[static_cast<std::size_t>(c.me.rank)]; }
  trace& trace_of(detail::cursor const& c, int track) {
    return out_.traces[static_cast<std::size_t>(c.me.rank * tracks_ + track)];
  }

  trial trial_;
  std::vector<buffers> buffers_;
  std::vector<walk> walks_;
  int tracks_ = 0;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<element>>> channels_;
  outcome out_;
};

// The surfaces as an execution on the host sees them.
surfaces<std::byte> in_bytes(surfaces<element> const& s) {
  auto const where = [](layout const& l) { return l.times(sizeof(element)); };
  return {.input = {reinterpret_cast<std::byte const*>(s.input.data), where(s.input.where)},
          .output = {reinterpret_cast<std::byte*>(s.output.data), where(s.output.where)},
          .scratch = {reinterpret_cast<std::byte*>(s.scratch.data), where(s.scratch.where),
                      s.scratch.slice * sizeof(element)},
          .in_place = s.in_place};
}

// Ranks as threads, which make one call after the other.
class threads {
 public:
  explicit threads(int ranks) : references_(static_cast<std::size_t>(ranks)) {
    auto const hub = std::make_shared<loopback::hub>(ranks, max_tracks);
    for (int r = 0; r < ranks; ++r) endpoints_.push_back(std::make_unique<endpoint>(hub, r));
    for (reference_list& list : references_) list.reserve(1024);
  }

  outcome operator()(trial const& t) {
    std::vector<buffers> memory = buffers_of(t);
    std::vector<std::thread> ranks;
    std::atomic<int> late = 0;
    ++tag_;
    for (int r = 0; r < t.of.ranks; ++r)
      ranks.emplace_back([&, r] { late += !run(t, r, memory[static_cast<std::size_t>(r)]); });
    for (std::thread& rank : ranks) rank.join();
    REQUIRE_MESSAGE(late == 0, t.text(), ": not finished within a minute");
    return outcome_of(t, memory);
  }

 private:
  bool run(trial const& t, int rank, buffers& mine) {
    sum const op{};
    surfaces<std::byte> const memory = in_bytes(mine.memory);
    auto const r = static_cast<std::size_t>(rank);
    endpoints_[r]->messages.clear();
    endpoints_[r]->releases.clear();
    endpoints_[r]->isolated = t.how == travels::pull;
    std::vector<std::byte> fetched(t.slice * sizeof(element) * static_cast<std::size_t>(t.of.ranks));
    tutti::detail::access const how{.refers = t.how != travels::staged,
                                    .pulls = t.how == travels::pull,
                                    .shows_input = t.shows_memory(rank),
                                    .shows_output = t.shows_memory(rank),
                                    .slice = t.slice * sizeof(element),
                                    .fetched = fetched.data()};
    byte_body const body = reducing<element, sum>{op}.in_bytes();
    if (t.is_eager(rank))
      return for_collective(t.what, [&]<collective C>() {
        eager_execution<C, endpoint> call(*endpoints_[r], t.of, memory.input.data, memory.output.data,
                                          t.count * sizeof(element), body, tag_);
        return drive(call);
      });
    execution<endpoint, dynamic_schedule, byte_body> call(*endpoints_[r], &references_[r], t.schedule, t.of, memory,
                                                          body, tag_, how, t.uneven);
    return drive(call);
  }

  // Calls f<C>() for a collective that is known at run time.
  template <class F>
  static bool for_collective(collective what, F const& f) {
    bool done = false;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((every_collective[I] == what ? void(done = f.template operator()<every_collective[I]>()) : void()), ...);
    }(std::make_index_sequence<every_collective.size()>());
    return done;
  }

  // False if it does not end in time, or finds a message that it does not expect.
  template <class Execution>
  static bool drive(Execution& call) {
    auto const until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (progress last = call.poll(); last != progress::done; last = call.poll()) {
      if (last != progress::stuck) continue;
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::yield();
    }
    return !call.found();
  }

  outcome outcome_of(trial const& t, std::vector<buffers> const& memory) const {
    int const tracks = t.schedule.lanes(t.of) * t.schedule.phases(t.of);
    outcome out;
    out.traces.resize(endpoints_.size() * static_cast<std::size_t>(tracks));
    for (std::size_t r = 0; r < endpoints_.size(); ++r) {
      auto const trace_of = [&](int track) -> trace& {
        return out.traces[r * static_cast<std::size_t>(tracks) + static_cast<std::size_t>(track)];
      };
      for (testing::recorded_message const& m : endpoints_[r]->messages) {
        message sent{m.to,
                     m.more,
                     std::vector<element>(m.content.size() / sizeof(element)),
                     m.kind != testing::recorded_message::in_slot,
                     {}};
        if (!m.content.empty()) std::memcpy(sent.values.data(), m.content.data(), m.content.size());
        if (sent.refers) sent.place = memory[r].place_of(m.data);
        trace_of(m.track).sent.push_back(std::move(sent));
      }
      for (auto const& [from, track] : endpoints_[r]->releases) trace_of(track).released.push_back(from);
      out.results.push_back(memory[r].result());
    }
    return out;
  }

  std::vector<std::unique_ptr<endpoint>> endpoints_;
  std::vector<reference_list> references_;
  std::uint32_t tag_ = 0;
};

// Whether a run of slices is received at once depends on whether all runs have arrived. So if runs differ in length, a rank may have read
// one before or after another.
void forget_order_of_releases(outcome& o) {
  for (trace& one : o.traces) std::ranges::sort(one.released);
}

// The first difference between a run and the prediction; empty if there is none.
std::string difference(outcome const& expected, outcome const& found) {
  auto const text = [](message const& m) {
    return join({m.values.size(), " elements to rank ", m.to, m.more ? ", with more to follow" : "",
                 m.refers ? join({", by reference to ", m.place.first, ":", static_cast<long>(m.place.second)}) : ""});
  };
  for (std::size_t t = 0; t < expected.traces.size(); ++t) {
    std::string const here = join({"trace ", t, ": "});
    trace const &a = expected.traces[t], &b = found.traces[t];
    for (std::size_t i = 0; i < a.sent.size() && i < b.sent.size(); ++i)
      if (!(a.sent[i] == b.sent[i]))
        return join({here, "message ", i, ": expected ", text(a.sent[i]), "; found ", text(b.sent[i]),
                     a.sent[i].values == b.sent[i].values ? "" : "; elements differ"});
    if (a.sent.size() != b.sent.size())
      return join({here, "expected ", a.sent.size(), " messages; found ", b.sent.size()});
    if (a.released != b.released) return here + "messages are read in another order";
  }
  return expected.results == found.results ? "" : "results differ";
}

// 150 elements make three slices of 64, and slices end inside chunks. Fetched slices are longer, because a message below 4 KiB
// is not fetched.
constexpr std::size_t slice_for(travels how) { return how == travels::pull ? 600 : 64; }

// Calls f(trial) for every trial of a schedule.
template <class F>
void for_each_trial(algorithm_id id, collective c, dynamic_schedule const& s, int ranks, F f) {
  for (int const root : {0, ranks - 1}) {
    if (root > 0 && !rooted(c)) continue;
    for (bool const ordered : {false, true}) {
      if (ordered && (!reduces(c) || s.needs_commutative)) continue;
      for (travels const how : {travels::staged, travels::direct, travels::pull})
        for (bool const in_place : {false, true}) {
          if (in_place && !s.in_place) continue;
          if (how != travels::staged && !(in_place ? s.direct_in_place : s.direct)) continue;
          if (how == travels::pull && !s.fetchable) continue;
          std::size_t const slice = slice_for(how), several = 2 * slice + 22, runs = 2 * longest_run * slice + several;
          for (auto const& [count, uneven] : {std::pair{several, false},
                                              {slice, false},
                                              {std::size_t{3}, false},
                                              {several, true},
                                              {runs, false},
                                              {runs, true}}) {
            if (count == runs && how != travels::direct) continue;
            if (uneven && !(by_block(c) && s.ragged)) continue;
            if (uneven && in_place && analyze::renumbers(c)) continue;
            trial t{id, c, s, {ranks, root, ordered}, how, in_place, count, uneven, slice};
            if (!by_block(c) && count > slice) t.count *= static_cast<std::size_t>(s.chunks(t.of) * s.lanes(t.of));
            f(t);
            // Nobody reads what a barrier combines. A single rank does not execute a schedule.
            if (id != algorithm_id::one_shot || c == collective::barrier || ranks == 1 || how == travels::pull ||
                t.count > slice)
              continue;
            for (eager_ranks const some : {eager_ranks::odd, eager_ranks::all}) {
              t.eager = some;
              f(t);
            }
          }
        }
    }
  }
}

}  // namespace

TEST_CASE("a run sends what the cursor says") {
  int tried = 0;
  std::size_t references = 0, sliced = 0, runs = 0, eager = 0;
  for (int ranks = 1; ranks <= (testing::sanitized ? 4 : 9); ++ranks) {
    threads run(ranks);
    for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
      for_each_trial(id, c, s, ranks, [&](trial const& t) {
        outcome expected = account(t)(), found = run(t);
        if (t.uneven && t.shows_memory(0)) forget_order_of_releases(expected), forget_order_of_releases(found);
        std::string const differs = difference(expected, found);
        CHECK_MESSAGE(differs.empty(), t.text(), ": ", differs);
        for (trace const& one : expected.traces)
          for (message const& m : one.sent) references += m.refers, sliced += m.more, runs += m.values.size() > t.slice;
        eager += t.eager == eager_ranks::all;
        ++tried;
      });
    });
  }
  MESSAGE(tried, " calls, ", references, " references, ", sliced, " slices with more to follow");
  CHECK(references > 0);
  CHECK(sliced > 0);
  CHECK(runs > 0);
  CHECK(eager > 0);
}

TEST_CASE("a difference is found") {
  trial const t{algorithm_id::ring,
                collective::all_reduce,
                find_schedule(algorithm_id::ring, collective::all_reduce),
                {3},
                travels::staged,
                false,
                450,
                false,
                64};
  threads run(3);
  outcome const found = run(t);
  auto const differs = [&](outcome const& a, outcome const& b) { return difference(a, b); };
  REQUIRE(differs(account(t)(), found) == "");

  SUBCASE("a message that is not recorded") {
    outcome fewer = found;
    fewer.traces[1].sent.pop_back();
    CHECK(differs(account(t)(), fewer) == "trace 1: expected 12 messages; found 11");
  }
  SUBCASE("two messages in another order") {
    outcome other = found;
    std::swap(other.traces[2].sent[3], other.traces[2].sent[4]);
    CHECK(differs(account(t)(), other).find("trace 2: message 3: ") == 0);
  }
  SUBCASE("an element of another rank") {
    outcome other = found;
    ++other.traces[0].sent[0].values[5];
    CHECK(differs(account(t)(), other).find("elements differ") != std::string::npos);
  }
  SUBCASE("a message that is read before another") {
    outcome other = found;
    other.traces[0].released[0] = 1;
    CHECK(differs(account(t)(), other) == "trace 0: messages are read in another order");
  }
  SUBCASE("a cursor that cuts slices elsewhere") {
    trial longer = t;
    longer.slice = 65;
    CHECK(differs(account(longer)(), found) ==
          "trace 0: message 0: expected 65 elements to rank 1, with more to follow; found 64 elements to rank 1, with "
          "more to follow; elements differ");
  }
  SUBCASE("a cursor that takes all slices through a step") {
    trial by_step = t;
    by_step.schedule.pipelined = false;
    CHECK(differs(account(by_step)(), found).find("trace 0: message 1: ") == 0);
  }
}

TEST_CASE("a cursor that does not announce empty messages is found") {
  trial const t{algorithm_id::one_shot,
                collective::all_to_all,
                find_schedule(algorithm_id::one_shot, collective::all_to_all),
                {4},
                travels::staged,
                false,
                150,
                true,
                64};
  threads run(4);
  outcome const found = run(t);
  REQUIRE(difference(account(t)(), found) == "");
  outcome without = found;
  for (trace& one : without.traces) std::erase_if(one.sent, [](message const& m) { return m.values.empty(); });
  CHECK(difference(account(t)(), without) != "");
}

TEST_CASE("an empty message is announced through ranks that forward it") {
  trial const t{algorithm_id::ring,
                collective::broadcast,
                find_schedule(algorithm_id::ring, collective::broadcast),
                {4},
                travels::staged,
                false,
                0,
                true,
                64};
  threads run(4);
  outcome const expected = account(t)();
  CHECK(difference(expected, run(t)) == "");
  for (int rank = 0; rank < 3; ++rank) CHECK(expected.traces[static_cast<std::size_t>(rank)].sent.size() == 1);
}
