// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operations of a reduction: small function objects, called on the accumulator type of the elements.
#pragma once

#include "tutti/reduce/arithmetic.hpp"
#include "tutti/reduce/bits.hpp"
#include "tutti/reduce/extrema.hpp"
#include "tutti/reduce/members.hpp"
