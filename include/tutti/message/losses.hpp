// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages that are lost when a communicator closes. Destructors do not throw, so these are reported on standard error.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <new>
#include <string>

#include "tutti/call/communicator.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/fifo.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/call_record.hpp"
#include "tutti/message/messenger.hpp"
#include "tutti/message/started_transfer.hpp"

namespace tutti::detail {

[[gnu::cold]] inline void print_loss(int rank, std::string const& what, char const* way_out) {
  error const loss({.rank = rank, .what = what, .way_out = way_out});
  std::fprintf(stderr, "%s\n", loss.what());
}

template <class Transport>
[[gnu::cold]] void print_unfinished(engine<Transport>& on, fifo<std::shared_ptr<started_transfer>>& started) noexcept
    try {
  std::size_t count = 0;
  started_transfer const* first = nullptr;
  for (auto const& s : started)
    if (!s->message.ended && ++count == 1) first = s.get();
  if (count == 0) return;
  print_loss(on.rank(),
             join({"rank ", on.rank(), " closed its communicator before ", count,
                   count == 1 ? " message that it had started could end: "
                              : " messages that it had started could end; the first is ",
                   describe_message(to_words(first->message), on.notices(), on.rank()), ", at ",
                   shared_file(first->place), ":", first->place.line()}),
             "receive every message that is sent, and wait for those that are started");
} catch (std::bad_alloc const&) {
}

template <class Transport>
[[gnu::cold]] void print_unreceived(engine<Transport> const& on, messenger<Transport>& messages) noexcept try {
  auto& all = messages.find_unreceived();
  if (all.empty()) return;
  kept_message const& first = all.front();
  print_loss(on.rank(),
             join({"rank ", on.rank(), " closed its communicator without receiving ", all.size(),
                   all.size() == 1 ? " message" : " messages", "; the first is of ", first.front.bytes,
                   " bytes from rank ", first.from, ", tag ", first.front.tag}),
             "receive every message that is sent");
} catch (std::bad_alloc const&) {
}

}  // namespace tutti::detail
