// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tells whether a process of another machine has ended: from then on its machine refuses connections to a port of that process.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// A port that a process listens at as long as it lives. It accepts no connection and reads nothing; the system answers for it.
struct process_port {
  std::uint16_t number = 0;                  // in network byte order; 0: none
  std::uint16_t count = 0;                   // of addresses
  std::array<std::uint32_t, 7> addresses{};  // of the machine, IPv4, in network byte order

  friend bool operator==(process_port const&, process_port const&) = default;
};

// The port of this process, which the first call opens; without a number if the system does not allow that.
[[gnu::cold]] process_port const& own_port() noexcept;

// Keeps one connection to the port. It breaks when the process ends, or for reasons of the network; which of the two, a second
// connection tells. A process that cannot be reached, as behind a firewall, is never said to have ended.
class distant_process {
 public:
  // Connects to all addresses at once, of which one is enough, and does not wait. Throws bad_alloc.
  [[gnu::cold]] explicit distant_process(process_port const& at);

  // The one of this process at that port, for as long as this process lives: the other side has room for few connections, because it
  // accepts none, not even one that was closed.
  [[gnu::cold]] static distant_process& at(process_port const& port);

  bool ended() noexcept;

 private:
  struct line {
    std::uint32_t address;
    descriptor socket{};
    int trouble = 0;  // the errno of a connection that could not even begin
    deadline::clock::time_point begun{};
  };
  [[gnu::cold]] void begin(line& one) const noexcept;
  [[gnu::cold]] void look_at(line& one) noexcept;

  std::mutex busy_;
  std::uint16_t port_;
  std::vector<line> lines_;  // once it is reached, one
  bool reached_ = false;
  bool ended_ = false;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/distant_process_impl.hpp"
#endif
