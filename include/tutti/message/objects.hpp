// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages that are objects, which cereal (https://uscilab.github.io/cereal) serialises. Requires cereal.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/call/accepted.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/message/byte_string.hpp"
#include "tutti/message/point_to_point.hpp"
#include "tutti/message/probe.hpp"
#include "tutti/message/serialised.hpp"

namespace tutti {
namespace detail {

// A message is a header, and the bytes that it describes.
template <class T>
std::vector<std::byte> message_of(T const& object, bytes_head& head) {
  std::vector<std::byte> out(sizeof head);
  try {
    write_to(out, object);
    head = {out.size() - sizeof head, type_id<T>(), 0};
  } catch (std::exception const& e) {
    byte_string const why = failure_text(type_id<T>(), e.what());
    head = why.head;
    out.resize(sizeof head);
    out.insert(out.end(), why.bytes.begin(), why.bytes.end());
  }
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

// The header of a message from rank `from`.
inline bytes_head head_of(std::vector<std::byte> const& message, int from, int rank, std::source_location where) {
  bytes_head head;
  if (message.size() >= sizeof head) {
    std::memcpy(&head, message.data(), sizeof head);
    if (head.bytes == message.size() - sizeof head && head.failed <= 1) return head;
  }
  throw error({.code = error_code::mismatch,
               .rank = rank,
               .peer = from,
               .what = join({"the message of rank ", from, " is no object, but ", message.size(), " bytes"}),
               .way_out = "send it by send_object, or receive it by recv",
               .where = where});
}

}  // namespace detail

// Sends an object to a rank, which receives it by recv_object with the same type and a matching tag. The object can be anything that
// cereal can serialise, of any size. One message of its bytes and 16 more, which returns when a message of bytes does (see send).
// Blocking calls only.
// Throws error: as send; bad_argument, here and at the receiver, if the object cannot be serialised.
//
//   tutti::send_object(comm, std::map<std::string, double>{{"loss", 0.25}}, 0);
template <class Comm, class T>
void send_object(Comm&& comm, T const& object, int to, int tag = 0, options const& o = {},
                 std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    detail::bytes_head head;
    std::vector<std::byte> const message = detail::message_of(object, head);
    send(comm, message, to, tag, o, where);
    detail::expect_written(head, std::span(message).subspan(sizeof head), comm.rank(), comm.rank(), where);
  }
}

// Receives an object that rank `from`, or any_source, has sent by send_object with this tag, or any_tag. Returns its sender, its tag,
// and 1; from no_rank, 0, and the object stays as it is. If several threads receive objects at once, each needs a tag of its own,
// because the message is first probed for its length.
// Throws error: as probe and recv; bad_argument if the sender could not serialise it; mismatch, here only, if the message is no object
// of this type; system if there is no memory for it, and then the other ranks throw revoked.
//
//   std::map<std::string, double> report;
//   int const sender = tutti::recv_object(comm, report, tutti::any_source).source;
template <class Comm, class T>
received recv_object(Comm&& comm, T& object, int from, int tag = 0, options const& o = {},
                     std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>()) {
    probed const next = probe(comm, from, tag, o, where);
    if (next.source == no_rank) return {next.source, next.tag, 0};
    auto message =
        detail::revoking_without_memory(comm, next.bytes, where, [&] { return std::vector<std::byte>(next.bytes); });
    recv(comm, message, next.source, next.tag, o, where);
    auto const head = detail::head_of(message, next.source, comm.rank(), where);
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
[[nodiscard]] T recv_object(Comm&& comm, int from, int tag = 0, options const& o = {},
                            std::source_location where = std::source_location::current()) {
  T out{};
  recv_object(comm, out, from, tag, o, where);
  return out;
}

}  // namespace tutti
