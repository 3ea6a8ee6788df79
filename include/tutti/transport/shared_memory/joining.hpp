// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the ranks of a group join it, once they have mapped its memory.
#pragma once

#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/notice.hpp"
#include "tutti/transport/shared_memory/mailbox.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"

namespace tutti::detail {

// One rank's part. All ranks meet twice: when each has joined, and when each has tried to read the private memory of the others.
// If a rank has ended or given up before, none joins: the first to notice raises a fault, because others may be unable to see it.
class joining {
 public:
  // `lost`: whether the process of a rank has ended, as far as that is known.
  [[gnu::cold]] joining(mailbox& self, function_ref<bool(int)> lost, acquaintance const& others, countdown& until);

  // `try_to_fetch`: whether this rank can read the memory of all others; called when all have joined.
  // Throws error: timeout with the ranks that did not arrive, rank_lost if one of them has ended or given up, and the exceptions of
  // `try_to_fetch`. This rank has then left the group.
  [[gnu::cold]] void join(function_ref<bool()> try_to_fetch);

  // For a rank that cannot join, for example because the system refuses to map the memory. It raises a fault, because a rank that
  // merely leaves seems to have given up waiting for others.
  [[gnu::cold]] static void refuse(segment const& memory, int rank, acquaintance const& others) noexcept;

 private:
  using step = function_ref<bool(int)>;  // whether a rank has taken it

  void meet(step taken);
  void give_up() noexcept;
  // Called once a rank has gone. False if it has merely stopped waiting for ranks that are absent: this rank would wait for them in
  // vain, too. Throws error: rank_lost if it has ended or has refused to join.
  bool is_worthwhile(step taken);
  std::vector<int> absent(step taken) const;
  // The rank that has ended, or else one that has given up, as others do because of the first.
  int gone() const;
  bool gave_up(int rank) const { return self_.left(rank); }
  int name_of(int rank) const { return others_.name_of(rank); }
  static fault loss_of(segment const& memory, int finder, int rank, char const* what, acquaintance const& others);
  error refusal(fault const& f) const;

  mailbox& self_;
  function_ref<bool(int)> lost_;
  acquaintance const& others_;
  countdown& until_;
  bool waited_in_vain_ = false;  // for ranks that are absent, which is no fault of this rank
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/joining_impl.hpp"
#endif
