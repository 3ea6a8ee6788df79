// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Binomial tree: as many hops as the logarithm of the ranks, with whole messages. The tree for small messages.
#pragma once

#include <string_view>

#include "tutti/algorithm/compose.hpp"
#include "tutti/algorithm/concept.hpp"

namespace tutti {

struct binomial_tree {
  static constexpr std::string_view name = "binomial_tree";
};

namespace detail {

// The tree over nodes 0..ranks-1, where node v is `v` ranks after the root. The parent of a node is the node without its
// lowest set bit; its children add a lower bit. The subtree of a node is a run of consecutive nodes, so contributions
// meet in rank order when the root is rank 0.
struct binomial_node {
  int node, root, ranks;

  TUTTI_HOST_DEVICE constexpr binomial_node(shape s, int rank)
      : node(wrap(rank - s.root, s.ranks)), root(s.root), ranks(s.ranks) {}

  TUTTI_HOST_DEVICE constexpr bool is_root() const { return node == 0; }
  TUTTI_HOST_DEVICE constexpr int parent() const { return wrap(root + (node & (node - 1)), ranks); }
  TUTTI_HOST_DEVICE constexpr int child(int i) const { return wrap(root + node + (1 << i), ranks); }
  TUTTI_HOST_DEVICE constexpr int children() const {
    int n = 0;
    while ((node & (1 << n)) == 0 && node + (1 << n) < ranks) ++n;
    return n;
  }
  // One for each child, and one for a leaf.
  TUTTI_HOST_DEVICE constexpr int steps() const {
    int const n = children();
    return n > 0 || ranks == 1 ? n : 1;
  }
  // The chunks of the subtree that begins `offset` nodes after this one and spans `span` nodes where there are as many.
  TUTTI_HOST_DEVICE constexpr chunks subtree(int offset, int span) const {
    int const left = ranks - node - offset;
    return {wrap(root + node + offset, ranks), span < left ? span : left};
  }
  TUTTI_HOST_DEVICE constexpr chunks subtree() const { return subtree(0, is_root() ? ranks : node & -node); }
  TUTTI_HOST_DEVICE constexpr chunks child_subtree(int i) const { return subtree(1 << i, 1 << i); }
};

// A rank combines the contributions of its children, nearest first, and passes the result on in the step that combines the
// last one. A rank other than the root keeps its partial result in `Partial`.
template <space Partial>
struct binomial_reduce : schedule_defaults {
  static constexpr bool pipelined = true;
  static constexpr bool scratch = Partial == space::scratch;

  TUTTI_HOST_DEVICE constexpr int steps(shape s, position me) const { return binomial_node(s, me.rank).steps(); }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    binomial_node const tree(s, me.rank);
    int const children = tree.children();
    if (children == 0) return {.to = one(tree.parent()), .give = {space::input}};
    space const kept = tree.is_root() ? space::output : Partial;
    step out{.from = two(me.rank, tree.child(i)), .own = {i == 0 ? space::input : kept}, .keep = {kept}};
    if (i < children - 1) return out;
    if (tree.is_root()) out.complete = true;
    else out.keep.where = space::none, out.to = one(tree.parent());
    return out;
  }
};

// A rank serves its farthest child first, which has the deepest subtree, in the step that receives. The root has the message
// in `Source`.
template <space Source>
struct binomial_broadcast : schedule_defaults {
  static constexpr bool pipelined = true;

  TUTTI_HOST_DEVICE constexpr int steps(shape s, position me) const { return binomial_node(s, me.rank).steps(); }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    binomial_node const tree(s, me.rank);
    int const children = tree.children();
    step out{};
    if (children > 0) out.to = one(tree.child(children - 1 - i));
    if (tree.is_root()) out.give = {Source};
    else if (i == 0) out.from = one(tree.parent()), out.keep = {space::output};
    else out.give = {space::output};
    return out;
  }
};

}  // namespace detail

template <>
struct schedule<binomial_tree, collective::reduce> : deliver<detail::binomial_reduce<space::scratch>> {};

template <>
struct schedule<binomial_tree, collective::broadcast> : detail::binomial_broadcast<space::input> {};

template <>
struct schedule<binomial_tree, collective::all_reduce>
    : then<detail::binomial_reduce<space::output>, detail::binomial_broadcast<space::output>> {};

template <>
struct schedule<binomial_tree, collective::barrier> : schedule<binomial_tree, collective::all_reduce> {};

namespace detail {

// Blocks travel between the root and all ranks: a rank exchanges one message with its parent and with each child, and keeps
// its own block.
struct binomial_blocks : schedule_defaults {
  static constexpr bool scratch = true;
  static constexpr bool ragged = false;  // inner ranks pass on blocks whose sizes they do not know

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position me) const {
    binomial_node const tree(s, me.rank);
    if (s.ranks == 1) return 0;
    int const children = tree.children();
    return children == 0 ? 1 : 1 + children + (tree.is_root() ? 0 : 1);
  }
};

}  // namespace detail

// The blocks of a subtree travel towards the root in one message.
template <>
struct schedule<binomial_tree, collective::gather> : detail::binomial_blocks {
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    detail::binomial_node const tree(s, me.rank);
    int const children = tree.children();
    space const kept = tree.is_root() ? space::output : space::scratch;
    if (children == 0) return {.to = one(tree.parent()), .give = {space::input, {me.rank}}};
    if (i == 0) return {.from = one(me.rank), .own = {space::input, {me.rank}}, .keep = {kept, {me.rank}}};
    if (i <= children) return {.from = one(tree.child(i - 1)), .keep = {kept, tree.child_subtree(i - 1)}};
    return {.to = one(tree.parent()), .give = {kept, tree.subtree()}};
  }
};

// The blocks of a subtree travel away from the root in one message, the deepest subtree first.
template <>
struct schedule<binomial_tree, collective::scatter> : detail::binomial_blocks {
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    detail::binomial_node const tree(s, me.rank);
    int const children = tree.children();
    tutti::chunks const mine{me.rank};
    if (children == 0) return {.from = one(tree.parent()), .keep = {space::output, mine}};
    if (!tree.is_root() && i == 0) return {.from = one(tree.parent()), .keep = {space::scratch, tree.subtree()}};
    space const held = tree.is_root() ? space::input : space::scratch;
    int const child = children - 1 - (tree.is_root() ? i : i - 1);
    if (child >= 0) return {.to = one(tree.child(child)), .give = {held, tree.child_subtree(child)}};
    return {.from = one(me.rank), .own = {held, mine}, .keep = {space::output, mine}};
  }
};

}  // namespace tutti
