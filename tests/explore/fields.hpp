// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names the addresses of a segment by the fields of its structs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "explore/explore.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::testing::explore {

struct field {
  std::size_t offset;
  char const* name;
};

// The last field that begins at or before this offset. Fields are in the order of their offsets.
inline std::string field_at(std::span<field const> fields, std::size_t offset) {
  std::string out = "?";
  for (field const& f : fields)
    if (f.offset <= offset) out = f.name;
  return out;
}

inline std::string field_of_slot(std::size_t offset) {
  using detail::slot;
  static constexpr field fields[] = {{offsetof(slot, tag), "slot.tag"},   {offsetof(slot, bytes), "slot.bytes"},
                                     {offsetof(slot, kind), "slot.kind"}, {offsetof(slot, more), "slot.more"},
                                     {offsetof(slot, line), "slot.line"}, {offsetof(slot, data), "slot.data"}};
  return field_at(fields, offset);
}

inline std::string field_of_packet(std::size_t offset) {
  return offset % sizeof(detail::packet) < offsetof(detail::packet, tag) ? "packet.data" : "packet.tag";
}

inline std::string field_of_call(std::size_t offset) {
  return offset % sizeof(detail::call_record) < offsetof(detail::call_record, word) ? "call.sequence" : "call.word";
}

inline std::string field_of_proposal(std::size_t offset) {
  using detail::proposal;
  static constexpr field fields[] = {
      {offsetof(proposal, number), "proposal.number"}, {offsetof(proposal, outcome), "proposal.outcome"},
      {offsetof(proposal, flags), "proposal.flags"},   {offsetof(proposal, gone), "proposal.gone"},
      {offsetof(proposal, left), "proposal.left"},     {offsetof(proposal, named), "proposal.named"}};
  return field_at(fields, offset % sizeof(proposal));
}

inline std::string field_of_name(std::size_t offset) {
  return offset % sizeof(detail::name_record) < offsetof(detail::name_record, text) ? "name.id" : "name.text";
}

inline std::string field_of_fault(std::size_t offset) {
  return offset < offsetof(detail::fault_record, code) ? "fault.taken" : "fault.contents";
}

inline std::string field_of_reason(std::size_t offset) {
  using detail::leaving_record;
  static constexpr field fields[] = {{offsetof(leaving_record, instead_of), "reason.instead_of"},
                                     {offsetof(leaving_record, stores), "reason.stores"},
                                     {offsetof(leaving_record, when), "reason.when"},
                                     {offsetof(leaving_record, text), "reason.text"}};
  return field_at(fields, offset);
}

inline std::string field_of_rank(std::size_t offset) {
  using detail::rank_page;
  static constexpr field fields[] = {{offsetof(rank_page, status), "status"},
                                     {offsetof(rank_page, process), "process"},
                                     {offsetof(rank_page, process_namespace), "process_namespace"},
                                     {offsetof(rank_page, cores), "cores"},
                                     {offsetof(rank_page, time_group), "time_group"},
                                     {offsetof(rank_page, probe), "probe"},
                                     {offsetof(rank_page, can_fetch), "can_fetch"},
                                     {offsetof(rank_page, excluded), "excluded"},
                                     {offsetof(rank_page, core), "core"},
                                     {offsetof(rank_page, bell), "bell"},
                                     {offsetof(rank_page, asleep), "asleep"},
                                     {offsetof(rank_page, responsive), "responsive"},
                                     {offsetof(rank_page, called), "called"},
                                     {offsetof(rank_page, finished), "finished"},
                                     {offsetof(rank_page, reading), "reading"},
                                     {offsetof(rank_page, packets_read), "packets_read"},
                                     {offsetof(rank_page, calls), "calls"},
                                     {offsetof(rank_page, awaited), "awaited"},
                                     {offsetof(rank_page, vote), "vote"},
                                     {offsetof(rank_page, proposed), "proposed"},
                                     {offsetof(rank_page, known_names), "known_names"},
                                     {offsetof(rank_page, leaving), "leaving"},
                                     {offsetof(rank_page, near), "near"},
                                     {offsetof(rank_page, far), "far"},
                                     {offsetof(rank_page, found), "found"}};
  std::string const part = field_at(fields, offset);
  if (part == "calls") return field_of_call(offset - offsetof(rank_page, calls));
  if (part == "awaited") return field_of_call(offset - offsetof(rank_page, awaited));
  if (part == "proposed") return field_of_proposal(offset - offsetof(rank_page, proposed));
  if (part == "known_names") return field_of_name(offset - offsetof(rank_page, known_names));
  if (part == "leaving") return field_of_reason(offset - offsetof(rank_page, leaving));
  if (part == "near") return field_of_packet(offset - offsetof(rank_page, near));
  if (part == "far") return field_of_packet(offset - offsetof(rank_page, far));
  if (part == "found") return field_of_fault(offset - offsetof(rank_page, found));
  return part;
}

inline std::string field_of_header(std::size_t offset) {
  using detail::segment_header;
  static constexpr field fields[] = {{offsetof(segment_header, identity), "identity"},
                                     {offsetof(segment_header, first_fault), "first_fault"},
                                     {offsetof(segment_header, told), "told"},
                                     {offsetof(segment_header, decided), "decided"}};
  return field_at(fields, offset);
}

// The name of an address in a segment, or "array", for memory of the program beside it.
inline place_name name_in(detail::segment const& s, int ranks, int tracks, void const* address) {
  auto const* const a = static_cast<std::byte const*>(address);
  auto const within = [&](void const* begin, std::size_t bytes) {
    return a >= static_cast<std::byte const*>(begin) && a < static_cast<std::byte const*>(begin) + bytes;
  };
  auto const offset = [&](void const* begin) {
    return static_cast<std::size_t>(a - static_cast<std::byte const*>(begin));
  };
  auto const named = [&](std::string field, std::string const& owner, std::size_t at) {
    std::string whole = owner + field + " at " + std::to_string(at);
    return place_name{std::move(field), std::move(whole)};
  };
  if (within(&s.header(), sizeof(detail::segment_header)))
    return named(field_of_header(offset(&s.header())), "", offset(&s.header()));
  for (int r = 0; r < ranks; ++r) {
    if (std::size_t const at = offset(&s.rank(r)); within(&s.rank(r), sizeof(detail::rank_page)))
      return named(field_of_rank(at), "rank " + std::to_string(r) + ": ", at);
    for (int to = 0; to < ranks; ++to)
      for (int t = 0; t < tracks; ++t) {
        detail::channel& c = s.between(r, to, t);
        if (!within(&c, s.channel_bytes(t))) continue;
        std::string const owner = "channel from " + std::to_string(r) + " to " + std::to_string(to) + ": ";
        if (within(&c, sizeof c)) return named("consumed", owner, 0);
        std::byte const* const close = c.close(detail::slots_of(ranks, t), 0);
        if (a >= close) return named("close", owner, offset(close));
        std::size_t const at = offset(&c + 1), number = at / sizeof(detail::slot);
        return named(field_of_slot(at % sizeof(detail::slot)), owner + "slot " + std::to_string(number) + ", ",
                     at % sizeof(detail::slot));
      }
  }
  return named("array", "", reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace tutti::testing::explore
