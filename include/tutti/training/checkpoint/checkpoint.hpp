// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints: the state of a training run in files, from which any number of ranks can resume it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/all_or_none.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/random.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/checkpoint/checkpoint_folder.hpp"
#include "tutti/training/checkpoint/held_arrays.hpp"
#include "tutti/training/same_parameters.hpp"

namespace tutti {
namespace detail {

// How many elements of each array every rank has: counts[rank * arrays + array]. Collective; throws unless all ranks have
// equal lists, and equal `lines` before them.
template <class Transport>
std::vector<std::uint64_t> agree_on_arrays(communicator<Transport>& comm, std::span<training::saved_array const> arrays,
                                           std::source_location where, std::vector<std::string> lines = {}) {
  all_or_none(comm, where, [&] { check_arrays(arrays); });
  std::vector<std::uint64_t> own;
  for (auto const& one : arrays) {
    lines.push_back(line_about(one));
    own.push_back(one.bytes.size() / one.element_bytes);
  }
  expect_same_lines(comm, lines, where, "save the same step on every rank, and list the same arrays in the same order");
  std::vector<std::uint64_t> all(own.size() * static_cast<std::size_t>(comm.size()));
  all_gather(comm, own, all, {}, where);
  return all;
}

// Collective, of arrays on which ranks have agreed. Throws mismatch on all ranks if one that is replicated differs between them.
template <class Transport>
void compare_replicated(communicator<Transport>& comm, std::span<training::saved_array const> arrays,
                        std::source_location where) {
  std::vector<std::uint32_t> const own = checksums_of_replicated(arrays);
  std::vector<std::uint32_t> all(own.size() * static_cast<std::size_t>(comm.size()));
  all_gather(comm, own, all, {}, where);
  expect_same_replicated(arrays, all, comm.size(), comm.rank(), where);
}

}  // namespace detail

namespace training {

struct checkpoint_options {
  int keep = 3;  // the newest checkpoints; older ones are removed
};

// What load() has restored.
struct resumed {
  bool found = false;                  // false if there is no checkpoint yet
  std::uint64_t step = 0;              // as passed to save()
  std::string path{};                  // of the checkpoint
  bool per_rank = false;               // whether arrays that are per_rank were restored
  std::vector<std::string> refused{};  // newer checkpoints that were not intact, and why

  explicit operator bool() const { return found; }
};

// The checkpoints in a folder that all ranks can reach; the folder is created, but not those above it. One job at a time
// saves to it. The same arguments on all ranks.
//
// A checkpoint is a folder checkpoint-<number>. Every rank writes a shard: its elements of arrays that are divided or
// per_rank, and a part of those that are replicated. Each file is written under another name, flushed and renamed. Rank 0
// writes the manifest when all shards are on the disk, so a checkpoint is complete or does not exist, whenever ranks are
// killed or the machine stops. Sizes and checksums (CRC-32C) in the manifest reveal files that were damaged later.
//
//   tutti::training::checkpoints saved("run", {.keep = 3});
//   std::vector const state{replicated("weights", weights), replicated("random", engine)};
//   std::uint64_t step = saved.load(comm, state).step;
//   ...
//   if (step % 100 == 0) saved.save(comm, step, state);
class checkpoints {
 public:
  // Throws error: bad_argument if options.keep is less than 1, or the folder has no name.
  explicit checkpoints(std::string folder, checkpoint_options options = {},
                       std::source_location where = std::source_location::current())
      : folder_(std::move(folder)), options_(options) {
    if (folder_.path().empty())
      tutti::detail::refuse(-1, "the folder of checkpoints has no name", "name one that all ranks can reach", where);
    if (options.keep < 1)
      tutti::detail::refuse(-1, tutti::detail::join({"checkpoint_options::keep is ", options.keep}),
                            "keep at least 1 checkpoint: the one that was just saved", where);
  }

  std::string const& folder() const { return folder_.path(); }

  // Saves the state after `step`. Collective; returns when the checkpoint is on the disk.
  // Throws error, the same on all ranks: system, with the rank, the file and the reason, if a file cannot be written (older
  // checkpoints are then untouched, and save() may be called again); mismatch if ranks pass another step or other arrays, or if
  // one that is replicated has other bits on one of them (structs with padding or floating-point members are not compared);
  // bad_argument for a name that is empty or used twice; rank_lost.
  //
  // Cost      each rank reads what is replicated for a checksum, writes its part and waits for the disk; a few collectives of
  //           16 bytes, and one of 4 bytes for each array that is replicated
  template <transport Transport>
  void save(communicator<Transport>& comm, std::uint64_t step, std::span<saved_array const> arrays,
            std::source_location where = std::source_location::current()) {
    using namespace tutti::detail;
    auto const ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
    held_arrays const held{arrays, agree_on_arrays(comm, arrays, where, {join({"step ", step})})};
    compare_replicated(comm, arrays, where);
    std::array<std::uint64_t, 2> key{};  // its number, and its identity
    all_or_none(comm, where, [&] {
      if (comm.is_main()) key = {folder_.begin(), random_number()};
    });
    broadcast(comm, key, 0, {}, where);

    manifest contents{.identity = key[1], .step = step, .arrays = held.divide()};
    std::array<std::uint64_t, 2> own{};
    try {
      all_or_none(comm, where, [&] {
        written_file const file = folder_.write_shard(key[0], contents, rank, arrays);
        own = {file.bytes, file.checksum};
      });
    } catch (error const&) {
      if (comm.is_main()) folder_.remove_files(key[0]);
      throw;
    }
    std::vector<std::uint64_t> all(2 * ranks);
    all_gather(comm, own, all, {}, where);
    for (std::size_t r = 0; r < ranks; ++r)
      contents.shards.push_back({all[2 * r], static_cast<std::uint32_t>(all[2 * r + 1])});
    all_or_none(comm, where, [&] {
      if (comm.is_main()) folder_.finish(key[0], contents, options_.keep);
    });
  }

