// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Raises failures of messages between two ranks as faults of their communicator.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/call/engine.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/transfer.hpp"
#include "tutti/fault/way_out.hpp"
#include "tutti/message/messenger.hpp"

namespace tutti::detail {

template <class Transport>
class message_faults {
 public:
  message_faults(engine<Transport>& g, messenger<Transport>& m) : engine_(g), messenger_(m) {}

  // A rank that has ended or closed its communicator, without which a transfer cannot end.
  struct departure {
    error_code code;
    int peer;
  };
  [[gnu::cold]] std::optional<departure> find_departure(transfer const& t) {
    bool const any = t.peer == any_source && t.source == no_rank;
    int const partner = t.source != no_rank ? t.source : t.peer;
    int present = 0;
    for (int peer = 0; peer < engine_.ranks(); ++peer) {
      if (peer == engine_.rank() || (!any && peer != partner)) continue;
      bool const lost =
          engine_.transport().lost(peer);  // read first: a rank that closes its communicator does so before it ends
      bool const left = engine_.transport().left(peer);
      if (!lost && !left) ++present;
      bool const ends = lost && !left ? true : left && !any;
      if (ends) return departure{left ? error_code::rank_left : error_code::rank_lost, peer};
    }
    if (any && present == 0) return departure{error_code::rank_left, (engine_.rank() + 1) % engine_.ranks()};
    return {};
  }

  // Whether every other rank has gone, or has begun this round of closing.
  [[gnu::cold]] bool all_close(unsigned round) {
    for (int peer = 0; peer < engine_.ranks(); ++peer) {
      if (peer == engine_.rank() || engine_.transport().lost(peer) || engine_.transport().left(peer)) continue;
      auto const message = engine_.notices().awaited(peer);
      if (!message || closing_round_of(*message) < round) return false;
    }
    return true;
  }

  [[noreturn, gnu::cold]] void raise_departure(transfer const& t, error_code code, int peer,
                                               std::source_location where) {
    auto const why = engine_.states().why_gone(peer);
    raise(code, peer,
          join({code == error_code::rank_left
                    ? join({"rank ", peer, " closed its communicator"})
                    : join({engine_.transport().describe(peer), " ended, ", engine_.states().doing(peer)}),
                ", while rank ", engine_.rank(), " is in ", text(t), why.text, other_message(t)}),
          where, why.when != circumstance::usual ? why.when : circumstance::message);
  }
  [[noreturn, gnu::cold]] void raise_unmatched(transfer const& t, std::source_location where) {
    raise(error_code::rank_left, t.peer == any_source ? -1 : t.peer,
          join({t.what == transfer::send ? "nobody receives this message" : "nobody sends what a recv waits for",
                ": all ranks close their communicators, and rank ", engine_.rank(), " is in ", text(t),
                other_message(t)}),
          where, circumstance::message);
  }
  [[noreturn, gnu::cold]] void raise_given_up(transfer const& t, std::source_location where) {
    raise(error_code::rank_left, engine_.rank(),
          join({"rank ", engine_.rank(), " gave up ", text(t), " because of an exception"}), where,
          circumstance::exception);
  }
  [[noreturn, gnu::cold]] void raise_timeout(transfer const& t, std::chrono::nanoseconds limit,
                                             std::source_location where) {
    std::string what = join({text(t), " on rank ", engine_.rank(), " did not complete within ",
                             std::chrono::duration<double>(limit).count(), " s"});
    int peer = t.source != no_rank ? t.source : t.peer;
    circumstance when = circumstance::usual;
    bool const waits_for_itself = alone() || peer == engine_.rank();
    if (waits_for_itself) append(what, {"; rank ", engine_.rank(), " waits for itself"});
    else when = add_waiting_chain(what, t, peer);
    std::string const other = other_message(t);
    what += other;
    if (!other.empty()) when = circumstance::message;  // its tag is the likely cause
    else if (waits_for_itself && !alone()) when = circumstance::circle;
    auto const stopped = engine_.states().find_stopped();
    if (stopped.first >= 0) {
      peer = stopped.first;
      what += stopped.text;
    }
    if (when == circumstance::usual && stopped.first < 0 && !alone()) when = circumstance::message;
    raise(error_code::timeout, alone() || peer == any_source ? -1 : peer, what, where, when);
  }
  [[noreturn, gnu::cold]] void raise_failure(message_failure const& m, std::source_location where) {
    if (m.out_of_sequence)
      raise(error_code::mismatch, m.from,
            join({"a message from rank ", m.from, " to rank ", engine_.rank(),
                  " was lost, truncated, repeated or damaged"}),
            where);
    std::string const type = type_name(m.from, m.type), sender = join({"rank ", m.from, ", tag ", m.tag});
    if (m.read_error != 0) {
      if (auto const gone = engine_.wait_for_reason_of(m.from)) raise_departure(*m.receive, *gone, m.from, where);
      raise(error_code::system, m.from,
            join({"rank ", engine_.rank(), " cannot read the memory of ", sender, ": ", std::strerror(m.read_error)}),
            where, circumstance::message);
    }
    transfer const& r = *m.receive;
    std::string_view const place = !m.on_device ? r.bytes == 0 && r.device_bytes > 0 ? ", by way of the host," : ""
                                   : r.device_bytes == 0 ? ", in memory of a device, which a host cannot receive,"
                                                         : ", in memory of a device,";
    raise(error_code::mismatch, m.from,
          join({"a message of ", m.bytes, " bytes of ", type, " from ", sender, place, " does not fit the ", text(r),
                " (", std::max(r.bytes, r.device_bytes), " bytes), of rank ", engine_.rank()}),
          where, circumstance::message);
  }

