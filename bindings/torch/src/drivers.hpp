// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that drive the calls whose futures somebody has, because waiting for a future drives nothing.
#pragma once

#include <memory>

#include "call.hpp"

namespace tutti_torch {

// From now on, one of the threads drives the call. They are started with the first.
void drive_in_background(std::shared_ptr<call> one);

// Before the Python interpreter ends: a thread that needs its lock afterwards is torn down in the middle of what it does.
void stop_driving();

// Whether a thread will complete futures. If none will, because the interpreter ends or this is a forked child, others must.
bool futures_are_driven();

}  // namespace tutti_torch
