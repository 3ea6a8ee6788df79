// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a test wants printed when it hangs, such as every rank's cursor.
#pragma once

namespace tutti::testing {

// `print` runs in a signal handler, once, ten seconds before ctest would kill the program; the program then aborts. A
// forked child does not inherit the alarm. Null takes a report away.
void report_when_hanging(void (*print)());

}  // namespace tutti::testing
