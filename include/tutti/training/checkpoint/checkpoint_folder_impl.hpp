// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/checkpoint/checkpoint_folder.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <dirent.h>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/file.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/checkpoint/checkpoint_folder.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

inline constexpr std::string_view checkpoint_prefix = "checkpoint-";
inline constexpr char manifest_name[] = "manifest";
inline constexpr std::string_view aside = ".removed";  // ends the name of a folder that is about to be removed

TUTTI_INLINE std::string shard_name(std::size_t shard) { return join({"shard-", shard}); }

// Calls f(name) for each entry; false, with the reason in errno, if the folder cannot be read.
TUTTI_INLINE bool for_each_entry(std::string const& path, std::function<void(std::string_view)> const& f) {
  struct close_folder {
    void operator()(DIR* open) const noexcept { ::closedir(open); }
  };
  std::unique_ptr<DIR, close_folder> folder(::opendir(path.c_str()));
  if (!folder) return false;
  errno = 0;
  while (dirent const* const entry = ::readdir(folder.get())) {
    f(entry->d_name);
    errno = 0;
  }
  int const reason = errno;
  folder.reset();
  errno = reason;
  return reason == 0;
}

TUTTI_INLINE std::string checkpoint_name(std::uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "%06llu", static_cast<unsigned long long>(number));
  return join({checkpoint_prefix, text});
}
TUTTI_INLINE std::string checkpoint_folder::path_of(std::uint64_t number) const {
  return join({path_, "/", checkpoint_name(number)});
}

TUTTI_INLINE std::string checkpoint_folder::aside_of(std::uint64_t number) const {
  return join({path_of(number), aside});
}

