// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/checkpoint/manifest.hpp.
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>

#include "tutti/core/crc32c.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/checkpoint/manifest.hpp"

namespace tutti::detail {

inline constexpr std::array<std::string_view, 3> names_of_spreads{"replicated", "divided", "per_rank"};
inline constexpr std::string_view first_word = "tutti checkpoint ", version_of_manifest = "2",
                                  byte_order = std::endian::native == std::endian::little ? "little" : "big";

TUTTI_INLINE std::string_view name_of_spread(training::spread how) {
  return names_of_spreads[static_cast<std::size_t>(how)];
}

TUTTI_INLINE bool is_name_of_type(std::string_view type) {
  return !type.empty() &&
         type.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz") == type.npos;
}

TUTTI_INLINE std::uint64_t manifest::array::total() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

TUTTI_INLINE std::string manifest::head(std::size_t index) const {
  std::string out = join({"tutti shard ", index, " of checkpoint ", identity});
  out.resize(head_bytes - 1, ' ');
  return out + '\n';
}

TUTTI_INLINE std::uint32_t checksum_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

TUTTI_INLINE std::string manifest::text() const {
  std::string out = join({first_word, version_of_manifest, "\n", byte_order, " ", identity, " ", step, " ",
                          shards.size(), " ", arrays.size(), "\n"});
  for (shard const& s : shards) out += join({s.bytes, " ", s.checksum, "\n"});
  for (array const& a : arrays) {
    out += join({name_of_spread(a.how), " ", a.type, " ", a.element_bytes});
    for (std::uint64_t const count : a.counts) out += join({" ", count});
    out += join({" ", a.name, "\n"});
  }
  return out + join({checksum_of(out), "\n"});
}

// The words of a manifest, from its beginning.
class manifest_words {
 public:
  explicit manifest_words(std::string_view text) : left_(text) {}

  [[noreturn]] static void refuse(std::string_view what) {
    throw error({.code = error_code::system, .what = std::string(what)});
  }
  std::string_view until(char end) {
    std::size_t const at = left_.find(end);
    if (at == left_.npos) refuse("is truncated or corrupted");
    std::string_view const out = left_.substr(0, at);
    left_.remove_prefix(at + 1);
    return out;
  }
  template <class Number>
  void number(Number& out, char end) {
    std::string_view const word = until(end);
    auto const [last, trouble] = std::from_chars(word.data(), word.data() + word.size(), out);
    if (trouble != std::errc{} || last != word.data() + word.size()) refuse("is corrupted");
  }
  bool done() const { return left_.empty(); }

 private:
  std::string_view left_;
};

TUTTI_INLINE manifest manifest::parse(std::string_view text) {
  manifest_words words(text);
  if (!text.starts_with(first_word)) manifest_words::refuse("is not the manifest of a checkpoint");
  words.until(' '), words.until(' ');
  std::string_view const version = words.until('\n');
  bool const has_types = version == version_of_manifest;
  if (!has_types && version != "1")
    manifest_words::refuse(
        join({"has version ", version, " of the format, but this program reads versions 1 to ", version_of_manifest}));
  std::size_t const end = text.size() < 2 ? text.npos : text.rfind('\n', text.size() - 2);
  std::uint32_t checksum = 0;
  manifest_words(text.substr(end + 1)).number(checksum, '\n');
  text = text.substr(0, end + 1);
  if (checksum != checksum_of(text)) manifest_words::refuse("is truncated or corrupted");

  manifest out;
  if (words.until(' ') != byte_order) manifest_words::refuse("was written by a machine of another byte order");
  std::size_t shard_count = 0, array_count = 0;
  words.number(out.identity, ' '), words.number(out.step, ' ');
  words.number(shard_count, ' '), words.number(array_count, '\n');
  if (shard_count < 1 || shard_count > max_ranks || array_count > text.size())
    manifest_words::refuse("has counts that cannot be right");
  for (std::size_t s = 0; s < shard_count; ++s) {
    shard& one = out.shards.emplace_back();
    words.number(one.bytes, ' '), words.number(one.checksum, '\n');
  }
  constexpr auto max_bytes =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());  // of all shards together
  std::vector<std::uint64_t> sizes(shard_count, head_bytes);
  for (std::size_t i = 0; i < array_count; ++i) {
    array& one = out.arrays.emplace_back();
    std::string_view const how = words.until(' ');
    std::size_t kind = 0;
    while (kind < names_of_spreads.size() && names_of_spreads[kind] != how) ++kind;
    one.type = has_types ? words.until(' ') : any_type;
    words.number(one.element_bytes, ' ');
    if (kind == names_of_spreads.size() || one.element_bytes == 0 || !is_name_of_type(one.type))
      manifest_words::refuse("is corrupted");
    one.how = static_cast<training::spread>(kind);
    one.counts.resize(shard_count);
    for (std::size_t s = 0; s < shard_count; ++s) {
      words.number(one.counts[s], ' ');
      if (one.counts[s] > (max_bytes / shard_count - sizes[s]) / one.element_bytes)
        manifest_words::refuse("has counts that cannot be right");
      sizes[s] += one.counts[s] * one.element_bytes;
    }
    one.name = words.until('\n');
  }
  words.until('\n');  // the checksum
  if (!words.done()) manifest_words::refuse("has more lines than it should");
  for (std::size_t s = 0; s < shard_count; ++s)
    if (sizes[s] != out.shards[s].bytes) manifest_words::refuse("has sizes that contradict each other");
  return out;
}

}  // namespace tutti::detail
