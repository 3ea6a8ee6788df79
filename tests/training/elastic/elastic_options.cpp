// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of elastic training, and variables of tutti-run --elastic, that make no sense are refused.
#include "tutti/training/elastic/elastic_options.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("options of elastic training that make no sense are refused") {
  using namespace std::chrono_literals;
  auto const refused = [](training::elastic_options const& options, std::string const& words) {
    expect_error(error_of([&] { return tutti::detail::check_elastic_options(options), 0; }), error_code::bad_argument,
                 words);
  };
  CHECK_NOTHROW(tutti::detail::check_elastic_options({}));
  CHECK_NOTHROW(tutti::detail::check_elastic_options({.min_ranks = 1, .checkpoint_every = 1, .folder = "run"}));
  CHECK_NOTHROW(refused({.min_ranks = -1}, "min_ranks is negative"));
  CHECK_NOTHROW(refused({.snapshot_every = 0}, "snapshot_every is 0"));
  CHECK_NOTHROW(refused({.checkpoint_every = 1}, "checkpoint_every is set, but there is no folder"));
  CHECK_NOTHROW(refused({.suspect_after = 0s}, "suspect_after is not positive"));
  CHECK_NOTHROW(refused({.exclude_after = -1s}, "exclude_after is negative"));
  CHECK_NOTHROW(refused({.join_within = 0s}, "join_within or asked_within is not positive"));
  CHECK_NOTHROW(refused({.asked_within = -1s}, "join_within or asked_within is not positive"));
}

TEST_CASE("variables that tutti-run --elastic would not set are refused") {
  auto const job_with = [](char const* name, char const* text) {
    ::setenv(name, text, 1);
    struct unset_again {
      char const* name;
      ~unset_again() { ::unsetenv(name); }
    } const last{name};
    return tutti::detail::elastic_job::from_environment();
  };
  tutti::detail::elastic_job const none = tutti::detail::elastic_job::from_environment();
  CHECK((none.min_ranks == 0 && none.max_ranks == 0 && none.joins_as == -1));
  tutti::detail::elastic_job const job = job_with("TUTTI_ELASTIC", "2:8");
  CHECK((job.min_ranks == 2 && job.max_ranks == 8 && job.joins_as == -1));
  CHECK(job_with("TUTTI_ELASTIC_JOIN", "3").joins_as == 3);
  for (char const* const text : {"2", "8:2", "0:2", "2:8x", ":", "2:", "-1:2", "2:1000000"}) {
    CAPTURE(text);
    CHECK_NOTHROW(expect_error(error_of([&] { return job_with("TUTTI_ELASTIC", text).min_ranks; }),
                               error_code::bad_argument, "is not a least and a greatest number of ranks"));
  }
  for (char const* const text : {"-1", "one", "1 "}) {
    CAPTURE(text);
    CHECK_NOTHROW(expect_error(error_of([&] { return job_with("TUTTI_ELASTIC_JOIN", text).joins_as; }),
                               error_code::bad_argument, "is not the number of a member"));
  }
}
