// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Proves that the parts of a collective in two levels, taken together, make the collective, on any nodes.
#pragma once

#include "tutti/algorithm/collective.hpp"
#include "tutti/analyze/verdict.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/nodes.hpp"
#include "tutti/core/shape.hpp"

namespace tutti::analyze {

struct two_level_circumstances {
  bool in_place = false;
  bool uneven = false;  // a _v form, with blocks of several sizes and, in an all_gather, gaps between them
  bool large = false;   // the message is so long that every rank sends a share of it across nodes
};

// Whether two_level does what the contract of `what` says, for these ranks on these nodes. It takes the ranks through the list of
// parts as calls do, with the same memory and the same work between parts. Each part is taken to do what its own contract says,
// which verify() proves of the algorithms, in any order of combination that the operation allows. A part in which only some ranks of
// a group take part, or in which they disagree on the root or on sizes, is a flaw.
//
//   verdict v = verify_two_level(collective::scan, detail::node_map({0, 0, 0, 1}), {.ranks = 4, .ordered = true});
[[gnu::cold]] verdict verify_two_level(collective what, tutti::detail::node_map const& nodes, shape s,
                                       two_level_circumstances how = {});

}  // namespace tutti::analyze

#if !defined(TUTTI_COMPILED)
#include "tutti/analyze/verify_two_level_impl.hpp"
#endif
