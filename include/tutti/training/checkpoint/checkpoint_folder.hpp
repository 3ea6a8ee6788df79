// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files of checkpoints: the part of training/checkpoint/checkpoint.hpp in which a rank needs no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/training/checkpoint/durable_file.hpp"
#include "tutti/training/checkpoint/manifest.hpp"
#include "tutti/training/checkpoint/saved_array.hpp"

namespace tutti::detail {

// A folder with a folder for each checkpoint, checkpoint-<number>, which holds the shards and then the manifest. Numbers
// only rise, even if saving fails, so a checkpoint never replaces the files of another, and a rank that is late cannot write to
// one that is newer. A checkpoint exists as soon as its manifest does. All functions throw error: system.
class checkpoint_folder {
 public:
  explicit checkpoint_folder(std::string path) : path_(std::move(path)) {}

  std::string const& path() const { return path_; }
  std::string path_of(std::uint64_t number) const;

  // -- Rank 0.

  // Removes what checkpoints that were never finished have left, and creates a folder for a new one. Throws if no number is higher
  // than those of the others. If another job saves to the folder, a save of it that has succeeded stays; one that fails because its folder
  // has another name meanwhile may have left its checkpoint.
  [[gnu::cold]] std::uint64_t begin();
  // Makes the checkpoint exist, and then removes all but the last `keep`. Refused ones do not count and stay. Throws if a shard has been
  // removed meanwhile. If the checkpoint cannot be completed, its files are removed.
  [[gnu::cold]] void finish(std::uint64_t number, manifest const& contents, int keep);
  // Removes the files of a checkpoint; whenever this is interrupted, it is either intact or does not exist. Its folder keeps the number
  // taken until there is a higher one.
  [[gnu::cold]] void remove_files(std::uint64_t number) const noexcept;
  // The numbers of those that exist, the newest first. None if there is no such folder.
  [[gnu::cold]] std::vector<std::uint64_t> list() const;
  [[gnu::cold]] std::string read_manifest(std::uint64_t number) const;
  void refuse(std::uint64_t number) { refused_.insert(number); }

  // -- All ranks.

  [[gnu::cold]] written_file write_shard(std::uint64_t number, manifest const& contents, std::size_t shard,
                                         std::span<training::saved_array const> arrays) const;
  // Throws if the file is not the shard that the manifest describes.
  [[gnu::cold]] void check_shard(std::uint64_t number, manifest const& contents, std::size_t shard) const;
  // Reads the elements that this rank holds from whichever shards have them; begins[a] is the number of the first of array a.
  [[gnu::cold]] void read(std::uint64_t number, manifest const& contents, std::span<training::saved_array const> arrays,
                          std::span<std::uint64_t const> begins, bool per_rank) const;

 private:
  std::vector<std::uint64_t> numbers(std::string_view suffix = {}) const;  // of all folders, the newest first
  std::string aside_of(std::uint64_t number) const;  // the folder under the name that it has before it is removed
  bool restore_if_finished(std::uint64_t number) const;
  void complete(std::uint64_t number, manifest const& contents) const;
  void expect_shard(std::uint64_t number, std::size_t shard) const;
  void remove(std::uint64_t number) const noexcept;

  std::string path_;
  std::set<std::uint64_t> refused_;
};

// Memory for the values of a checkpoint until all ranks have theirs.
class copied_arrays {
 public:
  copied_arrays() = default;
  [[gnu::cold]] explicit copied_arrays(std::span<training::saved_array const> arrays);

  // As large as the arrays.
  std::span<training::saved_array const> all() const { return all_; }
  [[gnu::cold]] void restore(std::span<training::saved_array const> arrays, bool per_rank) const;

 private:
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<training::saved_array> all_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/checkpoint/checkpoint_folder_impl.hpp"
#endif
