// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of elastic training: what brings all ranks of a new group to the same step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/all_or_none.hpp"
#include "tutti/collective/all_to_all.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/checkpoint/checkpoint.hpp"
#include "tutti/training/checkpoint/durable_file.hpp"
#include "tutti/training/elastic/elastic_options.hpp"
#include "tutti/training/elastic/snapshots.hpp"
#include "tutti/training/elastic/standing.hpp"
#include "tutti/transport/absence.hpp"

namespace tutti::detail {

template <class Transport>
class elastic_state {
 public:
  explicit elastic_state(training::elastic_options const& options) : options_(options) {
    if (!options.folder.empty())
      checkpoints_.emplace(options.folder, training::checkpoint_options{.keep = options.keep});
  }

  std::uint64_t step = 0;        // completed
  std::uint64_t generation = 0;  // of the group
  std::uint64_t saved = 0;
  training::resumed restored{};  // the last checkpoint that was loaded

  // Collective. Checks the arrays, which all ranks list alike.
  void describe(communicator<Transport>& comm, std::vector<training::saved_array> arrays, std::source_location where) {
    arrays_ = std::move(arrays);
    all_or_none(comm, where, [&] {
      for (auto const& one : arrays_)
        if (one.how == training::spread::per_rank)
          throw error(
              {.code = error_code::bad_argument,
               .what = join(
                   {"array \"", one.name, "\" of elastic training is per_rank, so it would be lost with its rank"}),
               .way_out =
                   "keep such values for each shard of the data, and list those of this rank's shards as divided"});
    });
    counts_ = agree_on_arrays(comm, arrays_, where);
    lines_.clear();
    for (auto const& one : arrays_) lines_ += line_about(one) + '\n';
  }
  std::vector<standing> tell(communicator<Transport>& comm, standing mine, std::source_location where) {
    snapshot const* const last = snapshots_.last();
    mine.has_snapshot = last != nullptr ? 1 : 0;
    if (last != nullptr) mine.last = last->when;
    mine.saved = saved;
    std::vector<standing> all(static_cast<std::size_t>(comm.size()));
    all_gather(comm, std::span(&mine, 1), all, {}, where);
    for (auto const& one : all) saved = std::max(saved, one.saved);
    return all;
  }

  // Collective, after describe. All ranks get the state of the oldest of their last snapshots, those that are new from others; if
  // there are no snapshots, the newest checkpoint, or else the values of rank 0.
  void restore(communicator<Transport>& comm, std::span<standing const> all, std::source_location where) {
    bool found = false;
    moment when{};
    for (auto const& one : all) {
      if (one.has_snapshot == 0) continue;
      when = found ? std::min(when, one.last) : one.last;
      found = true;
    }
    if (found) {
      snapshots_.keep_only(when);
      step = when.step;
      restore_snapshot(comm, when, where);
    } else {
      all_or_none(comm, where, [&] {
        if (comm.is_main() && options_.checkpoint_every > 0) make_durable_folder(options_.folder);
      });
      if (!load(comm, where)) send_replicated(comm, 0, where);
    }
  }

  // Collective, if arrays are divided. The state is that after `step`. No rank takes the next snapshot before all have taken this
  // one, for which the caller sees.
  void take_snapshot(communicator<Transport>& comm, std::source_location where) {
    auto const p = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
    snapshot& mine = snapshots_.take({generation, step}, comm.rank(), comm.size(), counts_, arrays_);
    mine.lines = lines_;
    if (p > 1 && has_divided()) {
      std::vector<std::size_t> sends(p), receives(p);
      auto const before = static_cast<std::size_t>(mine.guarded_rank());
      sends[(me + 1) % p] = mine.divided.size();
      receives[before] = snapshots::divided_bytes(counts_, before, arrays_);
      mine.guarded.resize(receives[before]);
      all_to_all_v(comm, mine.divided, sends, mine.guarded, receives, {}, {}, {}, where);
    }
    snapshots_.complete();
  }
  bool has_snapshot_of(std::uint64_t some_step) const {
    snapshot const* const last = snapshots_.last();
    return last != nullptr && last->when == moment{generation, some_step};
  }
  // When all ranks have taken the first snapshot of a generation.
  void forget_others() { snapshots_.keep_only({generation, step}); }

  // Collective. A checkpoint of the state after `step`.
  void save(communicator<Transport>& comm, std::source_location where) {
    checkpoints_->save(comm, step, arrays_, where);
    saved = step;
  }
  bool should_save() const {
    return options_.checkpoint_every > 0 && step > saved && step % options_.checkpoint_every == 0;
  }

 private:
  bool has_divided() const {
    return std::ranges::any_of(arrays_, [](auto const& one) { return one.how != training::spread::replicated; });
  }

