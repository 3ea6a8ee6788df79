// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti::compiled: the templates that most programs use.
#define TUTTI_COMPILES_USUAL
#include "tutti/launch/usual.hpp"

#if defined(_GLIBCXX_DEBUG) && defined(__GLIBCXX__)
char volatile const tutti::detail::tutti_compiled_must_be_built_with_GLIBCXX_DEBUG = 0;
#endif
