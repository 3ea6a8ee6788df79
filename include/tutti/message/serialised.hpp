// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects as byte strings, by cereal (https://uscilab.github.io/cereal), which must be installed.
#pragma once

#include <cereal/archives/binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/complex.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/memory.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/set.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/tuple.hpp>
#include <cereal/types/unordered_map.hpp>
#include <cereal/types/unordered_set.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>
#include <cstddef>
#include <exception>
#include <istream>
#include <ostream>
#include <source_location>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/message/byte_string.hpp"

namespace tutti::detail {

class byte_sink : public std::streambuf {
 public:
  explicit byte_sink(std::vector<std::byte>& to) : to_(to) {}

 protected:
  std::streamsize xsputn(char const* from, std::streamsize count) override {
    auto const* const bytes = reinterpret_cast<std::byte const*>(from);
    to_.insert(to_.end(), bytes, bytes + count);
    return count;
  }
  int_type overflow(int_type c) override {
    to_.push_back(static_cast<std::byte>(c));
    return c;
  }

 private:
  std::vector<std::byte>& to_;
};

class byte_source : public std::streambuf {
 public:
  explicit byte_source(std::span<std::byte const> from) {
    char* const begin = const_cast<char*>(reinterpret_cast<char const*>(from.data()));
    setg(begin, begin, begin + from.size());
  }
  bool at_end() const { return gptr() == egptr(); }
};

// Appends the object.
template <class T>
void write_to(std::vector<std::byte>& bytes, T const& object) {
  byte_sink sink(bytes);
  std::ostream stream(&sink);
  cereal::BinaryOutputArchive{stream}(object);
}

template <class T>
byte_string to_bytes(T const& object) {
  byte_string out{{0, type_id<T>(), 0}, {}};
  try {
    write_to(out.bytes, object);
    out.head.bytes = out.bytes.size();
    return out;
  } catch (std::exception const& e) {
    return failure_text(type_id<T>(), e.what());
  }
}

// Throws the reason if rank `from` could not serialise its object.
[[gnu::cold]] inline void expect_written(bytes_head const& head, std::span<std::byte const> bytes, int from, int rank,
                                         std::source_location where) {
  if (head.failed == 0) return;
  throw error({.code = error_code::bad_argument,
               .rank = rank,
               .peer = from,
               .what = join({"the object of rank ", from, " could not be written: ",
                             std::string_view(reinterpret_cast<char const*>(bytes.data()), bytes.size())}),
               .way_out = "check the serialisation of its type",
               .where = where});
}

// Decodes the object that rank `from` has sent to `rank`.
template <class T>
void from_bytes(T& object, bytes_head const& head, std::span<std::byte const> bytes, int from, int rank,
                std::source_location where) {
  auto const fail = [&](std::string what, char const* way_out) {
    throw error({.code = error_code::mismatch,
                 .rank = rank,
                 .peer = from,
                 .what = std::move(what),
                 .way_out = way_out,
                 .where = where});
  };
  expect_written(head, bytes, from, rank, where);
  if (head.type != type_id<T>())
    fail(join({"the object of rank ", from, " is not of type ", type_name<T>()}),
         "pass objects of one type on all ranks");
  std::string problem = "bytes remain at the end";
  try {
    byte_source source(bytes);
    std::istream stream(&source);
    cereal::BinaryInputArchive{stream}(object);
    if (source.at_end()) return;
  } catch (std::exception const& e) {
    problem = e.what();
  }
  fail(join({"the ", bytes.size(), " bytes of rank ", from, " do not decode to a ", type_name<T>(), ": ", problem}),
       "check that saving and loading of this type agree, and that all ranks run the same program");
}

}  // namespace tutti::detail
