// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which blocks a rank sends and receives in gather, scatter and all_to_all. Those without elements travel too, because the other rank
// expects them.
#pragma once

#include "tutti/algorithm/collective.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/nccl/pair_sizes.hpp"

namespace tutti::detail {

template <class D, class Word>
struct nccl_blocks {
  device_call<D, Word, Word> const& call;
  int rank;

  bool sends_to(int q) const { return has_both() || (what() == collective::gather ? q : rank) == call.what.root; }
  bool receives_from(int q) const { return has_both() || (what() == collective::scatter ? q : rank) == call.what.root; }
  extent given_to(int q) const { return call.given.at(0, deals(what()) ? q : 0); }
  extent got_from(int q) const { return call.got.at(0, collects(what()) ? q : 0); }

  // In these _v forms, only sender and receiver know the size of a block.
  pair_sizes sizes(int ranks) const {
    pair_sizes out;
    if (!call.what.ragged || what() == collective::all_gather) return out;
    for (int q = 0; q < ranks; ++q) {
      out.sent.push_back(sends_to(q) ? given_to(q).count * sizeof(Word) : 0);
      out.expected.push_back(receives_from(q) ? got_from(q).count * sizeof(Word) : 0);
    }
    return out;
  }

 private:
  collective what() const { return call.what.what; }
  bool has_both() const { return what() == collective::all_to_all; }
};
template <class D, class Word>
nccl_blocks(device_call<D, Word, Word> const&, int) -> nccl_blocks<D, Word>;

}  // namespace tutti::detail
