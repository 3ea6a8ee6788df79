// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Local sockets with abstract names, which vanish with their process.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

inline constexpr char allow_sockets[] = "let the sandbox allow abstract Unix sockets between the ranks";

// The address of a user's socket of this name.
class local_address {
 public:
  [[gnu::cold]] explicit local_address(std::string const& name, uid_t user = ::geteuid());

  sockaddr const* get() const { return reinterpret_cast<sockaddr const*>(&address_); }
  socklen_t bytes() const { return bytes_; }
  // Without the byte that makes it abstract.
  std::string_view name() const { return {address_.sun_path + 1, bytes_ - offsetof(sockaddr_un, sun_path) - 1}; }

 private:
  // Shortens a name that is too long for a socket: keeps its beginning and appends a hash of all of it (FNV-1a).
  [[gnu::cold]] static std::string fitting(std::string name);

  sockaddr_un address_{};
  socklen_t bytes_ = 0;
};

// Whether a socket has this address, although none may listen.
[[gnu::cold]] bool is_taken(local_address const& address);
// Another user who has a socket of this name.
[[gnu::cold]] std::optional<uid_t> other_user_of(std::string const& name);

// `flags`: further ones for its type, such as SOCK_NONBLOCK. Throws error: system.
[[gnu::cold]] descriptor make_local_socket(int flags = 0);

// The process at the other end of a connection; empty if it belongs to another user. A name can be guessed, but an owner cannot
// be forged.
[[gnu::cold]] std::optional<pid_t> process_of(descriptor const& connection);

// A message that may carry a descriptor.
struct descriptor_message {
  iovec content;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
  msghdr head{};

  // Has room to receive a descriptor.
  [[gnu::cold]] descriptor_message(void* data, std::size_t bytes);
  descriptor_message(descriptor_message const&) = delete;
  descriptor_message& operator=(descriptor_message const&) = delete;

  [[gnu::cold]] void put(descriptor const& file);
  // The descriptor that has come with it; empty if there is none.
  [[gnu::cold]] descriptor take();
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/local_socket_impl.hpp"
#endif
