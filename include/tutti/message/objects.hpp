// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages that are objects, which cereal (https://uscilab.github.io/cereal) serialises. Requires cereal.
#pragma once

#include <cstddef>
#include <cstring>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/call/accepted.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/message/point_to_point.hpp"
#include "tutti/message/probe.hpp"
#include "tutti/message/serialised.hpp"

namespace tutti {

// Sends an object to a rank, which receives it by recv_object with the same type and a matching tag. The object can be anything that
// cereal can serialise, of any size. One message of its bytes and 16 more, which returns when a message of bytes does (see send).
// Blocking calls only.
// Throws error: as send; bad_argument, here and at the receiver, if the object cannot be serialised.
//
//   tutti::send_object(comm, std::map<std::string, double>{{"loss", 0.25}}, 0);
template <class Comm, class T>
void send_object(Comm&& comm, T const& object, int to, int tag = 0,
                 std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    auto const string = detail::to_bytes(object);
    std::vector<std::byte> message(sizeof string.head);
    std::memcpy(message.data(), &string.head, sizeof string.head);
    message.insert(message.end(), string.bytes.begin(), string.bytes.end());
    send(comm, message, to, tag, {}, where);
    detail::expect_written(string.head, string.bytes, comm.rank(), comm.rank(), where);
  }
}

// Receives an object that rank `from`, or any_source, has sent by send_object with this tag, or any_tag. Returns its sender, its tag,
// and 1; from no_rank, 0, and the object stays as it is. If several threads receive objects at once, each needs a tag of its own,
// because the message is first probed for its length.
// Throws error: as probe and recv; bad_argument if the sender could not serialise it; mismatch, here only, if the message is no object
// of this type.
//
//   std::map<std::string, double> report;
//   int const sender = tutti::recv_object(comm, report, tutti::any_source).source;
template <class Comm, class T>
received recv_object(Comm&& comm, T& object, int from, int tag = 0,
                     std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    probed const next = probe(comm, from, tag, {}, where);
    if (next.source == no_rank) return {next.source, next.tag, 0};
    std::vector<std::byte> message(next.bytes);
    recv(comm, message, next.source, next.tag, {}, where);
    detail::bytes_head head;
    if (message.size() < sizeof head)
      throw error(
          {.code = error_code::mismatch,
           .rank = comm.rank(),
           .peer = next.source,
           .what = detail::join({"the message of rank ", next.source, " is no object, but ", message.size(), " bytes"}),
           .way_out = "send it by send_object, or receive it by recv",
           .where = where});
    std::memcpy(&head, message.data(), sizeof head);
    detail::from_bytes(object, head, std::span<std::byte const>(message).subspan(sizeof head), next.source, comm.rank(),
                       where);
    return {next.source, next.tag, 1};
  } else {
    return {};
  }
}

// Receives an object and returns it; from no_rank, one made by default.
//
//   auto const report = tutti::recv_object<std::map<std::string, double>>(comm, 1);
template <class T, class Comm>
[[nodiscard]] T recv_object(Comm&& comm, int from, int tag = 0,
                            std::source_location where = std::source_location::current()) {
  T out{};
  recv_object(comm, out, from, tag, where);
  return out;
}

}  // namespace tutti
