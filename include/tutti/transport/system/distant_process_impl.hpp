// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/distant_process.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <utility>

#include "tutti/core/process.hpp"
#include "tutti/transport/system/distant_process.hpp"

namespace tutti::detail {

TUTTI_INLINE process_port const& own_port() noexcept {
  struct listener {
    descriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    process_port port{};

    listener() noexcept {
      sockaddr_in at{};
      socklen_t bytes = sizeof at;
      at.sin_family = AF_INET;
      auto* const address = reinterpret_cast<sockaddr*>(&at);
      if (!socket || ::bind(socket.get(), address, bytes) != 0 || ::listen(socket.get(), SOMAXCONN) != 0 ||
          ::getsockname(socket.get(), address, &bytes) != 0)
        return;
      ifaddrs* all = nullptr;
      if (::getifaddrs(&all) != 0) return;
      for (ifaddrs const* i = all; i != nullptr && port.count < port.addresses.size(); i = i->ifa_next) {
        bool const fits = i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET;
        if (fits && (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0)
          port.addresses[port.count++] = reinterpret_cast<sockaddr_in const*>(i->ifa_addr)->sin_addr.s_addr;
      }
      ::freeifaddrs(all);
      port.number = at.sin_port;
    }
  };
  static one_per_process<listener> all;
  static std::atomic<listener*> of_this_process{nullptr};
  static int const kept_by_no_child = ::pthread_atfork(nullptr, nullptr, [] {
    if (listener* const of_parent = of_this_process.exchange(nullptr)) of_parent->socket = descriptor();
  });
  static_cast<void>(kept_by_no_child);
  listener& here = all.get();
  of_this_process = &here;
  return here.port;
}

TUTTI_INLINE distant_process::distant_process(process_port const& at) : port_(at.number) {
  process_port const& own = own_port();
  for (std::uint16_t i = 0; i < at.count; ++i) {
    // An address that this machine has too, as that of a bridge between containers, leads to this machine.
    bool const leads_here = std::find(own.addresses.begin(), own.addresses.begin() + own.count, at.addresses[i]) !=
                            own.addresses.begin() + own.count;
    if (!leads_here) begin(lines_.emplace_back(line{.address = at.addresses[i]}));
  }
}

TUTTI_INLINE distant_process& distant_process::at(process_port const& port) {
  struct watched {
    std::mutex busy;
    std::vector<std::pair<process_port, std::unique_ptr<distant_process>>> all;
  };
  static one_per_process<watched> by_port;
  watched& here = by_port.get();
  std::lock_guard const lock(here.busy);
  for (auto const& [known, process] : here.all)
    if (known == port) return *process;
  return *here.all.emplace_back(port, std::make_unique<distant_process>(port)).second;
}

TUTTI_INLINE void distant_process::begin(line& one) const noexcept {
  one.begun = deadline::clock::now();
  one.socket = descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = port_;
  to.sin_addr.s_addr = one.address;
  bool const begun = ::connect(one.socket.get(), reinterpret_cast<sockaddr const*>(&to), sizeof to) == 0;
  one.trouble = begun || errno == EINPROGRESS ? 0 : errno;
}

TUTTI_INLINE bool distant_process::ended() noexcept {
  std::lock_guard const lock(busy_);
  for (std::size_t i = 0; i < lines_.size() && !reached_; ++i) {
    look_at(lines_[i]);
    if (!reached_) continue;
    std::swap(lines_[0], lines_[i]);
    lines_.erase(lines_.begin() + 1, lines_.end());
    return false;
  }
  if (reached_ && !ended_) look_at(lines_[0]);
  return ended_;
}

TUTTI_INLINE void distant_process::look_at(line& one) noexcept {
  static constexpr std::chrono::milliseconds between_attempts{100};
  int trouble = one.trouble;
  bool broken = trouble != 0;
  if (!broken) {
    pollfd now{one.socket.get(), POLLOUT | POLLRDHUP, 0};
    if (::poll(&now, 1, 0) == 0) return;  // neither connected nor refused yet
    socklen_t bytes = sizeof trouble;
    ::getsockopt(one.socket.get(), SOL_SOCKET, SO_ERROR, &trouble, &bytes);
    broken = trouble != 0 || (now.revents & (POLLERR | POLLHUP | POLLRDHUP)) != 0;
    reached_ |= !broken || trouble == 0 || trouble == ECONNRESET;
    one.trouble = trouble;
  }
  if (!broken) return;
  if (trouble == ECONNREFUSED) ended_ |= reached_;
  else if (reached_ && deadline::clock::now() - one.begun > between_attempts) begin(one);
}

}  // namespace tutti::detail
