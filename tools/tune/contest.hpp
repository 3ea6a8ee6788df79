// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A contest at one message size: algorithms and protocols take turns, block by block, and the slow ones drop out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "start_line.hpp"
#include "tutti/tutti.hpp"

namespace tuning {

// A rank's two arrays, long enough for the largest contest.
struct arrays {
  std::span<float> first, second;
};
// Peers read memory from communicator::allocate in place, and copies of other memory. A rank does not know which kind its peers
// use, so both kinds need the same choice.
struct memories {
  arrays own, shared;
};

// A collective on floats. As in tutti::detail::problem, `bytes` is the size of the message, or of a block.
struct contest {
  tutti::collective what{};
  std::size_t bytes = 0;
  int ranks = 1;

  std::size_t count() const { return bytes / sizeof(float); }
  // Floats in the larger array of a rank.
  std::size_t max_floats() const { return count() * (tutti::by_block(what) ? static_cast<std::size_t>(ranks) : 1); }
};

// The input of a rank's call, and the call.
inline std::span<float> input(contest const& t, arrays const& a) {
  return a.first.first(tutti::deals(t.what) ? t.max_floats() : t.count());
}
template <class Transport>
void call(tutti::communicator<Transport>& comm, contest const& t, arrays const& a, tutti::options const& o) {
  std::span<float const> const in = input(t, a);
  std::span<float> const out = a.second.first(tutti::collects(t.what) ? t.max_floats() : t.count());
  switch (t.what) {
    case tutti::collective::all_reduce: return tutti::all_reduce(comm, in, out, tutti::sum{}, o);
    case tutti::collective::reduce: return tutti::reduce(comm, in, out, tutti::sum{}, 0, o);
    case tutti::collective::broadcast: return tutti::broadcast(comm, input(t, a), 0, o);
    case tutti::collective::reduce_scatter: return tutti::reduce_scatter(comm, in, out, tutti::sum{}, o);
    case tutti::collective::all_gather: return tutti::all_gather(comm, in, out, o);
    case tutti::collective::gather: return tutti::gather(comm, in, out, 0, o);
    case tutti::collective::scatter: return tutti::scatter(comm, in, out, 0, o);
    case tutti::collective::all_to_all: return tutti::all_to_all(comm, in, out, o);
    case tutti::collective::barrier: return tutti::barrier(comm, o);
    case tutti::collective::scan: return tutti::scan(comm, in, out, tutti::sum{}, o);
    case tutti::collective::exclusive_scan: return tutti::exclusive_scan(comm, in, out, tutti::sum{}, o);
  }
}

// Nanoseconds of a call at the slowest rank.
struct times {
  double alone = 0;     // all ranks begin at once, and have just written their inputs
  double in_a_row = 0;  // one call after another, with the same inputs
};

// The times of a contestant: medians over all blocks.
struct result {
  contest of{};
  bool crowded = false;
  tutti::algorithm_id algorithm{};
  tutti::protocol how{};
  int blocks = 0;
  times own{};     // in private arrays
  times shared{};  // in arrays that peers read in place; the same if that makes no difference