 private:
  bool alone() const noexcept { return engine_.ranks() == 1; }

  std::string type_name(int from, std::uint32_t type) {
    std::string const known = messenger_.type_name(from, type);
    return !known.empty() ? known : alone() ? "another type" : engine_.notices().name(from, type);
  }
  // A message that has arrived for this receive, but for its tag, or empty.
  [[gnu::cold]] std::string other_message(transfer const& t) {
    if (t.what == transfer::send || t.source != no_rank) return {};
    kept_message const* const kept = messenger_.find_unmatched(t.peer);
    if (kept == nullptr) return {};
    return join({"; a message of ", kept->front.bytes, " bytes of ", type_name(kept->from, kept->front.type),
                 " from rank ", kept->from, ", tag ", kept->front.tag, " has arrived, which no receive matches"});
  }
  // Adds what the peer of t is doing, then the rank that it waits for, and so on along the chain.
  [[gnu::cold]] circumstance add_waiting_chain(std::string& out, transfer const& t, int peer) {
    if constexpr (queries_peers<Transport>) engine_.transport().poll_notices();
    std::vector<int> seen{engine_.rank()};
    while (peer != any_source && std::find(seen.begin(), seen.end(), peer) == seen.end()) {
      seen.push_back(peer);
      out += join({"; rank ", peer, " is ", engine_.states().doing(peer)});
      auto const message = engine_.notices().awaited(peer);
      if (!message) break;
      peer = peer_of(*message);
      if (peer == engine_.rank()) {
        bool const one_way = seen.size() == 2 && is_send(*message) != (t.what == transfer::send);
        if (one_way && tag_of(*message) != t.tag) {
          out += "; the tags of these two differ";
          return circumstance::message;
        }
        out += "; they wait for each other";
        return circumstance::circle;
      }
    }
    return circumstance::usual;
  }
  [[gnu::cold]] std::string text(transfer const& t) {
    if (alone()) return t.what == transfer::send ? "send" : t.what == transfer::receive ? "recv" : "probe";
    return describe_message(to_words(t), engine_.notices(), engine_.rank());
  }
  [[noreturn, gnu::cold]] void raise(error_code code, int peer, std::string const& what, std::source_location where,
                                     circumstance when = circumstance::usual) {
    if (alone())
      throw error({.code = code,
                   .rank = 0,
                   .what = what,
                   .way_out = std::string(when == circumstance::message ? way_out_of_fault(code, when, false)
                                                                        : "start the other end of the message first"),
                   .where = where});
    engine_.raise({code, engine_.rank(), peer, what, when}, where);
  }

  engine<Transport>& engine_;
  messenger<Transport>& messenger_;
};

}  // namespace tutti::detail
