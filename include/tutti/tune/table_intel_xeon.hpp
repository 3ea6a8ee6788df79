// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measured on an Intel Xeon of the Emerald Rapids class (2 MiB L2 a core, 300 MiB L3), 2 cores, a virtual machine, 2026-11-28, by five
// runs of tutti-tune. Where these differed, or trailed the MPIs, bench/run.py compared algorithms and protocols in both its modes,
// and decided; so the times of neighbouring rules may come from different runs.
#pragma once

#include "tutti/tune/table.hpp"
#include "tutti/tune/table_over_messages.hpp"

namespace tutti::tables {

using detail::occupancy, detail::reach, detail::rule, detail::tuning_table;

// clang-format off
inline constexpr rule intel_xeon_rules[] = {
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 2794, 8192},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::pulls, 16777216, algorithm_id::two_shot, protocol::pull, 2824928, 8388608},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::closed, 16777216, algorithm_id::two_shot, protocol::automatic, 3500061, 8388608},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 12263519, 33554432},
  {collective::all_reduce, 3, 5, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 12677, 8192},
  {collective::all_reduce, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::two_shot, protocol::automatic, 25853478, 33554432},
  {collective::all_reduce, 6, 11, occupancy::crowded, reach::any, 4096, algorithm_id::one_shot, protocol::automatic, 24267, 2048},
  {collective::all_reduce, 6, 11, occupancy::crowded, reach::any, 65536, algorithm_id::binomial_tree, protocol::automatic, 69867, 32768},
  {collective::all_reduce, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::two_shot, protocol::automatic, 16614221, 8388608},
  {collective::reduce, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 8206652, 33554432},
  {collective::reduce, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 16073384, 33554432},
  {collective::reduce, 6, 11, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 32952, 32768},
  {collective::reduce, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::ring, protocol::automatic, 5651748, 8388608},
  {collective::broadcast, 2, 2, occupancy::apart, reach::any, 16777216, algorithm_id::one_shot, protocol::automatic, 1228602, 8388608},
  {collective::broadcast, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::two_shot, protocol::automatic, 5829423, 33554432},
  {collective::broadcast, 3, 5, occupancy::crowded, reach::any, 131072, algorithm_id::one_shot, protocol::automatic, 27300, 131072},
  {collective::broadcast, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 462384, 2097152},
  {collective::broadcast, 3, 5, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::binomial_tree, protocol::automatic, 521900, 2097152},
  {collective::broadcast, 6, 11, occupancy::crowded, reach::pulls, 65536, algorithm_id::one_shot, protocol::automatic, 24878, 32768},
  {collective::broadcast, 6, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 6646640, 8388608},
  {collective::broadcast, 6, 11, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 6715560, 8388608},
  {collective::reduce_scatter, 2, 2, occupancy::apart, reach::any, 32768, algorithm_id::one_shot, protocol::automatic, 7351, 32768},
  {collective::reduce_scatter, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 15729318, 33554432},
  {collective::reduce_scatter, 2, 2, occupancy::apart, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 13807976, 33554432},
  {collective::reduce_scatter, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 15212144, 8388608},
  {collective::reduce_scatter, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 13398745, 2097152},
  {collective::all_gather, 2, 2, occupancy::apart, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 4145, 16384},
  {collective::all_gather, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 17970103, 33554432},
  {collective::all_gather, 2, 2, occupancy::apart, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 18961959, 33554432},
  {collective::all_gather, 3, 5, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 26022, 32768},
  {collective::all_gather, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 570474, 524288},
  {collective::all_gather, 3, 5, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 528010, 524288},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 57523, 16384},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 1029899, 262144},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 1083400, 262144},
  {collective::gather, 2, 2, occupancy::apart, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 5768, 32768},
  {collective::gather, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::binomial_tree, protocol::automatic, 15145060, 33554432},
  {collective::gather, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 7127068, 8388608},
  {collective::gather, 6, 11, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 26284, 32768},
  {collective::gather, 6, 11, occupancy::crowded, reach::pulls, 262144, algorithm_id::one_shot, protocol::pull, 109102, 131072},
  {collective::gather, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 2767985, 2097152},
  {collective::scatter, 2, 2, occupancy::apart, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 1984, 8192},
  {collective::scatter, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 152129, 1048576},
  {collective::scatter, 2, 2, occupancy::apart, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 9631612, 33554432},
  {collective::scatter, 3, 5, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 7968, 8192},
  {collective::scatter, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 4893747, 8388608},
  {collective::scatter, 3, 5, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 4647678, 8388608},
  {collective::scatter, 6, 11, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 18231, 16384},
  {collective::scatter, 6, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 149700, 262144},
  {collective::scatter, 6, 11, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 328496, 262144},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 4385, 16384},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 433622, 1048576},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::closed, 4194304, algorithm_id::one_shot, protocol::automatic, 594798, 2097152},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::closed, rule::no_limit, algorithm_id::pairwise, protocol::automatic, 18101222, 33554432},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 14466, 8192},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::pulls, 131072, algorithm_id::one_shot, protocol::pull, 190305, 131072},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::pairwise, protocol::pull, 515345, 524288},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::closed, 1048576, algorithm_id::one_shot, protocol::automatic, 784604, 524288},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::pairwise, protocol::automatic, 19674259, 8388608},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 69291, 16384},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 1222856, 262144},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::closed, 1048576, algorithm_id::one_shot, protocol::automatic, 3789916, 524288},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::pairwise, protocol::automatic, 16173337, 2097152},
  {collective::barrier, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 316, 0},
  {collective::barrier, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 5818, 0},
  {collective::barrier, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 8990, 0},
  {collective::scan, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 9266397, 33554432},
  {collective::scan, 3, 5, occupancy::crowded, reach::any, 4096, algorithm_id::one_shot, protocol::automatic, 6147, 2048},
  {collective::scan, 3, 5, occupancy::crowded, reach::any, 16384, algorithm_id::recursive_doubling, protocol::automatic, 10328, 8192},
  {collective::scan, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::ring, protocol::automatic, 25926195, 33554432},
  {collective::scan, 6, 11, occupancy::crowded, reach::any, 4096, algorithm_id::one_shot, protocol::automatic, 15456, 2048},
  {collective::scan, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::ring, protocol::automatic, 9583940, 8388608},
  {collective::exclusive_scan, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 5498494, 33554432},
  {collective::exclusive_scan, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 23010888, 33554432},
  {collective::exclusive_scan, 6, 11, occupancy::crowded, reach::any, 4096, algorithm_id::one_shot, protocol::automatic, 15012, 2048},
  {collective::exclusive_scan, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::ring, protocol::automatic, 16570448, 8388608},
};
// clang-format on

inline constexpr tuning_table intel_xeon = {
    .machine = "Intel Xeon (Emerald Rapids), 2 cores",
    .date = "2026-11-28",
    .command = "tutti-tune --ranks 2,4,8 --max 33554432 --seconds 150",
    .apart = {.hop = 514223, .message = 165256, .sent = 179160, .combined = 34570},
    .crowded = {.hop = 2236578, .message = 992837, .sent = 247440, .combined = 108361},
    .rules = intel_xeon_rules,
    .over_messages = over_messages_rules,
    .links = {{{{475000, 114475}, {0, 0}, {0, 0}, {0, 0}}}},
};

}  // namespace tutti::tables
