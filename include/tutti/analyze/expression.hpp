// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The values of a symbolic execution: expressions over the contributions of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/core/text.hpp"

namespace tutti::analyze {

// One element of a rank's input.
struct contribution {
  int rank = 0;
  int lane = 0;
  int chunk = 0;
  int element = 0;  // of the chunk

  friend constexpr bool operator==(contribution const&, contribution const&) = default;
};

// Expressions are interned: combining the same operands again yields the same number. So two values have the same
// number exactly if they are the same contributions combined in the same order **with the same parentheses**, which is
// the condition for floating-point results to have the same bits.
class expressions {
 public:
  using value = int;
  static constexpr value nothing = 0;

  expressions() : nodes_(1) {}

  value add(contribution c) {
    nodes_.push_back({.leaf = c, .count = 1});
    return last();
  }
  value combine(value left, value right) { return intern(left, right); }
  // Applies the operation's epilogue: a finished value differs from the unfinished one.
  value finish(value v) { return intern(v, nothing); }

  bool finished(value v) const { return at(v).left != nothing && at(v).right == nothing; }
  // The number of contributions in it, with repetitions.
  std::int64_t count(value v) const { return at(v).count; }

  // The contributions from left to right, at most `limit` of them.
  void flatten(value v, std::size_t limit, std::vector<contribution>& out) {
    out.clear();
    open_.assign(1, v);
    while (!open_.empty() && out.size() < limit) {
      node const& n = at(open_.back());
      open_.pop_back();
      if (n.left == nothing) out.push_back(n.leaf);
      if (n.right != nothing) open_.push_back(n.right);
      if (n.left != nothing) open_.push_back(n.left);
    }
  }

  // The expression with parentheses and each contribution by its rank: "((0 1) 2)".
  std::string text(value v) const {
    node const& n = at(v);
    if (n.left == nothing) return std::to_string(n.leaf.rank);
    if (n.right == nothing) return text(n.left);
    return detail::join({"(", text(n.left), " ", text(n.right), ")"});
  }

 private:
  struct node {
    value left = nothing;
    value right = nothing;
    contribution leaf{};
    std::int64_t count = 0;
  };

  static constexpr std::int64_t many = std::int64_t{1} << 40;  // doubling a value repeatedly must not overflow

  node const& at(value v) const { return nodes_[static_cast<std::size_t>(v)]; }
  value last() const { return static_cast<value>(nodes_.size()) - 1; }

  value intern(value left, value right) {
    std::uint64_t const key =
        (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
    auto const [found, added] = numbers_.try_emplace(key, static_cast<value>(nodes_.size()));
    if (added) {
      std::int64_t const count = at(left).count + at(right).count;
      nodes_.push_back({.left = left, .right = right, .leaf = {}, .count = count < many ? count : many});
    }
    return found->second;
  }

  std::vector<node> nodes_;
  std::unordered_map<std::uint64_t, value> numbers_;
  std::vector<value> open_;  // what flatten() has still to visit
};

}  // namespace tutti::analyze
