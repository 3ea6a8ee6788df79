// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much of a started call overlaps with a computation that takes as long.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include "contender.hpp"
#include "start_line.hpp"

namespace bench {

// A computation: either a fixed number of multiplications on this core, which take longer if other threads use the core, or an interval
// in which a device computes and the core is free.
class computation {
 public:
  // `look_every`: nanoseconds of computation between two tests of the started call.
  computation(bool on_core, double nanoseconds, double look_every)
      : time_(static_cast<std::int64_t>(nanoseconds)),
        pieces_(on_core ? std::max(1, static_cast<int>(nanoseconds / look_every)) : 0),
        chains_(static_cast<int>(look_every / spin_time())) {}

  // test() drives progress of the call. With `sleeps`, another thread does, or none.
  template <class Test>
  void run(bool sleeps, Test&& test) const {
    std::int64_t const end = now() + time_;
    for (int i = 0; i < pieces_; ++i, test())
      for (int c = 0; c < chains_; ++c) spin();
    if (pieces_ > 0) return;
    if (sleeps) std::this_thread::sleep_for(std::chrono::nanoseconds(time_));
    else
      for (; now() < end; ::sched_yield()) test();
  }

 private:
  std::int64_t time_;
  int pieces_, chains_;
};

// The times in microseconds, at the slowest rank, of the call alone, the computation alone, and both, measured in turn; and the fraction
// of the call that is hidden: 1 - (both - computing) / alone.
inline json measure_overlap(start_line& line, contender const& c, json const& said) {
  bool const on_core = said["computes"] == "core", tests = said["moved"] == "test";
  std::size_t const samples = said["samples"];
  auto const median_of = [&](std::size_t which, std::size_t kinds) {
    line.wait();
    std::vector<double> const all = line.slowest(samples * kinds);
    std::vector<double> us;
    for (std::size_t i = which; i < all.size(); i += kinds) us.push_back(all[i]);
    std::ranges::sort(us);
    line.wait();  // before any rank writes there again
    return us[us.size() / 2];
  };
  auto const time = [&](std::size_t at, auto&& f) {
    std::int64_t const begin = line.wait();
    f();
    line.mine(at) = static_cast<double>(now() - begin) * 1e-3;
  };
  c.call();
  for (std::size_t i = 0; i < samples; ++i) time(i, c.call);
  computation const work(on_core, median_of(0, 1) * 1e3, said["look_every"].get<double>() * 1e3);
  for (std::size_t i = 0; i < samples; ++i) {
    time(3 * i, c.call);
    time(3 * i + 1, [&] { work.run(true, [] {}); });
    time(3 * i + 2, [&] {
      c.start();
      if (tests) work.run(false, c.test);
      else work.run(true, [] {});
      c.wait();
    });
  }
  double const call = median_of(0, 3), computing = median_of(1, 3), both = median_of(2, 3);
  return {{"us", both}, {"call", call}, {"computing", computing}, {"hidden", 1 - (both - computing) / call}};
}

}  // namespace bench