  // Programs call in both ways, with both kinds of memory, and each counts equally.
  double score() const { return std::pow(own.alone * own.in_a_row * shared.alone * shared.in_a_row, 0.25); }
};

template <class Numbers>
double median(Numbers values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The time of a measurement in nanoseconds: a contestant's block takes about `block`, and no block starts `limit` after `began`, by the
// clock of rank 0.
struct pace {
  double block = 0;
  std::int64_t began = 0;
  double limit = std::numeric_limits<double>::infinity();
};

inline constexpr int blocks_of_contest = 30;  // about so many, because most contestants drop out

// Runs contests. The field gives all ranks the same times, so they drop the same contestants.
template <class Transport, class Field>
class referee {
 public:
  referee(tutti::communicator<Transport>& comm, Field& field, memories const& memory, pace const& time)
      : comm_(comm), field_(field), memory_(memory), time_(time), crowded_(comm.engine().transport().crowded()) {}

  // Empty if the time is up.
  std::vector<result> hold(contest const& t) {
    std::vector<contestant> all = contestants(t);
    in_time_ = ended_;                                               // without repetitions until all have raced once
    for (contestant& c : all) race(t, c, t.bytes <= 65536 ? 3 : 1);  // the first calls touch memory
    drop(t, all, 8);
    for (contestant& c : all) c.own = c.shared = {};
    in_time_ = ended_ + 2 * blocks_of_contest * time_.block;
    // One block that the system disturbed must not drop a contestant, so nobody is dropped after the first.
    static constexpr double margins[] = {never, 2, 1.4, 1.25, 1.15, 1.1};
    for (double const margin : margins) {
      for (contestant& c : all)
        if (!c.out) race(t, c, static_cast<int>(std::clamp(time_.block / c.wall, 1.0, 1.0 * max_samples)));
      if (is_late()) return {};
      drop(t, all, margin);
      if (ended_ > in_time_) break;  // other programs make it slow
    }
    std::vector<result> out;
    for (contestant const& c : all)
      if (!c.own.alone.empty()) out.push_back(result_of(t, c));
    return out;
  }
  bool is_late() const { return ended_ > time_.limit; }
  disturbance const& seen() const { return seen_; }

 private:
  struct blocks {
    std::vector<double> alone{}, in_a_row{};

    times medians() const { return {median(alone), median(in_a_row)}; }
    times least() const { return {std::ranges::min(alone), std::ranges::min(in_a_row)}; }
  };
  struct contestant {
    tutti::algorithm_id algorithm{};
    tutti::protocol how{};
    blocks own{}, shared{};
    double wall = 0;  // of a sample in each way, including the work around the calls
    bool out = false;
  };

  static constexpr double never = std::numeric_limits<double>::infinity();
  static constexpr bool shares = tutti::detail::maps_memory<Transport>;
  // Below this size a system call costs more than the copy, and the kind of memory makes no difference.
  static constexpr std::size_t min_pulled = 4096;

  std::vector<contestant> contestants(contest const& t) {
    std::vector<contestant> out;
    tutti::detail::problem p{t.what, t.bytes, t.ranks};
    if (tutti::detail::has_native_collectives<Transport>)
      out.push_back({tutti::algorithm_id::native, tutti::protocol::automatic});
    for (std::size_t i = 1; i <= tutti::algorithms::size; ++i) {
      auto const id = static_cast<tutti::algorithm_id>(i);
      if (!tutti::detail::objection(id, p).empty()) continue;
      out.push_back({id, tutti::protocol::automatic});
      if (pulls() && t.bytes >= min_pulled && tutti::detail::may_pull(id, t.what))
        out.push_back({id, tutti::protocol::pull});
    }
    if constexpr (tutti::detail::has_levels<Transport>) {
      p.nodes = comm_.engine().transport().nodes().consecutive() ? tutti::detail::node_order::consecutive
                                                                 : tutti::detail::node_order::scattered;
      if (tutti::detail::objection(tutti::algorithm_id::two_level, p).empty())
        out.push_back({tutti::algorithm_id::two_level, tutti::protocol::automatic});
    }
    return out;
  }

  bool pulls() const {
    if constexpr (shares) return comm_.engine().transport().pulls();
    else return false;
  }

  result result_of(contest const& t, contestant const& c) const {
    return {t,
            crowded_,
            c.algorithm,
            c.how,
            static_cast<int>(c.own.alone.size()),
            c.own.medians(),
            (kind_matters(t) ? c.shared : c.own).medians()};
  }
  double least_score(contest const& t, contestant const& c) const {
    return result{.own = c.own.least(), .shared = (kind_matters(t) ? c.shared : c.own).least()}.score();
  }
  static bool kind_matters(contest const& t) { return shares && t.bytes >= min_pulled; }

  void race(contest const& t, contestant& c, int samples) {
    c.wall = race_in(t, c, memory_.own, c.own, samples);
    if (kind_matters(t)) c.wall += race_in(t, c, memory_.shared, c.shared, samples);
  }
  double race_in(contest const& t, contestant const& c, arrays const& memory, blocks& to, int samples) {
    laps const alone = undisturbed([&] { return run_alone(t, c, memory, samples); }),
               in_a_row = undisturbed([&] { return run_in_a_row(t, c, memory, samples); });
    to.alone.push_back(median(alone.slowest));
    to.in_a_row.push_back(median(in_a_row.slowest));
    return (alone.notes.wall + in_a_row.notes.wall) / samples;
  }

  // The laps of a block, which is repeated if another program had the core of a rank for long. Ranks that share cores take them from
  // each other.
  template <class Block>
  laps undisturbed(Block const& run) {
    static constexpr int most_tries = 3;
    for (int tries = 1;; ++tries) {
      if (is_late()) return {{0}};
      laps out = run();
      ended_ = out.notes.ended;
      if (crowded_) return out;
      bool const disturbed = out.notes.lost > 0.1;
      seen_ += {1, disturbed ? std::size_t{1} : 0};
      if (!disturbed || tries == most_tries || ended_ > in_time_) return out;
    }
  }

  laps run_alone(contest const& t, contestant const& c, arrays const& memory, int samples) {
    bool const only_root = t.what == tutti::collective::broadcast || t.what == tutti::collective::scatter;
    std::vector<double> own;
    stop_watch const watch;
    for (int i = 0; i < samples; ++i) {
      // Applications write their inputs before a call. Inputs that are in a peer's cache already would give better times.
      if (!only_root || comm_.rank() == 0) std::ranges::fill(input(t, memory), static_cast<float>(i & 3));
      std::int64_t const start = field_.start();
      call(comm_, t, memory, options_of(c));
      own.push_back(static_cast<double>(now() - start));
    }
    return field_.finish(own, watch.notes(time_.began));
  }
  // Its times are the means of some calls each.
  laps run_in_a_row(contest const& t, contestant const& c, arrays const& memory, int samples) {
    int const parts = std::min(samples, 16);
    std::vector<double> own;
    stop_watch const watch;
    std::int64_t before = field_.start();
    for (int part = 0; part < parts; ++part) {
      int const calls = samples * (part + 1) / parts - samples * part / parts;
      for (int i = 0; i < calls; ++i) call(comm_, t, memory, options_of(c));
      std::int64_t const after = now();
      own.push_back(static_cast<double>(after - before) / calls);
      before = after;
    }
    return field_.finish(own, watch.notes(time_.began));
  }
  static tutti::options options_of(contestant const& c) { return {.algorithm = c.algorithm, .protocol = c.how}; }

  // Drops contestants that take more than `margin` times as long as the best with the same protocol. Protocols are separate because
  // the best without pull decides where peers cannot read private memory.
  void drop(contest const& t, std::vector<contestant>& all, double margin) const {
    for (tutti::protocol const how : {tutti::protocol::automatic, tutti::protocol::pull}) {
      double best = std::numeric_limits<double>::max();
      for (contestant const& c : all)
        if (c.how == how && !c.out) best = std::min(best, least_score(t, c));
      for (contestant& c : all)
        if (c.how == how && !c.out) c.out = least_score(t, c) > margin * best;
    }
  }

  tutti::communicator<Transport>& comm_;
  Field& field_;
  memories const& memory_;
  pace time_;
  bool crowded_;
  double ended_ = 0;    // the last block, in nanoseconds since the measurement began
  double in_time_ = 0;  // when the contest should end
  disturbance seen_{};
};

}  // namespace tuning
