// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/checkpoint/held_arrays.hpp.
#pragma once

#include <algorithm>
#include <set>
#include <string_view>

#include "tutti/core/config.hpp"
#include "tutti/core/crc32c.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/checkpoint/held_arrays.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string describe_array(std::string_view name, training::spread how, std::string const& count,
                                        std::string_view type, std::uint64_t element_bytes) {
  bool const named = type != any_type && type != "bytes";
  return join({"array ", name, ", ", name_of_spread(how), ", ", count, "elements of ",
               named ? std::string(type) : join({element_bytes, " bytes"})});
}

TUTTI_INLINE std::string line_about(training::saved_array const& array) {
  bool const same = array.how == training::spread::replicated;
  return describe_array(array.name, array.how, same ? join({array.bytes.size() / array.element_bytes, " "}) : "",
                        array.type, array.element_bytes);
}

TUTTI_INLINE std::vector<manifest::array> held_arrays::divide() const {
  std::vector<manifest::array> out;
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    auto& one = out.emplace_back(
        manifest::array{arrays[a].name, arrays[a].how, arrays[a].element_bytes, {}, std::string(arrays[a].type)});
    for (std::size_t r = 0; r < ranks(); ++r) {
      bool const shared = arrays[a].how == training::spread::replicated;
      one.counts.push_back(shared ? part(count(r, a), static_cast<int>(ranks()), static_cast<int>(r)).count
                                  : count(r, a));
    }
  }
  return out;
}

TUTTI_INLINE std::vector<std::uint64_t> held_arrays::begins(std::size_t rank) const {
  std::vector<std::uint64_t> out(arrays.size());
  for (std::size_t a = 0; a < arrays.size(); ++a)
    for (std::size_t r = 0; r < rank && arrays[a].how != training::spread::replicated; ++r) out[a] += count(r, a);
  return out;
}

TUTTI_INLINE std::string held_arrays::difference_to(manifest const& saved) const {
  auto const line = [](manifest::array const& one) {
    bool const common = one.how != training::spread::per_rank;
    return describe_array(one.name, one.how, common ? join({one.total(), " "}) : "", one.type, one.element_bytes);
  };
  std::string const none = "no further array";
  auto mine = divide();
  for (std::size_t a = 0; a < std::min(mine.size(), saved.arrays.size()); ++a)
    if (saved.arrays[a].type == any_type) mine[a].type = any_type;
  for (std::size_t a = 0; a < std::max(mine.size(), saved.arrays.size()); ++a) {
    std::string const its = a < saved.arrays.size() ? line(saved.arrays[a]) : none;
    std::string const ours = a < mine.size() ? line(mine[a]) : none;
    if (its != ours) return join({"the checkpoint has ", its, ", but the program has ", ours});
  }
  return {};
}

TUTTI_INLINE bool held_arrays::same_per_rank(manifest const& saved) const {
  if (saved.shards.size() != ranks()) return false;
  for (std::size_t a = 0; a < arrays.size(); ++a)
    for (std::size_t r = 0; r < ranks() && arrays[a].how == training::spread::per_rank; ++r)
      if (saved.arrays[a].counts[r] != count(r, a)) return false;
  return true;
}

TUTTI_INLINE void check_arrays(std::span<training::saved_array const> arrays) {
  std::set<std::string_view> seen;
  for (training::saved_array const& one : arrays) {
    char const* const wrong = one.name.empty()                        ? "has no name"
                              : one.name.find('\n') != one.name.npos  ? "has a line break in its name"
                              : seen.insert(one.name).second == false ? "has the name of another"
                                                                      : nullptr;
    if (wrong != nullptr)
      throw error({.code = error_code::bad_argument,
                   .what = join({"an array of the state, \"", one.name, "\", ", wrong}),
                   .way_out = "give each array a name of its own"});
    if (one.element_bytes == 0 || one.bytes.size() % one.element_bytes != 0)
      throw error({.code = error_code::bad_argument,
                   .what = join({"array ", one.name, " of the state has ", one.bytes.size(),
                                 " bytes, which is not a multiple of the element size, ", one.element_bytes, " bytes"}),
                   .way_out = "make it by replicated(), divided() or per_rank()"});
    if (!is_name_of_type(one.type))
      throw error({.code = error_code::bad_argument,
                   .what = join({"array ", one.name, " of the state has elements of type \"", one.type,
                                 "\", which is not a name"}),
                   .way_out = "make it by replicated(), divided() or per_rank()"});
  }
}

TUTTI_INLINE bool is_compared(training::saved_array const& one) {
  return one.how == training::spread::replicated && one.comparable;
}

TUTTI_INLINE std::vector<std::uint32_t> checksums_of_replicated(std::span<training::saved_array const> arrays) {
  std::vector<std::uint32_t> out;
  for (training::saved_array const& one : arrays)
    if (is_compared(one)) out.push_back(crc32c(one.bytes));
  return out;
}

TUTTI_INLINE void expect_same_replicated(std::span<training::saved_array const> arrays,
                                         std::span<std::uint32_t const> all, int ranks, int rank,
                                         std::source_location where) {
  std::size_t const each = all.size() / static_cast<std::size_t>(ranks);
  for (int r = 1; r < ranks; ++r) {
    std::span<std::uint32_t const> its = all.subspan(static_cast<std::size_t>(r) * each, each), first = all.first(each);
    for (training::saved_array const& one : arrays) {
      if (!is_compared(one)) continue;
      if (its.front() != first.front())
        throw error({.code = error_code::mismatch,
                     .rank = rank,
                     .peer = r,
                     .what = join({"array ", one.name, " is replicated, but differs on rank ", r}),
                     .way_out = "list it as per_rank, or give it the same values on all ranks",
                     .where = where});
      its = its.subspan(1), first = first.subspan(1);
    }
  }
}

}  // namespace tutti::detail