// Only what is known to lack a manifest does not exist. If the file system cannot tell, begin() must not remove the checkpoint.
TUTTI_INLINE bool has_manifest(std::string const& folder) {
  return ::access(join({folder, "/", manifest_name}).c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

TUTTI_INLINE void remove_files_in(std::string const& folder) noexcept try {
  // First, so that a crash of the machine does not leave a manifest without shards.
  if (::unlink(join({folder, "/", manifest_name}).c_str()) == 0) flush_folder(folder);
  std::vector<std::string> names;
  for_each_entry(folder, [&](std::string_view name) { names.emplace_back(name); });
  for (std::string const& name : names)
    if (name.starts_with("shard-") || name.starts_with(manifest_name)) ::unlink(join({folder, "/", name}).c_str());
} catch (...) {  // it is tried again when the next checkpoint is saved
}

TUTTI_INLINE std::vector<std::uint64_t> checkpoint_folder::numbers(std::string_view suffix) const {
  std::vector<std::uint64_t> out;
  bool const found = for_each_entry(path_, [&](std::string_view name) {
    if (!name.starts_with(checkpoint_prefix)) return;
    std::uint64_t number = 0;
    std::from_chars(name.data() + checkpoint_prefix.size(), name.data() + name.size(), number);
    if (name == join({checkpoint_name(number), suffix})) out.push_back(number);
  });
  if (!found && errno == ENOTDIR)
    throw_system(join({"cannot read ", path_}), "name a folder: this, or what is above it, is a file", ENOTDIR);
  if (!found && errno != ENOENT) throw_system(join({"cannot read ", path_}), "check its permissions");
  std::ranges::sort(out, std::greater{});
  return out;
}

TUTTI_INLINE std::vector<std::uint64_t> checkpoint_folder::list() const {
  std::vector<std::uint64_t> out = numbers();
  std::erase_if(out, [&](std::uint64_t number) { return !has_manifest(path_of(number)); });
  return out;
}

// Another job may complete a checkpoint at any moment, but not while its folder has another name. So what is unfinished is given one and
// looked at once more before it is removed: a save that has succeeded is not undone.
TUTTI_INLINE std::uint64_t checkpoint_folder::begin() {
  make_durable_folder(path_);
  std::vector<std::uint64_t> all = numbers();
  for (std::uint64_t const one : all)
    if (!has_manifest(path_of(one))) ::rename(path_of(one).c_str(), aside_of(one).c_str());
  std::vector<std::uint64_t> unfinished = numbers(aside);  // with those of a job that was killed here
  all.insert(all.end(), unfinished.begin(), unfinished.end());
  std::erase_if(unfinished, [&](std::uint64_t one) { return restore_if_finished(one); });
  for (std::uint64_t const one : unfinished) remove_files_in(aside_of(one));

  std::uint64_t last = all.empty() ? 0 : std::ranges::max(all);
  while (true) {
    if (last == std::numeric_limits<std::uint64_t>::max())
      throw error({.code = error_code::system,
                   .what = join({path_of(last),
                                 " has the highest possible number, so no newer checkpoint can be saved in ", path_}),
                   .way_out = "give it a lower number, or save to an empty folder"});
    make_folder(path_of(last + 1));
    // A folder that another job was giving another name was perhaps not seen. A newer one exists before that is removed.
    std::uint64_t newest = 0;
    for (std::string_view const suffix : {std::string_view(), aside})
      if (auto const now = numbers(suffix); !now.empty()) newest = std::max(newest, now.front());
    if (newest <= last + 1) break;
    ::rmdir(path_of(last + 1).c_str());
    last = newest;
  }
  for (std::uint64_t const one : unfinished)
    if (::rmdir(aside_of(one).c_str()) != 0)  // it holds something else
      ::rename(aside_of(one).c_str(), path_of(one).c_str());
  return last + 1;
}

TUTTI_INLINE bool checkpoint_folder::restore_if_finished(std::uint64_t number) const {
  if (!has_manifest(aside_of(number))) return false;
  if (::rename(aside_of(number).c_str(), path_of(number).c_str()) == 0) flush_folder(path_);
  return true;
}

TUTTI_INLINE void checkpoint_folder::finish(std::uint64_t number, manifest const& contents, int keep) {
  try {
    complete(number, contents);
  } catch (...) {
    remove_files(number);
    throw;
  }
  int newer = 0;
  for (std::uint64_t const one : list())
    if (!refused_.contains(one) && ++newer > keep) remove(one);
}

TUTTI_INLINE void checkpoint_folder::complete(std::uint64_t number, manifest const& contents) const {
  std::string const text = contents.text();
  if (text.size() > max_file_bytes)
    throw error(
        {.code = error_code::system,
         .what = join({"the manifest of ", contents.arrays.size(), " arrays on ", contents.shards.size(),
                       " ranks would have ", text.size(), " bytes, but only ", max_file_bytes, " could be read again"}),
         .way_out = "save fewer arrays, or give them shorter names"});
  std::array const parts{std::as_bytes(std::span(text))};
  write_durably(path_of(number), manifest_name, parts);
  for (std::size_t s = 0; s < contents.shards.size(); ++s) expect_shard(number, s);
  flush_folder(path_);
}

// begin() of another job takes a checkpoint that has no manifest yet for one that was never finished. It may also have another name for
// a moment.
TUTTI_INLINE void checkpoint_folder::expect_shard(std::uint64_t number, std::size_t shard) const {
  std::string const path = join({path_of(number), "/", shard_name(shard)});
  if (::access(path.c_str(), F_OK) != 0)
    throw_system(join({path, " is gone, although it has just been written"}),
                 "let only one job at a time save to this folder: another one seems to have removed the file");
}

TUTTI_INLINE void checkpoint_folder::remove(std::uint64_t number) const noexcept try {
  remove_files(number);
  ::rmdir(path_of(number).c_str());
} catch (std::bad_alloc const&) {  // begin() removes it
}

TUTTI_INLINE void checkpoint_folder::remove_files(std::uint64_t number) const noexcept try {
  remove_files_in(path_of(number));
} catch (std::bad_alloc const&) {  // it is tried again when the next checkpoint is saved
}

TUTTI_INLINE std::string checkpoint_folder::read_manifest(std::uint64_t number) const {
  std::string const path = join({path_of(number), "/", manifest_name});
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))  // the end of a pipe might never come
    throw error({.code = error_code::system, .what = "is not a file"});
  auto text = read_file(path);
  if (!text) throw_system("cannot be read", "check its permissions");
  return *std::move(text);
}

