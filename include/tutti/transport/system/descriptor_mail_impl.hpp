// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/descriptor_mail.hpp.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tutti/transport/system/descriptor_mail.hpp"
#include "tutti/transport/system/local_socket.hpp"

namespace tutti::detail {

TUTTI_INLINE descriptor_mail::descriptor_mail()
    : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t bytes = sizeof name;
  int const yes = 1;
  // Without a name, the system chooses an abstract one.
  if (!socket_ || ::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0 ||
      ::bind(socket_.get(), reinterpret_cast<sockaddr const*>(&name), sizeof name.sun_family) != 0 ||
      ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&name), &bytes) != 0)
    throw_system("cannot make a local socket", allow_sockets);
  here_.bytes = static_cast<std::uint32_t>(std::min(bytes - offsetof(sockaddr_un, sun_path), sizeof here_.name));
  std::memcpy(here_.name.data(), name.sun_path, here_.bytes);
}

TUTTI_INLINE std::vector<descriptor> descriptor_mail::exchange(descriptor const& file, std::span<address const> to,
                                                               std::span<address const> from, deadline until) const {
  std::vector<descriptor> out(from.size());
  for (std::size_t sent = 0, received = 0; sent < to.size() || received < from.size();) {
    while (sent < to.size() && send(file, to[sent])) ++sent;
    while (auto mail = receive()) {
      auto const at = static_cast<std::size_t>(std::ranges::find(from, mail->first) - from.begin());
      if (at < from.size() && !out[at]) out[at] = std::move(mail->second), ++received;
    }
    if (until.passed())
      throw error({.code = error_code::timeout,
                   .what = "a descriptor from another process did not arrive in time",
                   .way_out = "see whether all ranks run, and wait longer (TUTTI_TIMEOUT)"});
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (sent < to.size() || received < from.size()) ::poll(&waiting, 1, 1);
  }
  return out;
}

TUTTI_INLINE bool descriptor_mail::send(descriptor const& file, address const& to) const {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, to.name.data(), to.bytes);
  char content = 0;
  descriptor_message message(&content, 1);
  message.head.msg_name = &name;
  message.head.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + to.bytes);
  message.put(file);
  if (::sendmsg(socket_.get(), &message.head, MSG_NOSIGNAL) == 1) return true;
  if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
    throw_system("cannot send a descriptor to another process", "let all ranks share a network namespace");
  return false;
}

TUTTI_INLINE std::optional<std::pair<descriptor_mail::address, descriptor>> descriptor_mail::receive() const {
  while (true) {
    sockaddr_un name{};
    char content = 0;
    descriptor_message message(&content, 1);
    msghdr& head = message.head;
    head.msg_name = &name;
    head.msg_namelen = sizeof name;
    if (::recvmsg(socket_.get(), &head, MSG_CMSG_CLOEXEC) < 0) return {};
    descriptor file = message.take();
    ucred sender{.pid = 0, .uid = static_cast<uid_t>(-1), .gid = 0};
    for (cmsghdr* at = CMSG_FIRSTHDR(&head); at != nullptr; at = CMSG_NXTHDR(&head, at))
      if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_CREDENTIALS)
        std::memcpy(&sender, CMSG_DATA(at), sizeof sender);
    std::size_t const bytes =
        head.msg_namelen - std::min<std::size_t>(head.msg_namelen, offsetof(sockaddr_un, sun_path));
    address from{};
    if (!file || sender.uid != ::geteuid() || bytes > from.name.size()) continue;
    from.bytes = static_cast<std::uint32_t>(bytes);
    std::memcpy(from.name.data(), name.sun_path, bytes);
    return std::pair(from, std::move(file));
  }
}

}  // namespace tutti::detail
