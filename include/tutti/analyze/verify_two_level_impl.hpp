// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of analyze/verify_two_level.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/algorithm/two_level_rank.hpp"
#include "tutti/analyze/contract.hpp"
#include "tutti/analyze/expression.hpp"
#include "tutti/analyze/result_check.hpp"
#include "tutti/analyze/step_check.hpp"
#include "tutti/analyze/symbolic_part.hpp"
#include "tutti/analyze/verify_two_level.hpp"

namespace tutti::analyze {

// The places of all blocks.
struct block_table {
  std::vector<extent> blocks{};

  extent at(int, int q) const { return blocks[static_cast<std::size_t>(q)]; }
};

template <collective C, bool Ragged>
class two_level_proof {
 public:
  using value = expressions::value;

  two_level_proof(tutti::detail::node_map const& nodes, shape s, two_level_circumstances how)
      : nodes_(nodes), shape_(s), how_(how), part_(values_, s.ordered || !reduces(C)) {
    auto const ranks = static_cast<std::size_t>(shape_.ranks);
    memory_.reserve(3 * ranks);
    std::size_t end = 0;
    for (std::size_t q = 0; q < ranks; ++q) {
      std::size_t const each = Ragged ? (3 * q + 1) % 4 : 2;
      blocks_.blocks.push_back({end, each});
      end += each + (Ragged && C == collective::all_gather ? q % 3 : 0);
    }
    elements_ = by_block(C) ? end : how.large ? longest_share() * 16 + 5 : 3;
    if (C == collective::barrier) elements_ = 0;
    for (int r = 0; r < shape_.ranks; ++r) prepare(r);
  }

  void run() {
    if constexpr (C == collective::all_reduce || C == collective::all_to_all) {
      if (ranks_.front().splits(how_.large ? tutti::detail::min_split_bytes : 0)) run_list<true>();
      else run_list<false>();
    } else {
      run_list<false>();
    }
    for (int r = 0; r < shape_.ranks; ++r) at(r).finish(outputs_[index(r)]);
    if (C == collective::barrier) check_arrivals();
    else check_results();
  }

 private:
  using rank_type = tutti::detail::two_level_rank<C, value, Ragged, block_table>;
  using level_part = tutti::detail::level_part;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  rank_type& at(int rank) { return ranks_[index(rank)]; }
  std::size_t longest_share() const {
    int most = 1;
    for (int node = 0; node < nodes_.count(); ++node) most = std::max(most, nodes_.size(node));
    return index(most);
  }

  // -- Memory.

  extent held(holding h, int rank) const {
    if (h == holding::none) return {};
    if (h == holding::all || !by_block(C)) return {0, elements_};
    return {0, blocks_.at(0, rank).count};
  }
  // Calls f(contribution, place) for each element of the input or output of a rank.
  template <class F>
  void for_each_element(holding h, int rank, F&& f) const {
    if (h == holding::none) return;
    if (!by_block(C))
      for (std::size_t e = 0; e < elements_; ++e) f(contribution{rank, 0, 0, static_cast<int>(e)}, e);
    for (int q = 0; by_block(C) && q < shape_.ranks; ++q)
      if (extent const block = blocks_.at(0, q); h == holding::all || q == rank)
        for (std::size_t e = 0; e < block.count; ++e)
          f(contribution{rank, 0, q, static_cast<int>(e)}, (h == holding::all ? block.begin : 0) + e);
  }
  void prepare(int rank) {
    holding const in = input_of(C, shape_, rank), out = output_of(C, shape_, rank);
    // The array of a broadcast is input and output; in place, so is any that holds all, and the own block lies in it.
    bool const shares = C == collective::broadcast || (how_.in_place && in != holding::none && out != holding::none);
    extent const gives = held(in, rank), gets = held(out, rank);
    std::size_t const own = by_block(C) ? blocks_.at(0, rank).begin : 0;
    auto& output =
        memory_.emplace_back(std::max(gets.count, shares ? std::max(gives.count, elements_) : 0), expressions::nothing);
    auto& input = memory_.emplace_back(shares ? 0 : gives.count, expressions::nothing);
    value* const from = !shares ? input.data() : output.data() + (in == holding::own && out == holding::all ? own : 0);
    outputs_.push_back(output.data() + (shares && in == holding::all && out == holding::own ? own : 0));
    for_each_element(in, rank, [&](contribution const& c, std::size_t place) { from[place] = values_.add(c); });
    inputs_.push_back({shares ? nullptr : from, std::vector<value>(input)});
    ranks_.emplace_back(nodes_, rank, shape_.ranks, shape_.root);
    bool const split = at(rank).splits(how_.large ? tutti::detail::min_split_bytes : 0);
    at(rank).locate(from, outputs_.back(), elements_, blocks_, split,
                    [&](std::size_t n) { return memory_.emplace_back(n, expressions::nothing).data(); });
  }

  // -- The parts.

