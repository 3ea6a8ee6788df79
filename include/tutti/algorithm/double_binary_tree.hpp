// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Double binary tree: two binary trees, each over half of the message, in which (nearly) every rank is a leaf of one and
// an inner node of the other. Logarithmic latency at full bandwidth.
#pragma once

#include <string_view>

#include "tutti/algorithm/compose.hpp"
#include "tutti/algorithm/concept.hpp"

namespace tutti {

// P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.
struct double_binary_tree {
  static constexpr std::string_view name = "double_binary_tree";
};

namespace detail {

// A rank's place in one of the two trees. The root's node is 0 and sits on top of both. Nodes 1..m, m = ranks - 1, form an
// in-order binary tree: a node's lowest set bit b is its height, its children are b/2 below and b/2 (or, at the ragged
// end, the first smaller power of two that exists) above it. So a subtree is a run of consecutive nodes, and odd nodes are
// leaves. The second tree relabels the nodes. Where m is even it mirrors them (v -> m + 1 - v), which makes odd nodes inner
// ones. Where m is odd it shifts them by one (v -> v - 1, 1 -> m), except in an ordered call: a shift would break rank order,
// so the tree is mirrored there too, and some ranks are inner nodes of both trees.
class two_tree_node {
 public:
  TUTTI_HOST_DEVICE constexpr two_tree_node(shape s, position me)
      : shape_(s),
        last_(s.ranks - 1),
        relabel_(me.lane == 0                  ? same
                 : last_ % 2 == 0 || s.ordered ? mirrored
                                               : shifted),
        node_(relabel(wrap(me.rank - s.root, s.ranks))) {}

  TUTTI_HOST_DEVICE constexpr bool is_root() const { return node_ == 0; }
  // The only child of the root.
  TUTTI_HOST_DEVICE constexpr int top() const { return rank_of(power_below(last_)); }
  TUTTI_HOST_DEVICE constexpr int parent() const {
    int const low = node_ & -node_, without = node_ ^ low;
    int const up = without | (low << 1);
    return rank_of(up <= last_ ? up : without);
  }
  // Its children in rank order: two, or fewer for a leaf and at the ragged end.
  TUTTI_HOST_DEVICE constexpr peers children() const {
    int const low = node_ & -node_;
    if (low == 1) return {};
    int above = low / 2;
    while (above > 0 && node_ + above > last_) above /= 2;
    int const first = rank_of(node_ - low / 2);
    if (above == 0) return one(first);
    int const second = rank_of(node_ + above);
    return relabel_ == mirrored ? two(second, first) : two(first, second);
  }
  // Whether the contributions of the child's subtree come after the node's own in rank order.
  TUTTI_HOST_DEVICE constexpr bool after(int child) const {
    int const other = relabel(wrap(child - shape_.root, shape_.ranks));
    return (other > node_) != (relabel_ == mirrored);
  }

 private:
  enum labels { same, mirrored, shifted };

  TUTTI_HOST_DEVICE constexpr int relabel(int v) const {
    if (v == 0 || relabel_ == same) return v;
    if (relabel_ == mirrored) return last_ + 1 - v;
    return v == 1 ? last_ : v - 1;
  }
  TUTTI_HOST_DEVICE constexpr int rank_of(int node) const {
    int v = node;
    if (node != 0 && relabel_ == mirrored) v = last_ + 1 - node;
    if (node != 0 && relabel_ == shifted) v = node == last_ ? 1 : node + 1;
    return wrap(shape_.root + v, shape_.ranks);
  }

  shape shape_;
  int last_;
  labels relabel_;
  int node_;
};

// Up the trees: a rank combines its children in rank order, the last one in the step that passes the result on.
template <space Partial>
struct two_tree_reduce : schedule_defaults {
  static constexpr bool pipelined = true;
  static constexpr bool scratch = Partial == space::scratch;

  TUTTI_HOST_DEVICE constexpr int lanes(shape) const { return 2; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position me) const {
    if (s.ranks == 1) return 0;
    two_tree_node const tree(s, me);
    return tree.is_root() || tree.children().count < 2 ? 1 : 2;
  }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    two_tree_node const tree(s, me);
    int const r = me.rank;
    if (tree.is_root())
      return {.from = two(r, tree.top()), .own = {space::input}, .keep = {space::output}, .complete = true};
    peers const children = tree.children();
    if (children.empty()) return {.to = one(tree.parent()), .give = {space::input}};
    int const child = children.at(i, s.ranks);
    step out{.from = tree.after(child) ? two(r, child) : two(child, r), .own = {i == 0 ? space::input : Partial}};
    if (i < children.count - 1) out.keep = {Partial};
    else out.to = one(tree.parent());
    return out;
  }
};

// Down the trees: one step receives a slice and passes it to both children.
template <space Source>
struct two_tree_broadcast : schedule_defaults {
  static constexpr bool pipelined = true;

  TUTTI_HOST_DEVICE constexpr int lanes(shape) const { return 2; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    two_tree_node const tree(s, me);
    if (tree.is_root()) return {.to = one(tree.top()), .give = {Source}};
    return {.from = one(tree.parent()), .keep = {space::output}, .to = tree.children()};
  }
};

}  // namespace detail

template <>
struct schedule<double_binary_tree, collective::all_reduce>
    : then<detail::two_tree_reduce<space::output>, detail::two_tree_broadcast<space::output>> {};

template <>
struct schedule<double_binary_tree, collective::reduce> : deliver<detail::two_tree_reduce<space::scratch>> {};

template <>
struct schedule<double_binary_tree, collective::broadcast> : detail::two_tree_broadcast<space::input> {};

}  // namespace tutti