TUTTI_INLINE written_file checkpoint_folder::write_shard(std::uint64_t number, manifest const& contents,
                                                         std::size_t shard,
                                                         std::span<training::saved_array const> arrays) const {
  std::string const head = contents.head(shard);
  std::vector<std::span<std::byte const>> parts{std::as_bytes(std::span(head))};
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    manifest::array const& one = contents.arrays[a];
    std::span<std::byte const> own = arrays[a].bytes;
    if (one.how == training::spread::replicated) {  // a part of it is this rank's to write
      std::uint64_t before = 0;
      for (std::size_t s = 0; s < shard; ++s) before += one.counts[s];
      own = own.subspan(before * one.element_bytes, one.counts[shard] * one.element_bytes);
    }
    parts.push_back(own);
  }
  return write_durably(path_of(number), shard_name(shard), parts);
}

TUTTI_INLINE void checkpoint_folder::check_shard(std::uint64_t number, manifest const& contents,
                                                 std::size_t shard) const {
  std::string const path = join({path_of(number), "/", shard_name(shard)});
  std::array<char, manifest::head_bytes> head{};
  written_file const found = checksum_file(path, head);
  manifest::shard const& right = contents.shards[shard];
  auto const refuse_file = [&](std::string const& what) {
    throw error({.code = error_code::system, .what = join({path, " ", what})});
  };
  if (found.bytes >= head.size() && std::string_view(head.data(), head.size()) != contents.head(shard))
    refuse_file("belongs to another checkpoint, or is another shard of this one");
  if (found.bytes != right.bytes)
    refuse_file(join({found.bytes < right.bytes ? "is truncated: it has " : "has ", found.bytes, " bytes instead of ",
                      right.bytes}));
  if (found.checksum != right.checksum) refuse_file("is corrupted: its checksum is wrong");
}

TUTTI_INLINE void checkpoint_folder::read(std::uint64_t number, manifest const& contents,
                                          std::span<training::saved_array const> arrays,
                                          std::span<std::uint64_t const> begins, bool per_rank) const {
  std::vector<std::uint64_t> before(arrays.size());  // elements in lower shards
  for (std::size_t s = 0; s < contents.shards.size(); ++s) {
    std::vector<wanted_bytes> parts;
    std::uint64_t at = manifest::head_bytes;  // of an array in this shard
    for (std::size_t a = 0; a < arrays.size(); ++a) {
      manifest::array const& one = contents.arrays[a];
      std::uint64_t const size = one.element_bytes, from = before[a], count = one.counts[s],
                          here = std::exchange(at, at + count * size);
      before[a] += count;
      if (one.how == training::spread::per_rank && !per_rank) continue;
      std::uint64_t const first = std::max(from, begins[a]),
                          end = std::min(from + count, begins[a] + arrays[a].bytes.size() / size);
      if (first >= end) continue;
      parts.push_back(
          {here + (first - from) * size, arrays[a].bytes.subspan((first - begins[a]) * size, (end - first) * size)});
    }
    if (!parts.empty()) read_parts(join({path_of(number), "/", shard_name(s)}), parts);
  }
}

TUTTI_INLINE copied_arrays::copied_arrays(std::span<training::saved_array const> arrays)
    : all_(arrays.begin(), arrays.end()) {
  for (training::saved_array& one : all_) one.bytes = bytes_.emplace_back(one.bytes.size());
}

TUTTI_INLINE void copied_arrays::restore(std::span<training::saved_array const> arrays, bool per_rank) const {
  for (std::size_t a = 0; a < arrays.size(); ++a)
    if (per_rank || arrays[a].how != training::spread::per_rank) std::ranges::copy(bytes_[a], arrays[a].bytes.begin());
}

}  // namespace tutti::detail
