// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of total_order.hpp.
#include "explore/total_order.hpp"

#include <vector>

namespace tutti::testing::explore {

namespace {

class relations {
 public:
  explicit relations(execution const& e) : execution_(e) {
    for (int t = 0; t < e.threads(); ++t)
      for (std::size_t i = 0; i < e.events_of(t).size(); ++i)
        all_.push_back({static_cast<std::uint16_t>(t), static_cast<std::uint16_t>(i)});
  }

  std::vector<reference> total() const {
    std::vector<reference> out;
    for (reference const r : all_)
      if (at(r).order == std::memory_order_seq_cst) out.push_back(r);
    return out;
  }

  // Whether psc has an edge.
  bool precedes(reference a, reference b) const {
    bool const from_fence = is_fence(a), to_fence = is_fence(b);
    if (from_fence && to_fence && happens_before(a, b)) return true;
    for (reference const x : from_fence ? all_ : std::vector{a}) {
      if (from_fence && x != a && !happens_before(a, x)) continue;
      for (reference const y : to_fence ? all_ : std::vector{b}) {
        if (to_fence && y != b && !happens_before(y, b)) continue;
        if (scb(x, y) || (from_fence && to_fence && x != a && y != b && extended_coherence(x, y))) return true;
      }
    }
    return false;
  }

 private:
  event const& at(reference r) const { return execution_.at(r); }
  bool is_fence(reference r) const { return at(r).kind == event_kind::fence; }
  bool happens_before(reference a, reference b) const { return a != b && at(b).happens_before[a.thread] > a.index; }
  bool same_location(reference a, reference b) const { return !is_fence(a) && at(a).location == at(b).location; }

  // Of a location's accesses: the stores have even numbers in modification order, and loads come right after their store.
  std::size_t rank(reference r) const {
    event const& e = at(r);
    std::vector<reference> const& order = execution_.modifications(e.location);
    reference const store = e.kind == event_kind::store ? r : e.reads_from;
    if (store.is_initial()) return 1;
    auto const place = static_cast<std::size_t>(std::find(order.begin(), order.end(), store) - order.begin());
    return 2 * place + (e.kind == event_kind::store ? 2 : 3);
  }
  // Reads-from, modification order and reads-before, transitively.
  bool extended_coherence(reference a, reference b) const { return same_location(a, b) && rank(a) < rank(b); }

  // sb, sb;hb;sb between different locations, hb on one location, modification order, reads-before.
  bool scb(reference a, reference b) const {
    if (a == b) return false;
    if (a.thread == b.thread) return a.index < b.index;
    if (same_location(a, b)) {
      if (happens_before(a, b)) return true;
      if (at(b).kind == event_kind::store) return rank(a) < rank(b);
    }
    std::optional<reference> const after = neighbour(a, 1), before = neighbour(b, -1);
    return after && before && (*after == *before || happens_before(*after, *before));
  }
  // The nearest event of the thread, in this direction, that is not on the same location.
  std::optional<reference> neighbour(reference r, int step) const {
    std::vector<event> const& events = execution_.events_of(r.thread);
    for (int i = r.index + step; i >= 0 && i < static_cast<int>(events.size()); i += step) {
      reference const other{r.thread, static_cast<std::uint16_t>(i)};
      if (is_fence(r) || is_fence(other) || !same_location(r, other)) return other;
    }
    return {};
  }

  execution const& execution_;
  std::vector<reference> all_;
};

bool has_cycle(std::vector<std::vector<bool>> const& edges) {
  std::vector<int> state(edges.size());  // 1: on the path, 2: done
  auto const visit = [&](auto const& self, std::size_t i) -> bool {
    state[i] = 1;
    for (std::size_t j = 0; j < edges.size(); ++j)
      if (edges[i][j] && (state[j] == 1 || (state[j] == 0 && self(self, j)))) return true;
    state[i] = 2;
    return false;
  };
  for (std::size_t i = 0; i < edges.size(); ++i)
    if (state[i] == 0 && visit(visit, i)) return true;
  return false;
}

}  // namespace

bool has_total_order(execution const& e) {
  relations const of(e);
  std::vector<reference> const nodes = of.total();
  if (nodes.size() < 2) return true;
  std::vector<std::vector<bool>> edges(nodes.size(), std::vector<bool>(nodes.size()));
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (std::size_t j = 0; j < nodes.size(); ++j) edges[i][j] = i != j && of.precedes(nodes[i], nodes[j]);
  return !has_cycle(edges);
}

}  // namespace tutti::testing::explore
