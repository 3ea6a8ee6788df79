// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For AMD EPYC of family 23 (Zen 1, Zen 2): the table of Zen 5, except for what tutti-tune and bench/run.py found to differ on 2 cores of a
// Zen 1, 2026-12-01. There, a core copies through a slot slowly, so from 64 KiB on, blocks that all ranks exchange are fetched, which takes
// 0.5 to 0.9 of the time, whichever caches the two cores share.
#pragma once

#include "tutti/tune/table.hpp"
#include "tutti/tune/table_amd_zen5.hpp"

namespace tutti::tables {

// clang-format off
inline constexpr rule amd_zen1_rules[] = {
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, 131072, algorithm_id::one_shot, protocol::automatic, 28444, 131072},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::pulls, 262144, algorithm_id::two_shot, protocol::automatic, 55500, 262144},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::two_shot, protocol::pull, 12195858, 33554432},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::two_shot, protocol::automatic, 14166443, 33554432},
  {collective::all_reduce, 3, 5, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 41778, 32768},
  {collective::all_reduce, 3, 5, occupancy::crowded, reach::any, 262144, algorithm_id::two_shot, protocol::automatic, 99927, 131072},
  {collective::all_reduce, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::two_shot, protocol::pull, 7403561, 8388608},
  {collective::reduce_scatter, 2, 2, occupancy::apart, reach::any, 131072, algorithm_id::one_shot, protocol::automatic, 27994, 131072},
  {collective::reduce_scatter, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 12801102, 33554432},
  {collective::reduce_scatter, 3, 5, occupancy::crowded, reach::any, 4194304, algorithm_id::one_shot, protocol::automatic, 4607449, 2097152},
  {collective::reduce_scatter, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 16813384, 8388608},
  {collective::all_gather, 2, 2, occupancy::apart, reach::any, 32768, algorithm_id::one_shot, protocol::automatic, 10951, 32768},
  {collective::all_gather, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 16588274, 33554432},
  {collective::all_gather, 3, 5, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 71704, 32768},
  {collective::all_gather, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 4687169, 2097152},
  {collective::scatter, 2, 2, occupancy::apart, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 1133, 8192},
  {collective::scatter, 2, 2, occupancy::apart, reach::any, 131072, algorithm_id::binomial_tree, protocol::automatic, 11773, 131072},
  {collective::scatter, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 10387908, 33554432},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::any, 32768, algorithm_id::one_shot, protocol::automatic, 11222, 32768},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 15181396, 33554432},
  {collective::all_to_all, 3, 11, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 80271, 32768},
  {collective::all_to_all, 3, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 278833, 131072},
};
// clang-format on

inline constexpr tuning_table amd_zen1 = {
    .machine = "AMD EPYC (Zen 1; where it does not differ, Zen 5), 2 cores",
    .date = "2026-12-01",
    .command =
        "tutti-tune --ranks 2,4,8 --max 33554432 --seconds 90; bench/run.py -n 2 -c all_reduce,reduce_scatter -m it",
    .apart = amd_zen5.apart,
    .crowded = amd_zen5.crowded,
    .rules = amd_zen1_rules,
    .similar = amd_zen5_rules,
    .over_messages = over_messages_rules,
};

}  // namespace tutti::tables
