// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives of objects: what cereal (https://uscilab.github.io/cereal) can write and read, which it must be installed for.
#pragma once

#include <algorithm>
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

#include "tutti/collective/bytes.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"

namespace tutti {
namespace detail {

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

template <class T>
byte_string to_bytes(T const& object) {
  byte_string out{{0, type_id<T>(), 0}, {}};
  try {
    byte_sink sink(out.bytes);
    std::ostream stream(&sink);
    cereal::BinaryOutputArchive{stream}(object);
    out.head.bytes = out.bytes.size();
    return out;
  } catch (std::exception const& e) {
    return reason(type_id<T>(), e.what());
  }
}

// What rank `from` has sent to `rank`.
template <class T>
void from_bytes(T& object, bytes_head const& head, std::span<std::byte const> bytes, int from, int rank,
                std::source_location where) {
  auto const fail = [&](error_code code, std::string what, char const* way_out) {
    throw error(
        {.code = code, .rank = rank, .peer = from, .what = std::move(what), .way_out = way_out, .where = where});
  };
  if (head.failed != 0)
    fail(error_code::bad_argument,
         join({"the object of rank ", from,
               " could not be written: ", std::string_view(reinterpret_cast<char const*>(bytes.data()), bytes.size())}),
         "see how its type is serialised");
  if (head.type != type_id<T>())
    fail(error_code::mismatch, join({"the object of rank ", from, " is no ", type_name<T>()}),
         "pass objects of one type on all ranks");
  std::string problem = "bytes are left over";
  try {
    byte_source source(bytes);
    std::istream stream(&source);
    cereal::BinaryInputArchive{stream}(object);
    if (source.at_end()) return;
  } catch (std::exception const& e) {
    problem = e.what();
  }
  fail(error_code::mismatch,
       join({"the ", bytes.size(), " bytes of rank ", from, " do not make a ", type_name<T>(), ": ", problem}),
       "see that writing and reading of its type agree, and that all ranks run the same program");
}

template <class T>
std::vector<T> from_all_bytes(byte_strings const& all, int rank, std::source_location where) {
  std::vector<T> out(all.heads.size());
  for (std::size_t r = 0; r < out.size(); ++r)
    from_bytes(out[r], all.heads[r], all.of(r), static_cast<int>(r), rank, where);
  return out;
}

}  // namespace detail

// Objects are of one type on all ranks, which cereal can write, read and default-construct; their sizes may differ, and pass
// 2 GiB. Each call sends the sizes first and then the bytes, by the collective of the same name.
// Throw error: what that throws; bad_argument at all that were to get it, where a rank's object could not be written;
// mismatch where bytes do not make an object, with the rank that sent them; system at a rank that has no memory for what it is
// to get, and revoked at the others, for then the communicator is.

// `object` of all ranks becomes that of the root.
//
//   std::map<std::string, int> vocabulary = comm.is_main() ? read_it() : std::map<std::string, int>{};
//   tutti::broadcast_object(comm, vocabulary);
template <transport Transport, class T>
void broadcast_object(communicator<Transport>& comm, T& object, int root = 0,
                      std::source_location where = std::source_location::current()) {
  detail::byte_string string;
  if (comm.rank() == root) string = detail::to_bytes(object);
  detail::broadcast_bytes(comm, string, root, where);
  if (comm.rank() != root || string.head.failed != 0)
    detail::from_bytes(object, string.head, string.bytes, root, comm.rank(), where);
}

// Every rank gets the objects of all, in rank order.
template <transport Transport, class T>
std::vector<T> all_gather_object(communicator<Transport>& comm, T const& object,
                                 std::source_location where = std::source_location::current()) {
  return detail::from_all_bytes<T>(detail::all_gather_bytes(comm, detail::to_bytes(object), where), comm.rank(), where);
}

// The root gets the objects of all, in rank order; the others none.
template <transport Transport, class T>
std::vector<T> gather_object(communicator<Transport>& comm, T const& object, int root = 0,
                             std::source_location where = std::source_location::current()) {
  return detail::from_all_bytes<T>(detail::gather_bytes(comm, detail::to_bytes(object), root, where), comm.rank(),
                                   where);
}

// Rank r gets objects[r] of the root, where there is one for each rank; what the others pass does not matter.
template <transport Transport, class T>
T scatter_object(communicator<Transport>& comm, std::vector<T> const& objects, int root = 0,
                 std::source_location where = std::source_location::current()) {
  detail::byte_strings all;
  if (comm.rank() == root) {
    detail::expect_size(comm, "the root's list of scatter_object", objects.size(),
                        static_cast<std::size_t>(comm.size()), where);
    std::vector<detail::byte_string> strings;
    for (T const& object : objects) strings.push_back(detail::to_bytes(object));
    for (auto const& s : strings) all.heads.push_back(s.head);
    detail::make_room(comm, all.all, all.lay_out(), where);
    for (std::size_t r = 0; r < strings.size(); ++r)
      std::ranges::copy(strings[r].bytes, all.all.data() + all.offsets[r]);
  }
  auto const mine = detail::scatter_bytes(comm, all, root, where);
  T out{};
  detail::from_bytes(out, mine.head, mine.bytes, root, comm.rank(), where);
  return out;
}

// What ranks have computed for a list of `size` things that were dealt out in turn, thing i to rank i % ranks, in the
// order of that list: at the root; the others get none. What is beyond `size`, because the last round was filled up, is
// dropped.
// Throws error besides: bad_argument at the root, where the ranks have computed fewer.
template <transport Transport, class T>
std::vector<T> collect_results(communicator<Transport>& comm, std::vector<T> const& local, std::size_t size,
                               int root = 0, std::source_location where = std::source_location::current()) {
  auto parts = gather_object(comm, local, root, where);
  std::vector<T> out;
  if (comm.rank() != root) return out;
  std::size_t const ranks = parts.size();
  for (std::size_t i = 0; i < size; ++i) {
    auto& part = parts[i % ranks];
    if (i / ranks >= part.size())
      detail::refuse(comm.rank(),
                     detail::join({"result ", i, " of ", size, " is missing: rank ", i % ranks, " has ", part.size()}),
                     "deal things out in turn, and pass a result for each", where);
    out.push_back(std::move(part[i / ranks]));
  }
  return out;
}

}  // namespace tutti
