// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of elastic training.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tutti/core/error.hpp"
#include "tutti/training/elastic/member.hpp"

namespace tutti {
namespace training {

struct elastic_options {
  // Training ends with an error once fewer ranks are left. 0: the minimum of tutti-run --elastic; without it, half of the most
  // ranks that there have been.
  int min_ranks = 0;
  // Every so many steps, a rank copies its state in its memory. After a loss, at most so many steps are computed again.
  std::uint64_t snapshot_every = 1;
  // Every so many steps, the ranks write a checkpoint to `folder` and keep the last `keep`; 0: never. run() begins with the
  // newest checkpoint that is intact.
  std::uint64_t checkpoint_every = 0;
  std::string folder{};
  int keep = 3;
  // A rank for which others wait longer is suspected. Longer than a step.
  std::chrono::nanoseconds suspect_after = std::chrono::seconds(10);
  // After a timeout, the others go on without a rank that hangs; see communicator::shrink. If it comes back before they have
  // excluded it, it goes on with them, and the step is taken again, three times at most. 0: they throw the timeout.
  std::chrono::nanoseconds exclude_after{0};
  // How long all ranks wait for a new one that has answered, and how long a new one waits until it is asked to join.
  std::chrono::nanoseconds join_within = std::chrono::seconds(5), asked_within = std::chrono::hours(1);
  // Called on each rank for what it learns of others, only while run() runs there: by the thread that is in run(), or, if a rank is
  // suspected or no longer so, by a thread of the loop. Never by two at once; when run() returns or throws, the last call has
  // returned. It must not use the communicator. If it throws, run() throws that on this rank before the next step, as if the
  // step had, or when it has completed all steps.
  std::function<void(transition const&)> report{};
};

}  // namespace training

namespace detail {

// What tutti-run --elastic tells the ranks.
struct elastic_job {
  int min_ranks = 0, max_ranks = 0;  // 0 without it
  int joins_as = -1;                 // the number of a member that this process replaces, or -1

  // Throws error: bad_argument for variables that make no sense.
  [[gnu::cold]] static elastic_job from_environment();
};

// Throws error: bad_argument.
[[gnu::cold]] void check_elastic_options(training::elastic_options const& options);
[[noreturn, gnu::cold]] void refuse_to_exclude(std::string_view transport);
// Whether an error of a step may mean that ranks are lost.
[[gnu::cold]] bool is_loss(error_code code, training::elastic_options const& options);

}  // namespace detail
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/elastic/elastic_options_impl.hpp"
#endif
