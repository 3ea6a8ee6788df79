// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measured on AMD EPYC (family 26, Zen 5), 2 cores, 2026-11-21, by `tutti-tune --ranks 2,4,8 --max 33554432 --seconds
// 90`. One rule is edited by hand: all_reduce on 6 to 11 ranks uses two_shot above 256 KiB. There recursive_halving had
// won, but it takes 1.3 to 1.7 times as long on 8 ranks from 8 MiB on in bench/results. Rules for `pulls` and for more than 11 ranks were
// measured on Zen 4, 2026-11-26, by bench/run.py on 4, 8, 16 and 32 ranks: where ranks share cores, one copy less is time saved.
#pragma once

#include "tutti/tune/table.hpp"
#include "tutti/tune/table_over_messages.hpp"

namespace tutti::tables {

using detail::occupancy, detail::reach, detail::rule, detail::tuning_table;

// clang-format off
inline constexpr rule amd_zen5_rules[] = {
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 1889, 32768},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, 4194304, algorithm_id::two_shot, protocol::automatic, 121919, 2097152},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, 16777216, algorithm_id::recursive_doubling, protocol::automatic, 923810, 8388608},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 5106665, 33554432},
  {collective::all_reduce, 3, 5, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 12919, 32768},
  {collective::all_reduce, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::two_shot, protocol::automatic, 11607096, 33554432},
  {collective::all_reduce, 6, 11, occupancy::crowded, reach::any, 4096, algorithm_id::one_shot, protocol::automatic, 18287, 2048},
  {collective::all_reduce, 6, 11, occupancy::crowded, reach::any, 65536, algorithm_id::recursive_doubling, protocol::automatic, 52859, 32768},
  {collective::all_reduce, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::two_shot, protocol::automatic, 101651, 131072},
  {collective::all_reduce, 12, 64, occupancy::crowded, reach::any, 2048, algorithm_id::one_shot, protocol::automatic, 85000, 2048},
  {collective::reduce, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 2872224, 33554432},
  {collective::reduce, 3, 5, occupancy::crowded, reach::any, 16777216, algorithm_id::one_shot, protocol::automatic, 1989136, 8388608},
  {collective::reduce, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::ring, protocol::automatic, 7338417, 33554432},
  {collective::reduce, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 4894647, 8388608},
  {collective::broadcast, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 1668315, 33554432},
  {collective::broadcast, 3, 5, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 26400, 65536},
  {collective::broadcast, 3, 5, occupancy::crowded, reach::pulls, 4194304, algorithm_id::one_shot, protocol::pull, 673000, 2097152},
  {collective::broadcast, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 5320443, 33554432},
  {collective::broadcast, 6, 11, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 152900, 65536},
  {collective::broadcast, 6, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 356000, 524288},
  {collective::broadcast, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 3754555, 8388608},
  {collective::broadcast, 12, 64, occupancy::crowded, reach::any, 4096, algorithm_id::one_shot, protocol::automatic, 97600, 2048},
  {collective::broadcast, 12, 64, occupancy::crowded, reach::pulls, 262144, algorithm_id::one_shot, protocol::pull, 275000, 131072},
  {collective::reduce_scatter, 2, 2, occupancy::apart, reach::any, 4194304, algorithm_id::one_shot, protocol::automatic, 129834, 2097152},
  {collective::reduce_scatter, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::recursive_halving, protocol::automatic, 5025985, 33554432},
  {collective::reduce_scatter, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 8357098, 8388608},
  {collective::reduce_scatter, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 9164864, 2097152},
  {collective::all_gather, 2, 2, occupancy::apart, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 712, 8192},
  {collective::all_gather, 2, 2, occupancy::apart, reach::any, 4194304, algorithm_id::pairwise, protocol::automatic, 161152, 2097152},
  {collective::all_gather, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 9936216, 33554432},
  {collective::all_gather, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 5889583, 8388608},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 88752, 32768},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 2052000, 262144},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::any, 1048576, algorithm_id::bruck, protocol::automatic, 2518525, 524288},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 7751683, 2097152},
  {collective::all_gather, 12, 64, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 219000, 1024},
  {collective::all_gather, 12, 64, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 20090000, 524288},
  {collective::gather, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 4295298, 33554432},
  {collective::gather, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 2853510, 8388608},
  {collective::gather, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 3793428, 2097152},
  {collective::scatter, 2, 2, occupancy::apart, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 658, 8192},
  {collective::scatter, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::binomial_tree, protocol::automatic, 4030538, 33554432},
  {collective::scatter, 3, 64, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 18800, 16384},
  {collective::scatter, 3, 64, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 178000, 524288},
  {collective::scatter, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 4145990, 8388608},
  {collective::scatter, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 1894208, 2097152},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::any, 262144, algorithm_id::one_shot, protocol::automatic, 7361, 131072},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::pairwise, protocol::automatic, 7069561, 33554432},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::any, 262144, algorithm_id::one_shot, protocol::automatic, 60741, 131072},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 858000, 524288},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::pairwise, protocol::automatic, 11853668, 8388608},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::any, 262144, algorithm_id::one_shot, protocol::automatic, 406286, 131072},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 2204000, 262144},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::pairwise, protocol::automatic, 8479140, 2097152},
  {collective::all_to_all, 12, 64, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 181000, 1024},
  {collective::barrier, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 160, 0},
  {collective::barrier, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 5799, 0},
  {collective::barrier, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 13014, 0},
  {collective::scan, 2, 2, occupancy::apart, reach::any, 4194304, algorithm_id::one_shot, protocol::automatic, 71918, 2097152},
  {collective::scan, 2, 2, occupancy::apart, reach::any, 16777216, algorithm_id::ring, protocol::automatic, 541880, 8388608},
  {collective::scan, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::recursive_doubling, protocol::automatic, 3490061, 33554432},
  {collective::scan, 3, 5, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 9264, 32768},
  {collective::scan, 3, 5, occupancy::crowded, reach::any, 4194304, algorithm_id::ring, protocol::automatic, 290523, 2097152},
  {collective::scan, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 10155633, 33554432},
  {collective::scan, 6, 11, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 30256, 8192},
  {collective::scan, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::ring, protocol::automatic, 6909842, 8388608},
  {collective::exclusive_scan, 2, 2, occupancy::apart, reach::any, 16777216, algorithm_id::one_shot, protocol::automatic, 456483, 8388608},
  {collective::exclusive_scan, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::recursive_doubling, protocol::automatic, 2296028, 33554432},
  {collective::exclusive_scan, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 9749627, 33554432},
  {collective::exclusive_scan, 6, 11, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 27030, 8192},
  {collective::exclusive_scan, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::ring, protocol::automatic, 8206513, 8388608},
};
// clang-format on

inline constexpr tuning_table amd_zen5 = {
    .machine = "AMD EPYC (Zen 5), 2 cores",
    .date = "2026-11-21",
    .command = "tutti-tune --ranks 2,4,8 --max 33554432 --seconds 90",
    .apart = {.hop = 198478, .message = 49619, .sent = 35496, .combined = 11657},
    .crowded = {.hop = 2319634, .message = 963958, .sent = 57483, .combined = 20496},
    .rules = amd_zen5_rules,
    .over_messages = over_messages_rules,
};

}  // namespace tutti::tables
