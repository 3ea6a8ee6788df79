// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts a call to the words that the notice board stores, and back to text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/fault/own_schedules.hpp"
#include "tutti/fault/transfer.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// Word 0 starts with the fingerprint, which is equal on all ranks if they make the same call.
inline call_words to_words(request const& r, plan const& p) {
  return {p.fingerprint | static_cast<std::uint64_t>(r.what) << 32 | static_cast<std::uint64_t>(p.algorithm) << 40 |
              static_cast<std::uint64_t>(p.how) << 48 | static_cast<std::uint64_t>(r.ragged) << 56,
          r.count,
          r.type | static_cast<std::uint64_t>(r.op) << 32,
          static_cast<std::uint32_t>(r.root) | static_cast<std::uint64_t>(r.sizes) << 32,
          r.element_bytes,
          r.unlisted != nullptr ? r.unlisted->id : 0,
          0};
}

// The end of a file's name, as peers know it.
[[gnu::cold]] inline std::string_view shared_file(std::source_location where) {
  constexpr std::size_t longest = sizeof(name_record::text) - 1;
  std::string_view file = where.file_name();
  if (file.size() > longest) {
    file.remove_prefix(file.size() - longest);
    if (std::size_t const folder = file.find('/'); folder != file.npos) file.remove_prefix(folder + 1);
  }
  return file;
}
// A call site as peers know it: the number of a file, and a line; 0 if it is unknown. introduce(number, name) publishes
// the file on the board.
template <class Introduce>
[[gnu::cold, gnu::noinline]] std::uint64_t to_shared_word(std::source_location where, Introduce&& introduce) {
  std::string_view const file = shared_file(where);
  if (file.empty()) return 0;
  introduce(name_id(file), file);
  return std::uint64_t{name_id(file)} << 32 | where.line();
}

// Caches the words of call sites, because a program makes most of its calls at a few of them. Used by one thread at a
// time.
class shared_sites {
 public:
  // make() returns the word of a site that is not cached.
  template <class Make>
  std::uint64_t word_of(std::source_location const& where, Make&& make) {
    known& k = known_[where.line() % known_.size()];
    if (k.file != where.file_name() || k.line != where.line()) [[unlikely]]
      k = {where.file_name(), where.line(), make()};
    return k.shared;
  }

 private:
  struct known {
    char const* file = nullptr;
    std::uint64_t line = 0, shared = 0;
  };
  std::array<known, 64> known_{};
};

// Where `rank` makes a call, such as "src/train.cpp:88"; empty if unknown.
template <class Board>
[[gnu::cold]] std::string site_in(call_words const& words, Board const& notices, int rank) {
  std::uint64_t const site = words[site_word];
  if (site == 0) return {};
  return join({notices.name(rank, static_cast<std::uint32_t>(site >> 32)), ":", site & 0xffffffff});
}

inline std::uint32_t fingerprint_of(call_words const& words) { return static_cast<std::uint32_t>(words[0]); }
// The number of the name of an algorithm that is not registered; 0 for those that are.
inline std::uint32_t own_algorithm_of(call_words const& words) { return static_cast<std::uint32_t>(words[5]); }
inline collective what_of(call_words const& words) { return static_cast<collective>(words[0] >> 32 & 0xff); }
inline std::int32_t root_of(call_words const& words) { return static_cast<std::int32_t>(words[3] & 0xffffffff); }

// Decoded words of a call, with the names that `rank` has put on the board.
struct readable_call {
  std::string what;       // "all_gather_v"
  std::string type, op;   // empty if there is none
  std::string algorithm;  // chosen for this call
  std::string_view protocol;
  std::uint64_t count;  // 0 if ranks may differ
  std::uint64_t bytes;  // of these
  std::uint32_t sizes;  // a hash of them, as in a request
  std::int32_t root;    // -1 if there is none
};
template <class Board>
[[gnu::cold]] readable_call readable(call_words const& words, Board const& notices, int rank) {
  collective const what = what_of(words);
  auto const algorithm = static_cast<algorithm_id>(words[0] >> 40 & 0xff);
  auto const how = static_cast<protocol>(words[0] >> 48 & 0xff);
  auto const type = static_cast<std::uint32_t>(words[2]), op = static_cast<std::uint32_t>(words[2] >> 32);
  auto const own = own_algorithm_of(words);
  bool const ragged = (words[0] >> 56 & 1) != 0;
  return {.what = join({name(what), ragged ? "_v" : ""}),
          .type = what == collective::barrier ? "" : notices.name(rank, type),
          .op = op == 0 ? "" : notices.name(rank, op),
          .algorithm = own != 0 ? notices.name(rank, own) : std::string(name(algorithm)),
          .protocol = how == protocol::automatic ? std::string_view{} : name(how),
          .count = ragged ? 0 : words[1],
          .bytes = what == collective::barrier ? 0 : words[1] * words[4],
          .sizes = static_cast<std::uint32_t>(words[3] >> 32),
          .root = rooted(what) ? root_of(words) : -1};
}

