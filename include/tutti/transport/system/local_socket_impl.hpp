// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/local_socket.hpp.
#pragma once

#include <charconv>
#include <cstdio>
#include <cstring>

#include "tutti/core/file.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/system/local_socket.hpp"

namespace tutti::detail {

TUTTI_INLINE local_address::local_address(std::string const& name, uid_t user) {
  std::string const whole = fitting(join({"tutti-", user, "-", name}));
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path + 1, whole.data(), whole.size());  // a first byte of 0 makes the name abstract
  bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + whole.size());
}

TUTTI_INLINE std::string local_address::fitting(std::string name) {
  constexpr std::size_t room = sizeof(sockaddr_un::sun_path) - 1;
  if (name.size() <= room) return name;
  char text[18];
  std::snprintf(text, sizeof text, "-%016llx", static_cast<unsigned long long>(hash_of(name)));
  return join({std::string_view(name).substr(0, room - 17), text});
}

TUTTI_INLINE bool is_taken(local_address const& address) {
  return text_of_file("/proc/net/unix").find(join({"@", address.name(), "\n"})) != std::string::npos;
}

TUTTI_INLINE std::optional<uid_t> other_user_of(std::string const& name) {
  constexpr std::string_view begin = "@tutti-";
  std::string const all = text_of_file("/proc/net/unix");
  for (std::size_t at = 0; (at = all.find(begin, at)) != all.npos;) {
    std::string_view const taken = std::string_view(all).substr(at + 1, all.find('\n', at) - at - 1);
    at += begin.size();
    uid_t user = 0;
    std::from_chars(all.data() + at, all.data() + all.size(), user);
    if (user != ::geteuid() && taken == local_address(name, user).name()) return user;
  }
  return {};
}

TUTTI_INLINE descriptor make_local_socket(int flags) {
  descriptor out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!out) throw_system("cannot make a local socket", allow_sockets);
  return out;
}

TUTTI_INLINE std::optional<pid_t> process_of(descriptor const& connection) {
  ucred who{};
  socklen_t bytes = sizeof who;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 || who.uid != ::geteuid()) return {};
  return who.pid;
}

TUTTI_INLINE descriptor_message::descriptor_message(void* data, std::size_t bytes) : content{data, bytes} {
  head.msg_iov = &content;
  head.msg_iovlen = 1;
  head.msg_control = room;
  head.msg_controllen = sizeof room;
}

TUTTI_INLINE void descriptor_message::put(descriptor const& file) {
  head.msg_controllen = CMSG_SPACE(sizeof(int));
  cmsghdr* const part = CMSG_FIRSTHDR(&head);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  int const number = file.get();
  std::memcpy(CMSG_DATA(part), &number, sizeof number);
}

TUTTI_INLINE descriptor descriptor_message::take() {
  for (cmsghdr* part = CMSG_FIRSTHDR(&head); part != nullptr; part = CMSG_NXTHDR(&head, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int number = -1;
    std::memcpy(&number, CMSG_DATA(part), sizeof number);
    return descriptor(number);
  }
  return {};
}

}  // namespace tutti::detail
