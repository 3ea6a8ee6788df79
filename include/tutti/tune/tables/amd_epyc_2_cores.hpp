// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measured on AMD EPYC, 2 cores, 2026-11-21, by `tutti-tune --ranks 2,4,8 --max 33554432 --seconds 90`. Rules of four
// collectives for 2 ranks are edited by hand: all_reduce goes by a longer run (`--ranks 2 --collective all_reduce
// --seconds 40`); broadcast by one_shot, which the trees that had won are on 2 ranks too; all_gather and all_to_all by what
// wins in private arrays, where the tool weighs those from comm.allocate as much.
#pragma once

#include "tutti/tune/table.hpp"

namespace tutti::tables {

// clang-format off
inline constexpr rule amd_epyc_2_cores_rules[] = {
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 1280, 8192},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, 16777216, algorithm_id::two_shot, protocol::automatic, 1512048, 8388608},
  {collective::all_reduce, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 7345400, 33554432},
  {collective::all_reduce, 3, 5, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 16535, 32768},
  {collective::all_reduce, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::two_shot, protocol::automatic, 19294263, 33554432},
  {collective::all_reduce, 6, 11, occupancy::crowded, reach::any, 4096, algorithm_id::one_shot, protocol::automatic, 22243, 2048},
  {collective::all_reduce, 6, 11, occupancy::crowded, reach::any, 65536, algorithm_id::recursive_doubling, protocol::automatic, 113129, 32768},
  {collective::all_reduce, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::two_shot, protocol::automatic, 12433395, 8388608},
  {collective::reduce, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 4090772, 33554432},
  {collective::reduce, 3, 5, occupancy::crowded, reach::any, 262144, algorithm_id::one_shot, protocol::automatic, 25288, 131072},
  {collective::reduce, 3, 5, occupancy::crowded, reach::any, 1048576, algorithm_id::ring, protocol::automatic, 65918, 524288},
  {collective::reduce, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 7933244, 33554432},
  {collective::reduce, 6, 11, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 15944, 8192},
  {collective::reduce, 6, 11, occupancy::crowded, reach::any, 4194304, algorithm_id::binomial_tree, protocol::automatic, 1761533, 2097152},
  {collective::reduce, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::two_shot, protocol::automatic, 7227382, 8388608},
  {collective::broadcast, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 2666592, 33554432},
  {collective::broadcast, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 8796119, 33554432},
  {collective::broadcast, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 5971843, 8388608},
  {collective::reduce_scatter, 2, 2, occupancy::apart, reach::any, 262144, algorithm_id::one_shot, protocol::automatic, 9605, 131072},
  {collective::reduce_scatter, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::pairwise, protocol::automatic, 7502369, 33554432},
  {collective::reduce_scatter, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 8965351, 8388608},
  {collective::reduce_scatter, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 11370804, 2097152},
  {collective::all_gather, 2, 2, occupancy::apart, reach::pulls, 4194304, algorithm_id::one_shot, protocol::automatic, 2489, 8192},
  {collective::all_gather, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 11795752, 33554432},
  {collective::all_gather, 2, 2, occupancy::apart, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 12202532, 33554432},
  {collective::all_gather, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 7512257, 8388608},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::pulls, 262144, algorithm_id::one_shot, protocol::automatic, 717207, 131072},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::pulls, 1048576, algorithm_id::pairwise, protocol::pull, 4400183, 524288},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 10179719, 2097152},
  {collective::all_gather, 6, 11, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 10179719, 2097152},
  {collective::gather, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 5975068, 33554432},
  {collective::gather, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 2953318, 8388608},
  {collective::gather, 6, 11, occupancy::crowded, reach::pulls, 1048576, algorithm_id::one_shot, protocol::automatic, 359055, 524288},
  {collective::gather, 6, 11, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 4540572, 2097152},
  {collective::gather, 6, 11, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 2023784, 2097152},
  {collective::scatter, 2, 2, occupancy::apart, reach::pulls, 65536, algorithm_id::one_shot, protocol::automatic, 6481, 32768},
  {collective::scatter, 2, 2, occupancy::apart, reach::pulls, 1048576, algorithm_id::one_shot, protocol::pull, 77927, 524288},
  {collective::scatter, 2, 2, occupancy::apart, reach::pulls, 16777216, algorithm_id::one_shot, protocol::automatic, 1289532, 8388608},
  {collective::scatter, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 8140293, 33554432},
  {collective::scatter, 2, 2, occupancy::apart, reach::closed, 65536, algorithm_id::one_shot, protocol::automatic, 6481, 32768},
  {collective::scatter, 2, 2, occupancy::apart, reach::closed, 1048576, algorithm_id::binomial_tree, protocol::automatic, 72929, 524288},
  {collective::scatter, 2, 2, occupancy::apart, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 7742425, 33554432},
  {collective::scatter, 3, 5, occupancy::crowded, reach::pulls, 16384, algorithm_id::one_shot, protocol::automatic, 7641, 8192},
  {collective::scatter, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 4245182, 8388608},
  {collective::scatter, 3, 5, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 3333083, 8388608},
  {collective::scatter, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 2834881, 2097152},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::pulls, 4194304, algorithm_id::one_shot, protocol::automatic, 7686, 32768},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::pull, 12725942, 33554432},
  {collective::all_to_all, 2, 2, occupancy::apart, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 13329231, 33554432},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::pulls, 262144, algorithm_id::one_shot, protocol::automatic, 74430, 131072},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::pulls, 4194304, algorithm_id::one_shot, protocol::pull, 3155719, 2097152},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 9856889, 8388608},
  {collective::all_to_all, 3, 5, occupancy::crowded, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 9856889, 8388608},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 219888, 32768},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::any, 1048576, algorithm_id::pairwise, protocol::automatic, 3997703, 524288},
  {collective::all_to_all, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 13002823, 2097152},
  {collective::barrier, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 151, 0},
  {collective::barrier, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 5848, 0},
  {collective::barrier, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 14923, 0},
  {collective::scan, 2, 2, occupancy::apart, reach::any, 1048576, algorithm_id::one_shot, protocol::automatic, 28373, 524288},
  {collective::scan, 2, 2, occupancy::apart, reach::any, 16777216, algorithm_id::ring, protocol::automatic, 890848, 8388608},
  {collective::scan, 2, 2, occupancy::apart, reach::any, rule::no_limit, algorithm_id::recursive_doubling, protocol::automatic, 4284060, 33554432},
  {collective::scan, 3, 5, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 12088, 32768},
  {collective::scan, 3, 5, occupancy::crowded, reach::any, 4194304, algorithm_id::ring, protocol::automatic, 383621, 2097152},
  {collective::scan, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 12874893, 33554432},
  {collective::scan, 6, 11, occupancy::crowded, reach::any, 16384, algorithm_id::one_shot, protocol::automatic, 40139, 8192},
  {collective::scan, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::ring, protocol::automatic, 11202843, 8388608},
  {collective::exclusive_scan, 2, 2, occupancy::apart, reach::pulls, 65536, algorithm_id::one_shot, protocol::automatic, 3567, 32768},
  {collective::exclusive_scan, 2, 2, occupancy::apart, reach::pulls, 4194304, algorithm_id::recursive_doubling, protocol::pull, 176594, 2097152},
  {collective::exclusive_scan, 2, 2, occupancy::apart, reach::pulls, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 2232746, 33554432},
  {collective::exclusive_scan, 2, 2, occupancy::apart, reach::closed, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 2232746, 33554432},
  {collective::exclusive_scan, 3, 5, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 12549077, 33554432},
  {collective::exclusive_scan, 6, 11, occupancy::crowded, reach::any, 65536, algorithm_id::one_shot, protocol::automatic, 89434, 32768},
  {collective::exclusive_scan, 6, 11, occupancy::crowded, reach::any, rule::no_limit, algorithm_id::ring, protocol::automatic, 13627754, 8388608},
};
// clang-format on

inline constexpr tuning_table amd_epyc_2_cores = {
    .machine = "AMD EPYC, 2 cores",
    .date = "2026-11-21",
    .command = "tutti-tune --ranks 2,4,8 --max 33554432 --seconds 90",
    .apart = {.hop = 143829, .message = 76283, .sent = 75534, .combined = 0},
    .crowded = {.hop = 2567744, .message = 1058374, .sent = 93992, .combined = 9002},
    .rules = amd_epyc_2_cores_rules,
    .messages = {.hop = 1000000, .message = 500000, .sent = 200000, .combined = 50000},
};

}  // namespace tutti::tables
