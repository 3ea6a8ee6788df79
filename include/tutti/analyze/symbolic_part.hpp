// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A part of a composite collective on symbols: what its contract says that it does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/analyze/expression.hpp"
#include "tutti/analyze/step_check.hpp"
#include "tutti/core/text.hpp"

namespace tutti::analyze {

// What a part does, by its contract, to the memory of the ranks in it.
class symbolic_part {
 public:
  using value = expressions::value;
  struct member {
    std::span<value> from, to;
    std::vector<std::size_t> counts{};  // of a _v form
  };

  // `ordered`: contributions are combined in the order of the members, otherwise in the reverse order, which is as good.
  symbolic_part(expressions& values, bool ordered) : values_(values), ordered_(ordered) {}

  void operator()(collective what, std::vector<member> const& members, int root_index) const {
    std::size_t const size = members.size(), root = static_cast<std::size_t>(root_index);
    bool const in_place = what == collective::broadcast || what == collective::all_reduce;
    std::vector<std::vector<value>> sent;  // a copy, because others may be in place too
    for (member const& m : members) {
      std::span<value> const source = in_place ? m.to : m.from;
      sent.emplace_back(source.begin(), source.end());
    }
    auto const put = [&](std::size_t k, std::vector<value> const& what_is_due, std::size_t first = 0) {
      auto const& to = members[k].to;
      if (first + what_is_due.size() > to.size())
        throw flaw{tutti::detail::join(
            {"gives ", what_is_due.size(), " elements to a rank that has room for ", to.size() - first})};
      std::ranges::copy(what_is_due, to.begin() + static_cast<std::ptrdiff_t>(first));
    };
    switch (what) {
      case collective::barrier: return;
      case collective::broadcast:
        for (std::size_t k = 0; k < size; ++k) expect_equal(sent[k].size(), sent[root].size()), put(k, sent[root]);
        return;
      case collective::reduce: return put(root, combined(sent, size));
      case collective::all_reduce: {
        auto const all = combined(sent, size);
        for (std::size_t k = 0; k < size; ++k) put(k, all);
        return;
      }
      case collective::scan:
      case collective::exclusive_scan:
        for (std::size_t k = size; k-- > 0;)
          if (std::size_t const count = what == collective::scan ? k + 1 : k; count > 0) put(k, combined(sent, count));
        return;
      case collective::reduce_scatter: {
        auto const all = combined(sent, size);
        auto const counts = agreed_counts(members, 0);
        for (std::size_t k = 0, first = 0; k < size; first += counts[k++]) put(k, piece(all, first, counts[k]));
        return;
      }
      case collective::all_gather:
      case collective::gather: {
        auto const counts = what == collective::gather ? counts_at(members[root], sent[root].size(), size)
                                                       : agreed_counts(members, sent[0].size());
        std::size_t first = 0;
        for (std::size_t from = 0; from < size; first += counts[from++]) {
          expect_equal(sent[from].size(), counts[from]);
          for (std::size_t k = 0; k < size; ++k)
            if (what == collective::all_gather || k == root) put(k, sent[from], first);
        }
        return;
      }
      case collective::scatter: {
        auto const counts = counts_at(members[root], sent[root].size() / size, size);
        for (std::size_t k = 0, first = 0; k < size; first += counts[k++]) {
          expect_equal(members[k].to.size(), counts[k]);
          put(k, piece(sent[root], first, counts[k]));
        }
        return;
      }
      case collective::all_to_all:
        for (std::size_t from = 0; from < size; ++from) {
          auto const theirs = counts_at(members[from], sent[from].size() / size, size);
          for (std::size_t k = 0, first = 0; k < size; first += theirs[k++]) {
            auto const ours = counts_at(members[k], sent[k].size() / size, size);
            expect_equal(ours[from], theirs[k]);
            std::size_t place = 0;
            for (std::size_t q = 0; q < from; ++q) place += ours[q];
            put(k, piece(sent[from], first, theirs[k]), place);
          }
        }
        return;
    }
  }

  value combine(value left, value right) const {
    if (left == expressions::nothing || right == expressions::nothing) throw flaw{"combines memory that nobody wrote"};
    return values_.combine(left, right);
  }

 private:
  static void expect_equal(std::size_t there, std::size_t due) {
    if (there != due)
      throw flaw{tutti::detail::join({"is called with ", there, " elements where others expect ", due})};
  }
  // The first `count` of these, combined.
  std::vector<value> combined(std::vector<std::vector<value>> const& sent, std::size_t count) const {
    std::vector<value> out = sent[ordered_ ? 0 : count - 1];
    for (std::size_t k = 1; k < count; ++k) {
      auto const& next = sent[ordered_ ? k : count - 1 - k];
      expect_equal(next.size(), out.size());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = combine(out[i], next[i]);
    }
    return out;
  }
  static std::vector<value> piece(std::vector<value> const& all, std::size_t first, std::size_t count) {
    if (first + count > all.size())
      throw flaw{tutti::detail::join({"takes ", first + count, " elements from ", all.size()})};
    auto const begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }
  static std::vector<std::size_t> counts_at(member const& m, std::size_t each, std::size_t size) {
    return m.counts.empty() ? std::vector<std::size_t>(size, each) : m.counts;
  }
  static std::vector<std::size_t> agreed_counts(std::vector<member> const& members, std::size_t each) {
    auto const out = counts_at(members[0], each, members.size());
    for (member const& m : members)
      if (counts_at(m, each, members.size()) != out) throw flaw{"is called with other counts by some ranks"};
    return out;
  }

  expressions& values_;
  bool ordered_;
};

}  // namespace tutti::analyze
