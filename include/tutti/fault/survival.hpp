// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The words that a job sends to its launcher: once some of its ranks have ended and the others go on without them, so that the
// launcher neither ends them nor counts the loss as a failure of the job; which of those processes live but hang; once a process has
// joined that replaces a rank; and if ranks find, while they close a communicator, that they made different calls, which no call can
// throw any more.
#pragma once

#include <vector>

#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// A pipe from the ranks, which inherit it. Nobody waits: it holds 16,384 words, more than a launcher can have left unread while it
// is busy, since it starts no process then.
class survival_line {
 public:
  // Throws error: system.
  [[gnu::cold]] survival_line();

  int handle() const noexcept { return launcher_.get(); }  // readable when there is word
  struct words {
    bool survival = false, late_mismatch = false;
    std::vector<int> joined{};    // the numbers of processes that have joined
    std::vector<int> excluded{};  // the process numbers of those that the others do without, although they live
  };
  // Takes all words that have arrived.
  [[gnu::cold]] words take() const;

  // Lets the programs that this process starts inherit the end of the ranks, and names it in their environment.
  [[gnu::cold]] void pass_on() const;

 private:
  descriptor launcher_, ranks_;
};

// These tell the launcher, if it has passed on a line.
[[gnu::cold]] void report_survival() noexcept;
[[gnu::cold]] void report_join(int number) noexcept;
[[gnu::cold]] void report_exclusion(int process) noexcept;
[[gnu::cold]] void report_late_mismatch() noexcept;

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/survival_impl.hpp"
#endif