  template <bool Split>
  void run_list() {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (run_part<Split, I>(), ...);
    }(std::make_index_sequence<tutti::detail::parts_of(C, Split).count>());
  }
  template <bool Split, std::size_t I>
  void run_part() {
    constexpr level_part p = tutti::detail::parts_of(C, Split).all[I];
    try {
      for (rank_type& r : ranks_) r.template before<Split, I>();
      if (!p.across)
        for (int node = 0; node < nodes_.count(); ++node) call<Split, I>(p, nodes_.members(node));
      else
        for (int local = 0; local < (nodes_.even() ? nodes_.size(0) : 1); ++local) {
          std::vector<int> alike;
          for (int node = 0; node < nodes_.count(); ++node) alike.push_back(nodes_.members(node)[index(local)]);
          call<Split, I>(p, alike);
        }
      for (rank_type& r : ranks_)
        r.template after<Split, I>([&](std::span<value const> left, std::span<value> right) {
          for (std::size_t i = 0; i < right.size(); ++i) right[i] = part_.combine(left[i], right[i]);
        });
    } catch (flaw& f) {
      throw flaw{"part " + std::to_string(I + 1) + ", " + std::string(name(p.what)) +
                 (p.across ? " across nodes: " : " inside nodes: ") + f.why};
    }
  }
  template <bool Split, std::size_t I>
  void call(level_part const& p, std::vector<int> const& group) {
    std::vector<symbolic_part::member> members;
    int const first = group.front();
    bool const expected = at(first).template takes_part<Split, I>();
    for (int const r : group) {
      if (at(r).template takes_part<Split, I>() != expected)
        throw flaw{"rank " + std::to_string(expected ? first : r) + " waits for rank " +
                   std::to_string(expected ? r : first) + ", which does not take part"};
      if (!expected) continue;
      if (at(r).root_of(p) != at(first).root_of(p))
        throw flaw{"ranks " + std::to_string(first) + " and " + std::to_string(r) + " have other roots"};
      members.push_back(
          {at(r).from(p), at(r).to(p), rank_type::is_ragged(p) ? at(r).counts_of(p) : std::vector<std::size_t>()});
    }
    if (!expected) return;
    if (p.what == collective::barrier) meet(group);
    else part_(p.what, members, at(first).root_of(p));
  }

  // -- Results.

  void check_results() {
    result_check check(values_, C, shape_, 2);
    for (int r = 0; r < shape_.ranks; ++r) {
      auto const completed = [&](int rank, std::size_t place) {
        value const v = outputs_[index(rank)][place];
        return completes(C) && v != expressions::nothing ? values_.finish(v) : v;
      };
      for_each_element(output_of(C, shape_, r), r, [&](contribution const& c, std::size_t place) {
        check(c, completed(r, place), C == collective::all_reduce ? completed(0, place) : expressions::nothing);
      });
      auto const& [input, before] = inputs_[index(r)];
      if (input != nullptr && !std::ranges::equal(before, std::span(input, before.size())))
        throw flaw{"rank " + std::to_string(r) + ": its input is changed"};
    }
  }

  // A barrier has no data: a rank must have heard from all others, if only through others.
  void meet(std::vector<int> const& group) {
    std::vector<bool> all(index(shape_.ranks));
    heard_.resize(index(shape_.ranks), std::vector<bool>(index(shape_.ranks)));
    for (int const r : group) {
      heard_[index(r)][index(r)] = true;
      for (std::size_t q = 0; q < all.size(); ++q) all[q] = all[q] || heard_[index(r)][q];
    }
    for (int const r : group) heard_[index(r)] = all;
  }
  void check_arrivals() const {
    for (std::size_t r = 0; r < heard_.size(); ++r)
      for (std::size_t q = 0; q < heard_.size(); ++q)
        if (!heard_[r][q]) throw flaw{"rank " + std::to_string(r) + " does not wait for rank " + std::to_string(q)};
  }

  tutti::detail::node_map const& nodes_;
  shape shape_;
  two_level_circumstances how_;
  expressions values_;
  symbolic_part part_;
  block_table blocks_{};
  std::size_t elements_ = 0;
  std::vector<std::vector<value>> memory_{};  // moving a vector does not move what it holds
  std::vector<value*> outputs_{};
  std::vector<std::pair<value const*, std::vector<value>>> inputs_{};  // where not in place, and what they held
  std::vector<rank_type> ranks_{};
  std::vector<std::vector<bool>> heard_{};
};

template <collective C>
verdict verify_two_level_of(tutti::detail::node_map const& nodes, shape s, two_level_circumstances how) {
  try {
    if constexpr (C == collective::all_gather || C == collective::reduce_scatter) {
      if (how.uneven) return two_level_proof<C, true>(nodes, s, how).run(), verdict{};
    }
    if (how.uneven && by_block(C)) throw flaw{"two levels do not serve the _v form"};
    two_level_proof<C, false>(nodes, s, how).run();
    return {};
  } catch (flaw& f) {
    return {false, std::move(f.why)};
  }
}

TUTTI_INLINE verdict verify_two_level(collective what, tutti::detail::node_map const& nodes, shape s,
                                      two_level_circumstances how) {
  if (s.ranks < 2) return {};
  verdict out;
  auto const prove = [&]<std::size_t I>() {
    if (what == every_collective[I]) out = verify_two_level_of<every_collective[I]>(nodes, s, how);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (prove.template operator()<I>(), ...);
  }(std::make_index_sequence<every_collective.size()>{});
  return out;
}

}  // namespace tutti::analyze
