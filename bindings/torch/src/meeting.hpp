// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the ranks of a group find each other: by a name that rank 0 leaves in the store of torch.distributed.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <vector>

#include "call.hpp"
#include "communicator.hpp"

namespace tutti_torch {

// The group of all ranks, while there is one.
std::weak_ptr<group>& world();

// `members` are the ranks in the group of all, or nothing if it is that group.
communicator meet(c10d::Store& store, int rank, int size, tutti::detail::countdown& until,
                  std::vector<int> const& members);

}  // namespace tutti_torch
