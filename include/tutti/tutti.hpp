// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything that needs C++20 and POSIX alone: collectives over shared memory, and how ranks start.
#pragma once

#include "tutti/core/config.hpp"  // first, because it refuses compilers that are too old

#include "tutti/call/accepted.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/call/explain.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/call/topology.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/all_to_all.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/collective/batch.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/collective/coalesced.hpp"
#include "tutti/collective/gather.hpp"
#include "tutti/collective/mesh.hpp"
#include "tutti/collective/named.hpp"
#include "tutti/collective/reduce.hpp"
#include "tutti/collective/reduce_scatter.hpp"
#include "tutti/collective/scan.hpp"
#include "tutti/collective/scatter.hpp"
#include "tutti/collective/split.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/launch/local.hpp"
#include "tutti/launch/run.hpp"
#include "tutti/message/point_to_point.hpp"
#include "tutti/reduce/determinism.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/threads/loopback.hpp"
