// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti::compiled: every definition that is no template.
#include "tutti/core/error_impl.hpp"
#include "tutti/core/file_impl.hpp"
#include "tutti/core/json_impl.hpp"
#include "tutti/core/text_impl.hpp"