// The call site as part of a sentence.
template <class Board>
[[gnu::cold]] std::string at_site_in(call_words const& words, Board const& notices, int rank) {
  std::string const site = site_in(words, notices, rank);
  return site.empty() ? site : join({" at ", site});
}

// "all_reduce of 1000 float with sum (ring, staged)"
template <class Board>
[[gnu::cold]] std::string describe(call_words const& words, Board const& notices, int rank) {
  readable_call const call = readable(words, notices, rank);
  std::string out = call.what;
  if (!call.type.empty()) {
    out += call.what.ends_with("_v") ? join({" of ", call.type}) : join({" of ", call.count, " ", call.type});
    if (call.sizes != 0) append(out, {", in parts (hash of their sizes: ", call.sizes % 10'000, ")"});
  }
  if (!call.op.empty()) append(out, {" with ", call.op});
  if (call.root >= 0) append(out, {", root ", call.root});
  append(out, {" (", call.algorithm});
  if (!call.protocol.empty()) append(out, {", ", call.protocol});
  return out += ")";
}

// Where ranks make the same calls and their messages do not fit, the schedule may be wrong. The registered ones are
// proven; if the last call of this rank or the one before used another, returns what the verifier says of it, and sets `when` to
// `own` unless it finds it correct.
template <class Board>
[[gnu::cold]] std::string doubt_about_schedule(Board const& notices, int rank, int ranks, std::uint64_t last,
                                               circumstance& when) {
  // A message that the call before has left behind shows only now.
  for (std::uint64_t call = std::max<std::uint64_t>(last, 2) - 1; call <= last; ++call)
    if (auto const words = notices.find(rank, call); words && own_algorithm_of(*words) != 0)
      return doubt_about(own_algorithm_of(*words), what_of(*words), ranks, root_of(*words), call, when);
  return {};
}

// Encodes a message that a rank waits for, or has sent, received or found. `closing_round`: 1 or 2 if the rank closes and no peer has matched
// any of its messages, else 0. Ranks that are all in round 2 for a while wait in vain.
inline call_words to_words(transfer const& t, unsigned closing_round = 0) {
  return {t.what == transfer::send      ? 1u
          : t.what == transfer::receive ? 0u
                                        : 2u,
          std::max(t.bytes, t.device_bytes),  // of elements, the division would take as long as half of the words
          t.type,
          static_cast<std::uint32_t>(t.peer) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(t.tag)) << 32,
          t.element_bytes,
          closing_round,
          0};
}
inline std::uint64_t closing_round_of(call_words const& message) { return message[5]; }
inline bool is_send(call_words const& message) { return message[0] == 1; }
inline bool is_probe(call_words const& message) { return message[0] == 2; }
inline int peer_of(call_words const& message) { return static_cast<std::int32_t>(message[3] & 0xffffffff); }
inline int tag_of(call_words const& message) { return static_cast<std::int32_t>(message[3] >> 32); }
inline std::uint64_t bytes_of(call_words const& message) { return message[1]; }
inline std::uint64_t count_of(call_words const& message) { return message[1] / std::max<std::uint64_t>(message[4], 1); }

// "send of 1000 float to rank 1, tag 0", "recv of up to 8 int from any rank, any tag", "probe for a message from rank 1, tag 0"
template <notice_board Board>
[[gnu::cold]] std::string describe_message(call_words const& words, Board const& notices, int rank) {
  int const peer = peer_of(words), tag = tag_of(words);
  std::string const elements = join({count_of(words), " ", notices.name(rank, static_cast<std::uint32_t>(words[2]))});
  std::string out = is_send(words)    ? join({"send of ", elements, " to "})
                    : is_probe(words) ? std::string("probe for a message from ")
                                      : join({"recv of up to ", elements, " from "});
  out += peer == any_source ? std::string("any rank") : join({"rank ", peer});
  return out += tag == any_tag ? std::string(", any tag") : join({", tag ", tag});
}

}  // namespace tutti::detail
