// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The exit code of a job, from those of its ranks.
#pragma once

#include <sys/wait.h>

#include <cstring>
#include <string>

#include <fmt/format.h>

#include "options.hpp"
#include "say.hpp"
#include "tutti/fault/survival.hpp"

namespace launcher {

// The exit code of a process, or 128 and the signal that has killed it, as of a shell.
inline int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }
inline std::string describe_end(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
}

class outcome {
 public:
  // A member has ended with code 0.
  void note_success() { one_succeeded_ = true; }
  bool one_succeeded() const { return one_succeeded_; }
  // Any process has failed: the survivors may have gone on without it.
  void note_end(int code) { last_code_ = code; }
  // A failure that counts. `is_ending`: the job was told to end before.
  void note_failure(int code, bool is_member, bool is_ending) {
    if (code_ == 0 && is_member) code_ = code;
    if (late_code_ == 0 && is_ending) late_code_ = code;
  }
  bool has_failed() const { return code_ != 0; }
  // The ranks that are left have agreed to do without those that failed before. They may all have ended since; then the last failure is
  // that of one of them, unless one has succeeded.
  void forgive(bool any_running) { code_ = any_running || one_succeeded_ ? 0 : last_code_; }
  void note_timeout() { code_ = late_code_ = timed_out; }
  void hear(tutti::detail::survival_line::words const& words) {
    // Survivors have left the calls behind that did not match.
    late_mismatch_ = words.late_mismatch || (late_mismatch_ && !words.survival);
  }

  int code(options const& o) const {
    int const out = o.recovers && one_succeeded_ ? late_code_ : code_;
    if (out != 0 || !late_mismatch_ || o.recovers) return out;
    say("the job failed, although every rank has exit code 0: ranks made different calls, as one of them printed");
    return 1;
  }

 private:
  static constexpr int timed_out = 124;  // as timeout(1) does

  int code_ = 0;       // of the first member that failed, and nobody forgave
  int last_code_ = 0;  // of the last rank that failed
  int late_code_ = 0;  // of a rank that failed after the job was told to end: no success of another makes up for it
  bool one_succeeded_ = false;
  bool late_mismatch_ = false;  // noticed when ranks closed their communicators
};

}  // namespace launcher
