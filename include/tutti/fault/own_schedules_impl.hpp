// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of fault/own_schedules.hpp.
#pragma once

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "tutti/algorithm/flaw_finder.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/own_schedules.hpp"

namespace tutti::detail {

struct own_schedule {
  unlisted_algorithm const* used;
  collective what;
  bool ordered;  // called with an operation that is not commutative

  friend bool operator==(own_schedule const&, own_schedule const&) = default;
};
struct own_schedules {
  std::mutex mutex;
  std::vector<own_schedule> all;
};

TUTTI_INLINE own_schedules& own_schedules_of_process() {
  static constinit one_per_process<own_schedules> out;
  return out.get();
}

TUTTI_INLINE void note_own_schedule(request const& r) noexcept try {
  if (r.unlisted->verified()) return;
  own_schedules& known = own_schedules_of_process();
  own_schedule const one{r.unlisted, r.what, !r.commutative};
  std::lock_guard const lock(known.mutex);
  if (std::find(known.all.begin(), known.all.end(), one) == known.all.end()) known.all.push_back(one);
} catch (std::bad_alloc const&) {
  return;  // an error will say less
}

TUTTI_INLINE std::string doubt_about(std::uint32_t id, collective what, int ranks, int root, std::uint64_t call,
                                     circumstance& when) {
  constexpr int max_ranks_verified = 64;  // more take seconds
  own_schedules& known = own_schedules_of_process();
  std::lock_guard const lock(known.mutex);
  unlisted_algorithm const* suspect = nullptr;
  std::string flaw;
  for (own_schedule const& one : known.all)
    if (one.used->id == id && one.what == what) {
      suspect = one.used;
      if (find_flaw != nullptr && ranks <= max_ranks_verified && flaw.empty())
        flaw = find_flaw(suspect->schedule, what, {ranks, root, one.ordered});
    }
  if (suspect == nullptr) return {};
  circumstance const otherwise = std::exchange(when, circumstance::own);
  std::string const intro = join({"; call #", call, " is by ", suspect->name, ", the program's own algorithm, which "});
  if (!flaw.empty()) return join({intro, "is wrong for ", ranks, " ranks: ", flaw});
  if (find_flaw == nullptr)
    return join({intro, "may be wrong: if the program includes tutti/analyze/verify.hpp, this message says what is"});
  if (ranks > max_ranks_verified)
    return join({intro, "may be wrong: errors verify it for up to ", max_ranks_verified,
                 " ranks, and tutti::analyze::verify does for more"});
  when = otherwise;
  return join({intro, "the verifier finds correct for ", ranks, " ranks"});
}

}  // namespace tutti::detail
