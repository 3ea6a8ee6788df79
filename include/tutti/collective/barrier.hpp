// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// barrier: no rank goes on before all have come.
#pragma once

#include "tutti/call/reduction.hpp"

namespace tutti {
namespace detail {

// Schedules of a barrier pass a token: one byte, combined like a reduction.
class token_memory {
 public:
  static constexpr bool ragged = false;

  token_memory() = default;
  token_memory(token_memory const&) noexcept : token_memory() {}
  token_memory& operator=(token_memory const&) = delete;

  unsigned char const* const in = &own_;
  unsigned char* const out = &heard_;

  static std::size_t elements(request const&) { return 1; }
  void lay_out(surfaces<unsigned char>& s, request const&, int, int) const {
    s.input.data = in;
    s.output.data = out;
  }
  template <class Use>
  void list_buffers(Use&, request const&, int, int) const {}

 private:
  unsigned char own_ = 0, heard_ = 0;
};
inline constexpr call_names token_names{"token", {}};
inline constexpr bit_or combine_tokens{};

}  // namespace detail

// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.3.
//
//   tutti::barrier(comm);
//   tutti::work all_are_here = tutti::barrier(tutti::async(comm));
template <class Algorithm = automatic, communicating Comm>
detail::returned_by<Comm> barrier(Comm&& comm, options const& o = {},
                                  std::source_location where = std::source_location::current()) {
  detail::check_algorithm<Algorithm, collective::barrier, void>(comm, o, where);
  detail::reduction<collective::barrier, Algorithm, unsigned char, bit_or, detail::token_memory> call{
      {{.what = collective::barrier,
        .algorithm = detail::id_of<Algorithm>(o),
        .how = o.protocol,
        .count = 1,
        .unlisted = detail::unlisted_or_none<Algorithm, collective::barrier>()},
       o.timeout,
       where,
       &detail::token_names},
      {},
      {detail::combine_tokens}};
  return detail::perform(comm, call);
}

}  // namespace tutti
