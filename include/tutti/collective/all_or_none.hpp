// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps that all ranks take together, such as making objects that belong together: they succeed on all ranks or on none.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/ops.hpp"

namespace tutti::detail {

template <transport Transport>
[[gnu::cold]] void gather_bytes(communicator<Transport>& comm, std::span<std::byte const> mine,
                                std::span<std::byte> all, std::source_location where) {
  all_gather(comm, mine, all, {}, where);
}
// Gathers a card that each rank writes about itself, at all ranks.
template <class Card, transport Transport>
std::vector<Card> exchange_cards(communicator<Transport>& comm, Card const& mine, std::source_location where) {
  std::vector<Card> all(static_cast<std::size_t>(comm.size()));
  gather_bytes(comm, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), where);
  return all;
}

// Every rank gets the root's list or text, of which the others need not know the size.
template <class List, transport Transport>
List broadcast_list(communicator<Transport>& comm, List list, int root, std::source_location where,
                    options const& how = {}) {
  std::array size{list.size()};
  broadcast(comm, size, root, how, where);
  list.resize(size[0]);
  broadcast(comm, list, root, how, where);
  return list;
}

// Why an attempt failed on the lowest rank where it did; the same at all ranks.
struct first_failure {
  int rank = -1;
  error_code code{};
  std::string what{}, way_out{};

  explicit operator bool() const { return rank >= 0; }  // false if all have succeeded
};

// Calls attempt() at every rank. `how`: a timeout.
template <transport Transport>
[[gnu::cold]] first_failure try_everywhere(communicator<Transport>& comm, std::source_location where,
                                           function_ref<void()> attempt, options const& how = {}) {
  first_failure own;
  try {
    attempt();
  } catch (error const& e) {
    own = {comm.rank(), e.code(), std::string(e.happened()), std::string(e.way_out())};
  } catch (std::exception const& e) {
    own = {comm.rank(), error_code::system, e.what(), {}};
  }
  std::array first{own ? comm.rank() : comm.size()};
  all_reduce(comm, first, min{}, how, where);
  if (first[0] == comm.size()) return {};
  std::array code{own.code};
  broadcast(comm, code, first[0], how, where);
  return {first[0], code[0], broadcast_list(comm, own.what, first[0], where, how),
          broadcast_list(comm, own.way_out, first[0], where, how)};
}

// The same. If it fails on any rank, all ranks throw an error with the code, reason and way out of the lowest such rank: "rank 2 cannot
// <cannot>: <reason>". `way_out`, if it is not empty, replaces that of the attempt.
template <transport Transport>
[[gnu::cold]] void all_or_none(communicator<Transport>& comm, std::string_view cannot, std::source_location where,
                               function_ref<void()> attempt, std::string_view way_out = "", options const& how = {}) {
  first_failure const seen = try_everywhere(comm, where, attempt, how);
  if (!seen) return;
  if (way_out.empty()) way_out = seen.way_out;
  throw error({.code = seen.code,
               .rank = comm.rank(),
               .peer = seen.rank,
               .what = join({"rank ", seen.rank, cannot.empty() ? "" : " cannot ", cannot, ": ", seen.what}),
               .way_out = std::string(way_out.empty() ? "check the output of that rank" : way_out),
               .where = where});
}

// The same, for attempts whose errors tell enough.
template <transport Transport>
[[gnu::cold]] void all_or_none(communicator<Transport>& comm, std::source_location where,
                               function_ref<void()> attempt) {
  all_or_none(comm, "", where, attempt);
}

}  // namespace tutti::detail
