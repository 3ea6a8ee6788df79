// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order in which an epoch takes its examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::training {

// A random order of so many examples, another one in each epoch. It is a function of these numbers alone, so all ranks get the
// same without communication, with every compiler and standard library; and so does a run that continues from a checkpoint. Each
// rank takes its part of every batch:
//
//   auto const order = tutti::training::epoch_order(examples, seed, epoch);
//   tutti::extent const mine = tutti::part(batch, comm.size(), comm.rank());
//   learn(std::span(order).subspan(begin_of_batch + mine.begin, mine.count));
std::vector<std::size_t> epoch_order(std::size_t examples, std::uint64_t seed, std::uint64_t epoch);

}  // namespace tutti::training

#if !defined(TUTTI_COMPILED)
#include "tutti/training/epoch_order_impl.hpp"
#endif
