// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/elastic_options.hpp.
#pragma once

#include <cstddef>

#include "tutti/core/environment.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/core/text.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/training/elastic/elastic_options.hpp"

namespace tutti::detail {

TUTTI_INLINE elastic_job elastic_job::from_environment() {
  auto const read = [](std::string_view text, int& to) {
    std::uint64_t number = 0;
    std::size_t const digits = read_number(text, tutti::max_ranks, number);
    to = static_cast<int>(number);
    return digits > 0 && digits == text.size();
  };
  auto const refuse = [](char const* name, std::string_view text, char const* what) {
    throw error({.code = error_code::bad_argument,
                 .what = join({name, "=\"", text, "\" is not ", what}),
                 .way_out = "start the program with tutti-run --elastic, or unset the variable"});
  };
  elastic_job out;
  if (std::string_view const text = environment_variable(elastic_variable); !text.empty()) {
    std::size_t const colon = text.find(':');
    if (colon == text.npos || !read(text.substr(0, colon), out.min_ranks) ||
        !read(text.substr(colon + 1), out.max_ranks) || out.min_ranks < 1 || out.min_ranks > out.max_ranks)
      refuse(elastic_variable, text, "a least and a greatest number of ranks, such as 2:8");
  }
  if (std::string_view const text = environment_variable(join_variable); !text.empty())
    if (!read(text, out.joins_as)) refuse(join_variable, text, "the number of a member");
  return out;
}

TUTTI_INLINE void check_elastic_options(training::elastic_options const& o) {
  auto const refuse = [](char const* what, char const* way_out) {
    throw error({.code = error_code::bad_argument, .what = what, .way_out = way_out});
  };
  if (o.min_ranks < 0) refuse("min_ranks is negative", "pass the least number of ranks, or 0 for half of them");
  if (o.snapshot_every == 0) refuse("snapshot_every is 0", "pass a number of steps, 1 to lose none");
  if (o.checkpoint_every > 0 && o.folder.empty())
    refuse("checkpoint_every is set, but there is no folder", "name a folder that all ranks can reach");
  if (o.suspect_after.count() <= 0) refuse("suspect_after is not positive", "pass a time longer than a step");
  if (o.exclude_after.count() < 0)
    refuse("exclude_after is negative", "pass how long to wait for a rank that hangs, or 0 to exclude none");
  if (o.join_within.count() <= 0 || o.asked_within.count() <= 0)
    refuse("join_within or asked_within is not positive", "pass times in which new ranks can join");
}

TUTTI_INLINE void refuse_to_exclude(std::string_view transport) {
  throw error({.code = error_code::bad_argument,
               .what = join({"exclude_after is set, but ranks over ", transport, " that hang cannot be excluded"}),
               .way_out = "end the process of such a rank, and leave exclude_after at 0"});
}

TUTTI_INLINE bool is_loss(error_code code, training::elastic_options const& options) {
  return code == error_code::rank_lost || code == error_code::rank_left || code == error_code::revoked ||
         (code == error_code::timeout && options.exclude_after.count() > 0);
}

}  // namespace tutti::detail
