// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plants mistakes in a protocol, one at a time, and checks that the exploration finds each.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "explore/explore.hpp"

namespace tutti::testing::explore {

// A mistake that does no harm, and why.
struct harmless {
  std::string field;
  access on;
  change::kinds kind;
  char const* reason;
};

inline std::string describe(change const& c) {
  static constexpr char const* accesses[] = {"load", "store", "update", "plain store", "wake-up", "fence"};
  static constexpr char const* kinds[] = {"unchanged", "relaxed", "not seq_cst", "dropped", "delayed", "fenced"};
  std::string out = c.field + (c.field.empty() ? "" : ", ") + accesses[static_cast<int>(c.on)] + ", " + kinds[c.kind];
  if (!c.after.empty()) out += " until after " + c.after;
  return out;
}

// Each access that is ordered becomes relaxed, and each that is seq_cst acquire or release. Of all fields, or of these.
inline std::vector<change> weakenings_of(result const& r, std::vector<std::string> const& fields = {}) {
  std::vector<change> out;
  auto const add = [&](change const& c) {
    if (std::ranges::none_of(out,
                             [&](change const& o) { return o.kind == c.kind && o.on == c.on && o.field == c.field; }))
      out.push_back(c);
  };
  for (ordered_access const& a : r.accesses) {
    auto const order = static_cast<std::memory_order>(a.order);
    if (order == std::memory_order_relaxed) continue;
    if (!fields.empty() && std::ranges::find(fields, a.field) == fields.end()) continue;
    add({change::relax, a.field, a.on, {}});
    if (order == std::memory_order_seq_cst) add({change::weaken, a.field, a.on, {}});
  }
  return out;
}

inline void print(std::string const& what, result const& r) {
  std::printf("%-58s %9llu complete %8llu blocked %6llu discarded, up to %llu events%s\n", what.c_str(),
              static_cast<unsigned long long>(r.complete), static_cast<unsigned long long>(r.blocked),
              static_cast<unsigned long long>(r.discarded), static_cast<unsigned long long>(r.events),
              r.deaths == 0 ? "" : (", " + std::to_string(r.deaths) + " deaths").c_str());
}

// Checks that the program holds, and returns the weakenings of its accesses.
inline result holds(std::string const& what, program const& p) {
  result out = exhaustively(p);
  print(what, out);
  INFO(what << "\n" << out.trace);
  CHECK(out.violation == "");
  CHECK(out.complete > 0);
  CHECK((out.deaths > 0) == (p.dies.thread >= 0));
  return out;
}

// TUTTI_TEST_EXPLORE=100 makes a hundred times as many random executions, and other values than 1 also explore more rounds and
// messages exhaustively. TUTTI_TEST_SEED=7 makes other random executions.
inline std::uint64_t number_from(char const* variable) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}
inline bool is_long_form() { return number_from("TUTTI_TEST_EXPLORE") != 1; }

inline void holds_at_random(std::string const& what, program const& p, std::uint64_t executions) {
  result const r = at_random(p, number_from("TUTTI_TEST_SEED"), executions * number_from("TUTTI_TEST_EXPLORE"));
  print(what + ", at random", r);
  INFO(what << ", repeat it with TUTTI_TEST_SEED\n" << r.trace);
  CHECK(r.violation == "");
  CHECK(r.complete > 0);
}

inline void finds(program const& p, std::vector<change> const& mistakes, std::vector<harmless> const& exceptions = {}) {
  for (change const& c : mistakes) {
    result const r = exhaustively(p, c);
    harmless const* exception = nullptr;
    for (harmless const& h : exceptions)
      if (h.field == c.field && h.on == c.on && h.kind == c.kind) exception = &h;
    std::string const verdict = r.violation.empty() ? "not found" : r.violation;
    std::printf("  %-56s after %6llu: %s%s%s\n", describe(c).c_str(),
                static_cast<unsigned long long>(r.complete + r.blocked + r.discarded), verdict.c_str(),
                exception == nullptr ? "" : ", harmless: ", exception == nullptr ? "" : exception->reason);
    INFO(describe(c));
    CHECK(r.violation.empty() == (exception != nullptr));
  }
}

}  // namespace tutti::testing::explore
