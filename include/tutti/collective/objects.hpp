// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives of objects that cereal (https://uscilab.github.io/cereal) can serialise. Requires cereal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <utility>
#include <vector>

#include "tutti/call/accepted.hpp"
#include "tutti/collective/bytes.hpp"
#include "tutti/core/text.hpp"
#include "tutti/message/serialised.hpp"

namespace tutti {
namespace detail {

template <class T>
std::vector<T> from_all_bytes(byte_strings const& all, int rank, std::source_location where) {
  std::vector<T> out(all.heads.size());
  for (std::size_t r = 0; r < out.size(); ++r) {
    T one{};  // because std::vector<bool> has no references to its elements
    from_bytes(one, all.heads[r], all.of(r), static_cast<int>(r), rank, where);
    out[r] = std::move(one);
  }
  return out;
}

}  // namespace detail

// Collectives of objects. All ranks pass objects of one type, which cereal can serialise and which has a default
// constructor. Sizes may differ between ranks and exceed 2 GiB. Each call first sends the sizes and then the bytes, by
// the collective of the same name, and costs as much as these two; it blocks, and cannot be started or prepared.
// Throw error: as that collective; bad_argument on all ranks that were to receive an object that its rank could not
// serialise; mismatch, which names the sender, if the bytes do not decode to an object; system on a rank that has no
// memory for its result, which then revokes the communicator, so that the others throw revoked.

// Replaces `object` on all ranks by the root's object.
//
//   std::map<std::string, int> vocabulary = comm.is_main() ? read_it() : std::map<std::string, int>{};
//   tutti::broadcast_object(comm, vocabulary);
template <class Comm, class T>
void broadcast_object(Comm&& comm, T& object, int root = 0,
                      std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    detail::byte_string string;
    if (comm.rank() == root) string = detail::to_bytes(object);
    detail::broadcast_bytes(comm, string, root, where);
    if (comm.rank() != root || string.head.failed != 0)
      detail::from_bytes(object, string.head, string.bytes, root, comm.rank(), where);
  }
}

// Every rank gets the objects of all ranks, in rank order.
template <class Comm, class T>
[[nodiscard]] std::vector<T> all_gather_object(Comm&& comm, T const& object,
                                               std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    return detail::from_all_bytes<T>(detail::all_gather_bytes(comm, detail::to_bytes(object), where), comm.rank(),
                                     where);
  } else {
    return {};
  }
}

// The root gets the objects of all ranks, in rank order; the others get an empty std::vector.
template <class Comm, class T>
[[nodiscard]] std::vector<T> gather_object(Comm&& comm, T const& object, int root = 0,
                                           std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    return detail::from_all_bytes<T>(detail::gather_bytes(comm, detail::to_bytes(object), root, where), comm.rank(),
                                     where);
  } else {
    return {};
  }
}

// Rank r gets objects[r] of the root, which passes one per rank; the arguments of the others are ignored.
template <class Comm, class T>
[[nodiscard]] T scatter_object(Comm&& comm, std::vector<T> const& objects, int root = 0,
                               std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    detail::byte_strings all;
    if (comm.rank() == root) {
      detail::noting_refusals(comm, [&] {
        detail::expect_size(comm, "the root's list of scatter_object", objects.size(),
                            static_cast<std::size_t>(comm.size()), where);
      });
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
  } else {
    return {};
  }
}

// Collects results in the order of their tasks at the root. `size` tasks were distributed round-robin, task i to rank i
// % ranks, and each rank passes its results. The root gets the result of task i at index i; the others get an empty
// std::vector. Results beyond `size`, from padding in the last round, are dropped.
// Also throws error: bad_argument at the root if a result is missing.
template <class Comm, class T>
[[nodiscard]] std::vector<T> collect_results(Comm&& comm, std::vector<T> const& local, std::size_t size, int root = 0,
                                             std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    auto parts = gather_object(comm, local, root, where);
    std::vector<T> out;
    if (comm.rank() != root) return out;
    std::size_t const ranks = parts.size();
    for (std::size_t i = 0; i < size; ++i) {
      auto& part = parts[i % ranks];
      if (i / ranks >= part.size())
        detail::refuse(
            comm.rank(),
            detail::join({"result ", i, " of ", size, " is missing: rank ", i % ranks, " has ", part.size()}),
            "distribute the tasks round-robin, and pass one result for each", where);
      out.push_back(std::move(part[i / ranks]));
    }
    return out;
  } else {
    return {};
  }
}

}  // namespace tutti