  // Whether there was a checkpoint.
  bool load(communicator<Transport>& comm, std::source_location where) {
    if (!checkpoints_) return false;
    restored = checkpoints_->load(comm, arrays_, where);
    if (restored.found) step = saved = restored.step;
    return restored.found;
  }

  void send_replicated(communicator<Transport>& comm, int root, std::source_location where) {
    for (auto const& one : arrays_)
      if (one.how == training::spread::replicated) broadcast(comm, one.bytes, root, {}, where);
  }

  void restore_snapshot(communicator<Transport>& comm, moment when, std::source_location where) {
    auto const me = static_cast<std::size_t>(comm.rank());
    snapshot const* const mine = snapshots_.find(when);
    std::vector<int> const ranks = all_gather(comm, mine != nullptr ? mine->rank : -1, {}, where);  // in its generation
    auto const holder = static_cast<int>(std::ranges::find_if(ranks, [](int r) { return r >= 0; }) - ranks.begin());
    expect_same_arrays(lines_, broadcast_list(comm, mine != nullptr ? mine->lines : std::string(), holder, where),
                       comm.rank(), where);
    auto const before =
        broadcast_list(comm, mine != nullptr ? mine->counts : std::vector<std::uint64_t>(), holder, where);
    expect_same_size(comm, before, where);

    if (mine != nullptr) snapshots::restore_replicated(*mine, arrays_);
    if (std::ranges::count(ranks, -1) > 0) send_replicated(comm, holder, where);
    if (!has_divided()) return;
    int const owners = static_cast<int>(before.size() / arrays_.size());
    std::vector<int> sources, lost;
    for (int r = 0; r < owners; ++r) {
      auto const own = std::ranges::find(ranks, r), guard = std::ranges::find(ranks, (r + 1) % owners);
      sources.push_back(static_cast<int>((own != ranks.end() ? own : guard) - ranks.begin()));
      if (own == ranks.end() && guard == ranks.end()) lost.push_back(r);
    }
    if (!lost.empty()) return restore_lost_parts(comm, lost, where);
    std::vector<std::byte> part;
    for (int r = 0; r < owners; ++r) {
      auto const owner = static_cast<std::size_t>(r);
      if (sources[owner] == comm.rank()) part = mine->rank == r ? mine->divided : mine->guarded;
      part.resize(snapshots::divided_bytes(before, owner, arrays_));
      broadcast(comm, part, sources[owner], {}, where);
      snapshots::place_part(part, before, owner, counts_, me, arrays_);
    }
  }

  // Throws, the same on all ranks, if arrays have other sizes than those of the snapshot.
  void expect_same_size(communicator<Transport>& comm, std::span<std::uint64_t const> before,
                        std::source_location where) const {
    auto const total = [&](std::span<std::uint64_t const> counts, std::size_t a) {
      std::uint64_t out = 0;
      for (std::size_t i = a; i < counts.size(); i += arrays_.size())
        out = arrays_[a].how == training::spread::replicated ? counts[i] : out + counts[i];
      return out;
    };
    for (std::size_t a = 0; a < arrays_.size(); ++a) {
      bool const fits = before.size() % arrays_.size() == 0;
      if (fits && total(before, a) == total(counts_, a)) continue;
      throw error({.code = error_code::bad_argument,
                   .rank = comm.rank(),
                   .what = join({"array \"", arrays_[a].name, "\" of elastic training has ", total(counts_, a),
                                 " elements on all ranks together, but had ", fits ? total(before, a) : 0,
                                 " before the ranks changed"}),
                   .way_out = "list the same arrays whenever the ranks change; their parts add up to the same elements",
                   .where = where});
    }
  }

  // A rank and the one that guards its parts have ended at once.
  void restore_lost_parts(communicator<Transport>& comm, std::vector<int> const& lost, std::source_location where) {
    if (load(comm, where)) return;
    bool const saves = options_.checkpoint_every > 0;
    throw error(
        {.code = error_code::system,
         .rank = comm.rank(),
         .what = join({"the parts of rank ", list_of(lost),
                       " of arrays that are divided are lost, because the next rank, which had a copy, was lost too",
                       saves ? join({"; there is no checkpoint in ", options_.folder, " yet"}) : ""}),
         .way_out =
             saves ? "start the job again, or save more often (elastic_options::checkpoint_every)"
                   : "write checkpoints (elastic_options::checkpoint_every, folder), to which the ranks can return",
         .where = where});
  }

  training::elastic_options const& options_;
  std::optional<training::checkpoints> checkpoints_;  // if there is a folder
  snapshots snapshots_;
  std::vector<training::saved_array> arrays_;
  std::string lines_;                  // about each of them
  std::vector<std::uint64_t> counts_;  // counts_[rank * arrays + array] elements
};

}  // namespace tutti::detail
