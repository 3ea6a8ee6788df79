// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors about some of the ranks: those that were expected to join a group and did not, or those that share a part of a call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/error.hpp"

namespace tutti::detail {

inline constexpr char const* members_must_join =
    "all members must create this group with the same ranks in the same order; find out what delays them, or raise "
    "TUTTI_TIMEOUT";

// "1, 3"
[[gnu::cold]] std::string list_of(std::vector<int> const& ranks);

// What happened in a part of a call between `members`, who are numbered from 0 there.
[[gnu::cold]] std::string in_part(std::vector<int> const& members, error const& e);

class absent_ranks : public error {
 public:
  [[gnu::cold]] absent_ranks(int rank, std::vector<int> absent, std::string_view way_out);

  std::vector<int> const& all() const noexcept { return all_; }

 private:
  std::vector<int> all_;
};

// Those that the error which is being handled names. (A dynamic_cast would need -frtti.)
[[gnu::cold]] std::vector<int> ranks_of_handled_error();

[[gnu::cold]] error rank_gone(int rank, int peer);

// `peer` does not join a group of these ranks, because it has learned of a fault and waits in agree or shrink. `cause` is a rank that has
// ended or left; -1 if there is none.
[[gnu::cold]] error rank_votes(int rank, int peer, int cause, bool left);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/absence_impl.hpp"
#endif
