// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything that needs C++20 and POSIX alone: collectives over shared memory, and how ranks start.
#pragma once

#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/all_to_all.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/collective/communicator.hpp"
#include "tutti/collective/explain.hpp"
#include "tutti/collective/gather.hpp"
#include "tutti/collective/mesh.hpp"
#include "tutti/collective/reduce.hpp"
#include "tutti/collective/reduce_scatter.hpp"
#include "tutti/collective/scan.hpp"
#include "tutti/collective/scatter.hpp"
#include "tutti/collective/split.hpp"
#include "tutti/collective/topology.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/launch/local.hpp"
#include "tutti/launch/run.hpp"
#include "tutti/transport/loopback.hpp"
#include "tutti/transport/shm.hpp"