  // Restores the newest checkpoint that is intact into `arrays`, if there is any, on any number of ranks: each gets all
  // elements of what is replicated, and as many of what is divided as its array has room for, in rank order. Arrays that are
  // per_rank are restored if the number of ranks and their sizes are those of the checkpoint. Collective.
  // Throws error, the same on all ranks: system, with what is wrong with each, if there are checkpoints but none is intact,
  // or if the folder cannot be read; bad_argument if the newest that is intact has other arrays or other types of elements;
  // mismatch; rank_lost. If it throws, the arrays have their old values, unless it is rank_lost or a timeout: then those of some
  // ranks may be new.
  //
  // Cost      every shard is read once and checked by one rank; then each rank reads what it needs, into memory of the size of
  //           its arrays, and copies it when all have succeeded
  template <transport Transport>
  resumed load(communicator<Transport>& comm, std::span<saved_array const> arrays,
               std::source_location where = std::source_location::current()) {
    using namespace tutti::detail;
    held_arrays const held{arrays, agree_on_arrays(comm, arrays, where)};
    std::vector<std::uint64_t> numbers;
    all_or_none(comm, where, [&] {
      if (comm.is_main()) numbers = folder_.list();
    });
    numbers = broadcast_list(comm, std::move(numbers), 0, where);

    resumed out;
    if (numbers.empty()) return out;
    copied_arrays copies;
    all_or_none(comm, where, [&] { copies = copied_arrays(arrays); });
    for (std::uint64_t const number : numbers) {
      std::string trouble = load_from(comm, number, held, copies, out, where);
      if (trouble.empty()) return out;
      folder_.refuse(number);
      out.refused.push_back(std::move(trouble));
    }
    std::string all;
    for (std::string const& one : out.refused) all += (all.empty() ? "" : "; ") + one;
    throw error({.code = error_code::system,
                 .rank = comm.rank(),
                 .what = join({"no checkpoint in ", folder(), " is intact: ", all}),
                 .way_out = "restore its files, or use an empty folder to start from the beginning",
                 .where = where});
  }

 private:
  // Restores one checkpoint. Returns why it cannot be used, the same on all ranks; empty if it was restored.
  template <transport Transport>
  std::string load_from(communicator<Transport>& comm, std::uint64_t number, tutti::detail::held_arrays const& held,
                        tutti::detail::copied_arrays const& copies, resumed& out, std::source_location where) {
    using namespace tutti::detail;
    auto const ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
    std::string const path = folder_.path_of(number);
    std::string text;
    first_failure seen = try_everywhere(comm, where, [&] {
      if (comm.is_main()) text = folder_.read_manifest(number);
    });
    if (seen) return join({path, "/manifest ", seen.what});
    text = broadcast_list(comm, text, 0, where);
    manifest saved;
    seen = try_everywhere(comm, where, [&] { saved = manifest::parse(text); });
    if (seen) return join({path, "/manifest ", seen.what});
    if (std::string const other = held.difference_to(saved); !other.empty())
      throw error({.code = error_code::bad_argument,
                   .rank = comm.rank(),
                   .what = join({path, " does not belong to this program: ", other}),
                   .way_out = "use another folder, or the program that wrote it",
                   .where = where});
    seen = try_everywhere(comm, where, [&] {
      for (std::size_t s = rank; s < saved.shards.size(); s += ranks) folder_.check_shard(number, saved, s);
    });
    if (seen) return seen.what;
    bool const per_rank = held.same_per_rank(saved);
    seen = try_everywhere(comm, where, [&] { folder_.read(number, saved, copies.all(), held.begins(rank), per_rank); });
    if (seen) return seen.what;
    copies.restore(held.arrays, per_rank);
    out.found = true, out.step = saved.step, out.path = path, out.per_rank = per_rank;
    return {};
  }

  tutti::detail::checkpoint_folder folder_;
  checkpoint_options options_;
};

}  // namespace training
}  // namespace tutti
