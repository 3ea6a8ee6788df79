// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For AMD EPYC of family 25 (Zen 3, Zen 4): the table of Zen 5, except for what bench/run.py found to differ on 2 cores of a Zen 3, 2026-11-27.
// There, fetching 1 to 4 MiB takes as long as staging, and arrays that peers read in place take 0.6 to 0.95 of the time, in larger slices. (Since
// 2026-12-01, what is staged and read in place takes no longer; this was not measured again on a Zen 3.)
// Blocks of 256 to 512 KiB are fetched because that took 0.9 of the time of staging for 512 KiB on 2 cores of a Zen 4 (2026-11-28).
#pragma once

#include "tutti/tune/table.hpp"
#include "tutti/tune/table_amd_zen5.hpp"

namespace tutti::tables {

// clang-format off
inline constexpr rule amd_zen3_rules[] = {
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 4038, 32768},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, 4194304, algorithm_id::two_shot, protocol::automatic, 259925, 2097152},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 1857000, 8388608},
  {collective::all_gather, 2, 2, occupancy::apart, reach::pulls, 16384, algorithm_id::one_shot, protocol::automatic, 1800, 8192},
  {collective::all_gather, 2, 2, occupancy::apart, reach::pulls, 262144, algorithm_id::pairwise, protocol::automatic, 17300, 131072},
  {collective::all_gather, 2, 2, occupancy::apart, reach::pulls, 4194304, algorithm_id::one_shot, protocol::pull, 541000, 2097152},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::pulls, 262144, algorithm_id::one_shot, protocol::automatic, 20000, 131072},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::pulls, 4194304, algorithm_id::one_shot, protocol::pull, 542000, 2097152},
};
// clang-format on

inline constexpr tuning_table amd_zen3 = {
    .machine = "AMD EPYC (Zen 3; where it does not differ, Zen 5), 2 cores",
    .date = "2026-11-27",
    .command =
        "bench/run.py -n 2 -c all_reduce,all_gather,all_to_all -m it",  // --tutti automatic,one_shot,two_shot,one_shot/pull
    .apart = amd_zen5.apart,
    .crowded = amd_zen5.crowded,
    .rules = amd_zen3_rules,
    .similar = amd_zen5_rules,
    .over_messages = over_messages_rules,
};

}  // namespace tutti::tables
