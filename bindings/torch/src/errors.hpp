// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What torch.distributed throws for an error of tutti.
#pragma once

#include <c10/util/Exception.h>

#include "communicator.hpp"

namespace tutti_torch {

// Of a call of a group: what happened, and what a program in Python can do about it.
c10::DistBackendError backend_error(tutti::error const& e);

}  // namespace tutti_torch
