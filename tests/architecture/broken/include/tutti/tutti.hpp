// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program that includes these in this order compiles.
#pragma once

#include "tutti/chicken.hpp"
#include "tutti/egg.hpp"
#include "tutti/numbers.hpp"
//
#include "tutti/lacks_an_include.hpp"  // after numbers.hpp
