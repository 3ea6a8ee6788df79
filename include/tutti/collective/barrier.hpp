// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// barrier: no rank continues before all have called it.
#pragma once

#include <source_location>

#include "tutti/call/accepted.hpp"
#include "tutti/call/perform.hpp"

namespace tutti {
namespace detail {

// The schedules of a barrier pass a token: one byte, combined like a reduction.
class token_memory {
 public:
  static constexpr bool ragged = false;

  token_memory() = default;
  token_memory(token_memory const&) noexcept : token_memory() {}
  token_memory& operator=(token_memory const&) = delete;

  unsigned char const* const in = &own_;
  unsigned char* const out = &heard_;

  static std::size_t elements(request const&) { return 1; }
  template <class U>
  void lay_out(surfaces<U>& s, request const&, int, int) const {
    s.input.data = reinterpret_cast<U const*>(in);
    s.output.data = reinterpret_cast<U*>(out);
  }
  template <class Use>
  void list_buffers(Use&, request const&, int, int) const {}

 private:
  unsigned char own_ = 0, heard_ = 0;
};
inline constexpr call_names token_names{"token", {}};
inline constexpr bit_or combine_tokens{};

template <class Algorithm, class Comm>
returned_by<Comm> perform_barrier(Comm& comm, options const& o, std::source_location where) {
  return noting_refusals(comm, [&]() __attribute__((always_inline)) {
    check_algorithm<Algorithm, collective::barrier, void>(comm, o, where);
    reduction<collective::barrier, Algorithm, unsigned char, bit_or, token_memory> call{
        {{.what = collective::barrier,
          .algorithm = id_of<Algorithm>(o),
          .how = o.protocol,
          .count = 1,
          .unlisted = unlisted_or_none<Algorithm, collective::barrier>()},
         find_schedule_of<collective::barrier>,
         o.timeout,
         where,
         &token_names},
        {},
        {combine_tokens}};
    return perform(comm, call);
  });
}

}  // namespace detail

// Returns when all ranks have called it. It carries no data.
//
// Throws    error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost      of one_shot: 1 hop, in which each rank sends p-1 messages of one byte; of dissemination and recursive_doubling:
//           log2 p hops, with one message each
// Source    MPI-4.1, 6.3
//
//   tutti::barrier(comm);
//   tutti::work all_are_here = tutti::barrier(tutti::async(comm));
template <class Algorithm = automatic, class Comm>
  requires detail::host_ranks<Comm>
auto barrier(Comm&& comm, options const& o = {}, std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_communicator<Comm>()) return detail::perform_barrier<Algorithm>(comm, o, where);
}

}  // namespace tutti
