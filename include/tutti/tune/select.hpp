// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice of an algorithm: the first rule of the tuning table that fits, else the least cost by the model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/algorithm/registry.hpp"
#include "tutti/core/text.hpp"
#include "tutti/tune/estimate.hpp"
#include "tutti/tune/problem.hpp"
#include "tutti/tune/shipped.hpp"
#include "tutti/tune/table.hpp"
#include "tutti/tune/text.hpp"

namespace tutti {

struct choice {
  algorithm_id algorithm{};
  std::string_view why{};
  protocol how = protocol::automatic;  // or pull: how messages in private memory travel

  rule const* measured = nullptr;                    // the rule that decided, else what the model says:
  std::uint64_t picoseconds = 0;                     // its time,
  algorithm_id runner_up = algorithm_id::automatic;  // the next best
  std::uint64_t runner_up_picoseconds = 0;           // and its time
};

// What a rank chooses by. All ranks have the same table, and so choose the same.
class tuning {
 public:
  tuning() = default;  // what tutti ships
  tuning(owned_table table, std::string source)
      : own_(std::make_shared<owned_table const>(std::move(table))), table_(own_->view()), source_(std::move(source)) {}

  tuning_table const& table() const { return table_; }
  std::string const& source() const { return source_; }

  // Never one that `objection` refuses.
  [[gnu::cold]] choice select(problem p) {
    // Where nobody knows the sizes of the blocks, nobody knows them to be small.
    if (p.ragged && p.bytes == 0) p.bytes = streamed_slice;
    if (pays_in_two_levels(p)) return {.algorithm = algorithm_id::two_level, .why = "there are several nodes"};
    if (rule const* const r = table_.find(p))
      return {.algorithm = r->algorithm, .why = "measured", .how = r->how, .measured = r};
    if (may_leave_to_library(p))
      return {.algorithm = algorithm_id::native, .why = "the library's own, where no other was measured to be faster"};
    choice out{.why = "estimated"};
    costs const& c = table_.cost(p) == costs{} ? shipped.cost(p) : table_.cost(p);
    auto const& works = works_of(p.what, p.ranks);
    for (std::size_t i = 0; i < works.size(); ++i) {
      auto const id = static_cast<algorithm_id>(i + 1);
      if (!objection(id, p).empty()) continue;
      std::uint64_t const time = time_of(works[i], p.bytes, c);
      if (out.algorithm == algorithm_id::automatic || time < out.picoseconds) {
        out.runner_up = std::exchange(out.algorithm, id);
        out.runner_up_picoseconds = std::exchange(out.picoseconds, time);
      } else if (out.runner_up == algorithm_id::automatic || time < out.runner_up_picoseconds) {
        out.runner_up = id;
        out.runner_up_picoseconds = time;
      }
    }
    return out;
  }

  // Why, in full.
  [[gnu::cold]] std::string reason(choice const& c, std::string_view this_machine) const {
    std::string out(c.why);
    if (c.measured == nullptr && !is_scheduled(c.algorithm)) return out;
    if (c.measured != nullptr && c.measured->nanoseconds > 0)
      out += join({": ", microseconds(c.measured->nanoseconds), " for ", c.measured->measured_at, " bytes"});
    if (c.measured == nullptr) out += join({": ", microseconds(c.picoseconds / 1000)});
    if (c.runner_up != algorithm_id::automatic)
      out += join({", next ", name(c.runner_up), " with ", microseconds(c.runner_up_picoseconds / 1000)});
    out += join({"; ", c.measured != nullptr ? "a rule of " : "no rule fits, constants of ", source_, ", from ",
                 table_.machine, ", ", table_.date});
    if (table_.machine != this_machine) out += join({", which is not this machine: ", this_machine});
    return out;
  }

 private:
  // Ranks that share cores are slow to wake each other, and have to in each of three steps: 4 ranks on 2 nodes of a core
  // each took 150 us for 8 bytes in two levels and 50 to 80 in one, 64 KiB 290 and 310 to 900 (AMD EPYC, Zen 5).
  static bool pays_in_two_levels(problem const& p) {
    return objection(algorithm_id::two_level, p).empty() && !(p.crowded && p.bytes < 32 * 1024);
  }

  using work_of_each = std::array<estimated_work, algorithms::size>;

  static std::string microseconds(std::uint64_t nanoseconds) {
    return join({nanoseconds / 1000, ".", nanoseconds / 100 % 10, " us"});
  }

  // Simulated once for a collective and a number of ranks: a communicator has one.
  work_of_each const& works_of(collective what, int ranks) {
    if (works_.empty() || ranks != works_ranks_)
      works_ = std::vector<std::shared_ptr<work_of_each>>(every_collective.size());
    works_ranks_ = ranks;
    auto& known = works_[static_cast<std::size_t>(what)];
    if (!known) {
      known = std::make_shared<work_of_each>();
      for (std::size_t i = 0; i < known->size(); ++i)
        if (dynamic_schedule const s = find_schedule(static_cast<algorithm_id>(i + 1), what))
          (*known)[i] = work_of(s, what, ranks);
    }
    return *known;
  }

  std::shared_ptr<owned_table const> own_;
  tuning_table table_ = shipped;
  std::string source_ = "the built-in table";
  std::vector<std::shared_ptr<work_of_each>> works_;
  int works_ranks_ = 0;
};

}  // namespace tutti
