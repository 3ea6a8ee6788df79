// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registers output that a test wants when it hangs, such as every rank's cursor.
#pragma once

namespace tutti::testing {

// `print` runs in a signal handler, once, ten seconds before ctest would kill the program; the program then aborts. A
// forked child does not inherit the alarm. Null removes a report.
void report_when_hanging(void (*print)());

}  // namespace tutti::testing
