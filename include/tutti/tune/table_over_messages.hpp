// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules for ranks that share no memory, on any machine: up to the sizes for which Open MPI 4.1 and MPICH 4.0 agree. Times are
// those of Open MPI on an AMD EPYC (Zen 5), 2026-11-21, by `mpirun -n 2 tutti-tune-openmpi --max 1048576 --seconds 30` and the
// same with `-n 4`.
#pragma once

#include "tutti/tune/table.hpp"

namespace tutti::tables {

using detail::occupancy, detail::reach, detail::rule;

// clang-format off
inline constexpr rule over_messages_rules[] = {
  {collective::all_reduce, 2, 2, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 8904, 32768},
  {collective::all_reduce, 3, 5, occupancy::any, reach::messages, 4096, algorithm_id::one_shot, protocol::automatic, 13250, 2048},
  {collective::all_reduce, 3, 5, occupancy::any, reach::messages, 16384, algorithm_id::two_shot, protocol::automatic, 36464, 8192},
  {collective::reduce, 2, 2, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 5008, 32768},
  {collective::reduce, 3, 5, occupancy::any, reach::messages, 1048576, algorithm_id::one_shot, protocol::automatic, 270725, 524288},
  {collective::broadcast, 2, 2, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 7371, 32768},
  {collective::broadcast, 3, 5, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 21873, 32768},
  {collective::reduce_scatter, 2, 2, occupancy::any, reach::messages, 32768, algorithm_id::one_shot, protocol::automatic, 16665, 32768},
  {collective::reduce_scatter, 3, 5, occupancy::any, reach::messages, 16384, algorithm_id::one_shot, protocol::automatic, 42022, 8192},
  {collective::all_gather, 2, 2, occupancy::any, reach::messages, 16384, algorithm_id::one_shot, protocol::automatic, 2734, 8192},
  {collective::all_gather, 3, 5, occupancy::any, reach::messages, 16384, algorithm_id::one_shot, protocol::automatic, 32808, 8192},
  {collective::gather, 2, 2, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 4778, 32768},
  {collective::gather, 3, 5, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 21472, 32768},
  {collective::scatter, 2, 2, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 4056, 32768},
  {collective::scatter, 3, 5, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 22684, 32768},
  {collective::all_to_all, 2, 2, occupancy::any, reach::messages, 8192, algorithm_id::one_shot, protocol::automatic, 2594, 8192},
  {collective::all_to_all, 3, 5, occupancy::any, reach::messages, 16384, algorithm_id::one_shot, protocol::automatic, 37046, 8192},
  {collective::barrier, 2, 2, occupancy::any, reach::messages, rule::no_limit, algorithm_id::one_shot, protocol::automatic, 451, 0},
  {collective::barrier, 3, 5, occupancy::any, reach::messages, rule::no_limit, algorithm_id::recursive_doubling, protocol::automatic, 10015, 0},
  {collective::scan, 2, 2, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 4577, 32768},
  {collective::scan, 3, 5, occupancy::any, reach::messages, 4096, algorithm_id::one_shot, protocol::automatic, 10946, 2048},
  {collective::scan, 3, 5, occupancy::any, reach::messages, 65536, algorithm_id::ring, protocol::automatic, 29354, 32768},
  {collective::exclusive_scan, 2, 2, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 4277, 32768},
  {collective::exclusive_scan, 3, 5, occupancy::any, reach::messages, 65536, algorithm_id::one_shot, protocol::automatic, 45008, 32768},
};
// clang-format on

}  // namespace tutti::tables
