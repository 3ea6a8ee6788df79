// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machines that tutti-sim knows by name. Their times are round figures of data sheets, measured nowhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/analyze/machine_model.hpp"

namespace simulator {

struct machine {
  std::string_view name, text;
  tutti::analyze::model times;
};

inline std::vector<machine> const& machines() {
  static std::vector<machine> const all{
      {"fat_tree",
       "100 Gbit/s and 1 us a link; 32 hosts at a switch, which has 16 links to the others",
       {.alpha = 4e-6, .beta = 8e-11, .gamma = 1e-11, .gap = 1e-7, .enclosures = {{32, 2e-6, 8e-11, 8e-11 / 16}}}},
      {"dragonfly",
       "200 Gbit/s; 16 hosts at a router, 32 routers in a group, which has 128 links to other groups",
       {.alpha = 2.4e-6,
        .beta = 4e-11,
        .gamma = 1e-11,
        .gap = 1e-7,
        .enclosures = {{16, 1.2e-6, 4e-11, 0}, {512, 1.8e-6, 4e-11, 4e-11 / 128}}}},
      {"nvlink",
       "8 GPUs in a node, joined at 450 GB/s each; a link of 400 Gbit/s for each GPU to other nodes",
       {.alpha = 5e-6, .beta = 2e-11, .gamma = 5e-13, .gap = 2e-7, .enclosures = {{8, 2e-6, 1 / 450e9, 2e-11 / 8}}}},
      {"one_rail",
       "the same, but the 8 GPUs of a node share a single link of 400 Gbit/s",
       {.alpha = 5e-6, .beta = 2e-11, .gamma = 5e-13, .gap = 2e-7, .enclosures = {{8, 2e-6, 1 / 450e9, 2e-11}}}},
  };
  return all;
}

}  // namespace simulator
