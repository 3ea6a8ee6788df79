// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes what the ranks of a communicator are doing, as far as their notice boards and the transport tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/call_record.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

template <transport Transport>
class peer_states {
 public:
  using board_type = std::remove_cvref_t<decltype(std::declval<Transport&>().notices())>;

  peer_states(Transport& transport, std::optional<board_type> const& notices)
      : transport_(transport), notices_(notices) {}

  // Describes the state of a peer: "in send of 4 float to rank 1, tag 0", "after call #11, all_reduce of ..." or "in
  // call #12, ...". If its state is known only from messages, the peer may have progressed since.
  [[gnu::cold]] std::string doing(int peer) const;
  [[gnu::cold]] std::string last_call(int peer) const;
  // "rank 2 calls all_reduce of ...", for a call that may be on its board.
  [[gnu::cold]] std::string said_of(int peer, std::uint64_t call) const;
  // How a rank has ended or left.
  [[gnu::cold]] std::string departure(error_code code, int peer) const;
  // The end of a sentence on such a rank: why, if the rank has said so.
  struct explanation {
    std::string text{};
    circumstance when = circumstance::usual;
  };
  [[gnu::cold]] explanation why_gone(int peer) const;

  // The earliest call up to `last` still on the board in which a peer makes a different call; 0 if there is none. This rank
  // may have finished that call already, since not every rank waits in every call.
  [[gnu::cold]] std::uint64_t first_disagreement(int peer, std::uint64_t last) const;

  // The other ranks whose processes are stopped, as far as the transport sees that. They are to blame for a timeout, and
  // others may be late only because of them.
  struct stopped_ranks {
    int first = -1;
    std::string text{};
  };
  [[gnu::cold]] stopped_ranks find_stopped() const;

 private:
  int rank() const noexcept { return transport_.rank(); }

  Transport& transport_;
  std::optional<board_type> const& notices_;  // null if there is only one rank
};

template <transport Transport>
std::string peer_states<Transport>::doing(int peer) const {
  auto const message = notices_->awaited(peer);
  if (!message) return join({last_call(peer), notices_->called(peer) == 0 ? " on this communicator" : ""});
  std::string const waits = join({describe_message(*message, *notices_, peer), at_site_in(*message, *notices_, peer)});
  if (notices_->called(peer) <= notices_->finished(peer)) return join({"in ", waits});
  return join({last_call(peer), ", and tests ", waits});
}

template <transport Transport>
std::string peer_states<Transport>::last_call(int peer) const {
  std::uint64_t const called = notices_->called(peer), finished = notices_->finished(peer);
  bool const knows = !tutti::detail::queries_peers<Transport> || peer == rank() || transport_.left(peer);
  if (called == 0) return knows ? "before its first collective call" : "not heard from";
  auto const words = notices_->find(peer, called);
  std::string const what =
      words ? join({describe(*words, *notices_, peer), at_site_in(*words, *notices_, peer)}) : "no longer on record";
  char const* const seen = knows ? "in call #" : "in or after call #";
  return join({finished >= called ? "after call #" : seen, called, ", ", what});
}

template <transport Transport>
std::string peer_states<Transport>::said_of(int peer, std::uint64_t call) const {
  auto const words = notices_->find(peer, call);
  if (!words) return join({"rank ", peer, " makes a different call"});
  return join({"rank ", peer, " calls ", describe(*words, *notices_, peer), at_site_in(*words, *notices_, peer)});
}

template <transport Transport>
std::string peer_states<Transport>::departure(error_code code, int peer) const {
  bool const left = code == error_code::rank_left;
  bool const unheard = tutti::detail::queries_peers<Transport> && !left && notices_->called(peer) == 0;
  return join({left ? join({"rank ", peer, " closed its communicator "}) : join({transport_.describe(peer), " ended "}),
               unheard ? join({"before rank ", rank(), " heard of a collective call of it"}) : last_call(peer)});
}

template <transport Transport>
typename peer_states<Transport>::explanation peer_states<Transport>::why_gone(int peer) const {
  leaving_reason const said = notices_->reason_to_leave(peer);
  if (said.when == circumstance::usual) return {};
  return {said.when == circumstance::refused ? join({"; a call of rank ", peer, " was refused: ", said.text})
                                             : join({"; an exception made rank ", peer, " close its communicator"}),
          said.when};
}

template <transport Transport>
std::uint64_t peer_states<Transport>::first_disagreement(int peer, std::uint64_t last) const {
  for (std::uint64_t call = last < records ? 1 : last - records + 1; call <= last; ++call) {
    auto const ours = notices_->find(rank(), call), theirs = notices_->find(peer, call);
    if (ours && theirs && fingerprint_of(*ours) != fingerprint_of(*theirs)) return call;
  }
  return 0;
}

template <transport Transport>
typename peer_states<Transport>::stopped_ranks peer_states<Transport>::find_stopped() const {
  stopped_ranks out;
  if constexpr (tutti::detail::sees_stops<Transport>) {
    for (int peer = 0; peer < transport_.ranks(); ++peer) {
      if (peer == rank() || !transport_.stopped(peer)) continue;
      if (out.first < 0) out.first = peer;
      append(out.text, {"; the process of rank ", peer, " is stopped, by a signal or a debugger"});
    }
  }
  return out;
}

}  // namespace tutti::detail
