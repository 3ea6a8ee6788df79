// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The result of a proof.
#pragma once

#include <string>

namespace tutti::analyze {

// Whether a schedule is right.
struct verdict {
  bool ok = true;
  std::string why;  // if not ok: where the problem is (rank, step, chunk or microbatch) and what it is, in a sentence

  explicit operator bool() const { return ok; }
};

}  // namespace tutti::analyze
