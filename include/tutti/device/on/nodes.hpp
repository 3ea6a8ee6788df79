// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks are on one node, and whether all ranks pass the same to `on`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <vector>

#include "tutti/call/check_arguments.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_or_none.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/ipc/card.hpp"
#include "tutti/device/on/options.hpp"

namespace tutti::detail {

// All ranks call it together. Throws error: bad_argument, if they name different paths, or different slices of messages.
template <class D, transport Transport>
[[gnu::cold]] node_map find_nodes(communicator<Transport>& comm, on_options<D> const& how, std::source_location where) {
  struct card {
    host_identity host{};
    int node = 0;
    device_path path{};
    std::size_t slice = 0;

    bool shares_node(card const& other) const { return node == other.node && host.objection_to(other.host).empty(); }
  };
  auto const all = exchange_cards(
      comm, card{host_identity::of_this_process(), how.node.value_or(0), how.path, how.slices.slice}, where);
  std::vector<int> keys;
  for (std::size_t q = 0; q < all.size(); ++q) {
    if (all[q].path != all[0].path)
      refuse(comm.rank(), join({"ranks 0 and ", q, " name different paths to other devices"}),
             "pass the same path at all ranks", where);
    if (std::size_t const theirs = all[q].slice, those_of_0 = all[0].slice; theirs != those_of_0)
      refuse(comm.rank(),
             join({"ranks 0 and ", q, " cut messages into slices of ", those_of_0, " and ", theirs, " bytes"}),
             "pass the same slices at all ranks", where);
    auto const first = std::ranges::find_if(all, [&](card const& other) { return other.shares_node(all[q]); });
    keys.push_back(static_cast<int>(first - all.begin()));
  }
  return node_map(keys);
}

}  // namespace tutti::detail
