// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Descriptors that processes of one user send each other.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// A socket with a name that the system chooses, and that vanishes with it.
class descriptor_mail {
 public:
  struct address {
    std::array<char, 16> name{};
    std::uint32_t bytes = 0;
    bool operator==(address const&) const = default;
  };

  // Throws error: system.
  [[gnu::cold]] descriptor_mail();

  address const& here() const { return here_; }

  // Sends `file` to each of `to`, and returns what each of `from` has sent, in their order. Ignores mail of anybody else, and of other
  // users. Throws error: system, timeout.
  [[gnu::cold]] std::vector<descriptor> exchange(descriptor const& file, std::span<address const> to,
                                                 std::span<address const> from, deadline until) const;

 private:
  // False: the receiver has no room yet.
  bool send(descriptor const& file, address const& to) const;
  // The next one, if there is any.
  std::optional<std::pair<address, descriptor>> receive() const;

  descriptor socket_;
  address here_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/descriptor_mail_impl.hpp"
#endif
