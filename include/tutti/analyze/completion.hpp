// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that exactly the step that combines the last contribution to a chunk is marked complete.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/algorithm/step.hpp"
#include "tutti/analyze/contract.hpp"
#include "tutti/analyze/expression.hpp"
#include "tutti/analyze/step_check.hpp"

namespace tutti::analyze {

class completion {
 public:
  using value = expressions::value;

  completion(expressions& values, collective what, int ranks) : values_(values), what_(what), ranks_(ranks) {}

  // The result of a step, finished if the step is complete.
  value operator()(step const& t, int chunk, value v) {
    if (may_repeat(what_)) return v;
    bool const due = completes(what_) && t.reduces() && has_all(v);
    if (due == t.complete) return due ? values_.finish(v) : v;
    std::string const name = "chunk " + std::to_string(chunk);
    if (due) throw flaw{"combines the last contribution to " + name + " but is not marked complete"};
    throw flaw{"is marked complete, but does not combine the last contribution to " + name};
  }

 private:
  // Whether it holds one contribution of each rank.
  bool has_all(value v) {
    if (values_.count(v) != ranks_) return false;
    auto const [found, added] = known_.try_emplace(v, true);
    if (added) {
      std::vector<bool> seen(static_cast<std::size_t>(ranks_));
      values_.flatten(v, seen.size(), found_);
      for (contribution const& c : found_) seen[static_cast<std::size_t>(c.rank)] = true;
      for (bool const rank : seen) found->second &= rank;
    }
    return found->second;
  }

  expressions& values_;
  collective what_;
  int ranks_;
  std::unordered_map<value, bool> known_;
  std::vector<contribution> found_;
};

}  // namespace tutti::analyze
