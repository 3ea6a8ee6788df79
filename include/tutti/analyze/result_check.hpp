// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the outputs of a symbolic execution with the contract of the collective.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tutti/analyze/contract.hpp"
#include "tutti/analyze/expression.hpp"
#include "tutti/analyze/step_check.hpp"

namespace tutti::analyze {

// A chunk, and its element if chunks have several.
inline std::string label_of(int chunk, int element, int chunk_length) {
  return "chunk " + std::to_string(chunk) + (chunk_length > 1 ? " (element " + std::to_string(element) + ")" : "");
}

class result_check {
 public:
  using value = expressions::value;

  result_check(expressions& values, collective what, shape s, int chunk_length)
      : values_(values), what_(what), shape_(s), chunk_length_(chunk_length) {}

  // Throws a flaw if `got` is not the value that belongs to `where` in the output. `first`: the value of rank 0 there.
  void operator()(contribution where, value got, value first) {
    promise const due = promise_of(what_, shape_, where.rank, where.chunk);
    if (due.count == 0) return;
    if (got == expressions::nothing) throw flaw{here(where) + " is never written"};
    bool const compares = what_ == collective::all_reduce && where.rank > 0;
    if (compares && got == first) return;  // already checked
    check(got, due, where);
    if (compares)
      throw flaw{here(where) + " is combined as " + values_.text(got) + ", but at rank 0 as " + values_.text(first) +
                 ": their bits may differ"};
  }

 private:
  void check(value got, promise due, contribution where) {
    std::size_t const enough =
        static_cast<std::size_t>(may_repeat(what_) ? shape_.ranks * shape_.ranks : due.count + 1);
    values_.flatten(got, enough, found_);
    times_.assign(static_cast<std::size_t>(shape_.ranks), 0);
    bool sorted = true;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      contribution const& f = found_[i];
      if (f.chunk != due.chunk || f.lane != where.lane || f.element != where.element)
        throw flaw{here(where) + " holds " + label(f.chunk, f.element) + " of rank " + std::to_string(f.rank) +
                   " where " + label(due.chunk, where.element) + " of " + ranks(due) + " belongs"};
      ++times_[static_cast<std::size_t>(f.rank)];
      sorted = sorted && f.rank == due.first + static_cast<int>(i);
    }
    for (int r = 0; r < shape_.ranks; ++r) {
      bool const wanted = r >= due.first && r < due.first + due.count;
      int const n = times_[static_cast<std::size_t>(r)];
      if (wanted ? n == 1 || (n > 1 && may_repeat(what_)) : n == 0) continue;
      throw flaw{here(where) + " holds the contribution of rank " + std::to_string(r) + " " +
                 (n == 1 ? "once" : std::to_string(n) + " times") + ", but that of " + ranks(due) +
                 " belongs there once"};
    }
    if (in_rank_order(what_, shape_) && !sorted)
      throw flaw{here(where) + " is combined as " + values_.text(got) + ", which is not rank order"};
    if (completes(what_) && !values_.finished(got)) throw flaw{here(where) + " holds a value that no step completed"};
  }

  std::string here(contribution where) const {
    return "rank " + std::to_string(where.rank) + ", lane " + std::to_string(where.lane) + ": output " +
           label(where.chunk, where.element);
  }
  std::string label(int chunk, int element) const { return label_of(chunk, element, chunk_length_); }
  static std::string ranks(promise p) {
    if (p.count == 1) return "rank " + std::to_string(p.first);
    return "each of ranks " + std::to_string(p.first) + " to " + std::to_string(p.first + p.count - 1);
  }

  expressions& values_;
  collective what_;
  shape shape_;
  int chunk_length_;
  std::vector<contribution> found_;  // in the value that is checked
  std::vector<int> times_;           // each rank's
};

}  // namespace tutti::analyze
