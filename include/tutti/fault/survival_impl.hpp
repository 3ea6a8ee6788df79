// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of fault/survival.hpp.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti/core/environment.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/survival.hpp"

namespace tutti::detail {

inline constexpr char const* survival_variable = "TUTTI_SURVIVAL";

// Its number, and that of its file: a program may have closed the descriptor and opened another under the number.
TUTTI_INLINE std::string name_of_pipe(int number) {
  struct stat info{};
  if (::fstat(number, &info) != 0 || !S_ISFIFO(info.st_mode)) return {};
  return join({number, ":", info.st_ino});
}

TUTTI_INLINE survival_line::survival_line() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw_system("cannot make a pipe", "");
  launcher_ = descriptor(ends[0]);
  ranks_ = descriptor(ends[1]);
}

// A word is a number; these have meanings of their own. A process number follows the last.
inline constexpr int survival_word = -1, late_mismatch_word = -2, exclusion_word = -3;

TUTTI_INLINE survival_line::words survival_line::take() const {
  words out;
  int word = 0;
  auto const read = [&] { return ::read(launcher_.get(), &word, sizeof word) == sizeof word; };
  while (read()) {
    if (word == survival_word) out.survival = true;
    else if (word == late_mismatch_word) out.late_mismatch = true;
    else if (word == exclusion_word && read()) out.excluded.push_back(word);
    else out.joined.push_back(word);
  }
  return out;
}

TUTTI_INLINE void survival_line::pass_on() const {
  // Both ends: no SIGPIPE is raised in a process that could read the word itself, even if the launcher is gone.
  for (int const end : {launcher_.get(), ranks_.get()}) ::fcntl(end, F_SETFD, 0);
  ::setenv(survival_variable, name_of_pipe(ranks_.get()).c_str(), 1);
}

TUTTI_INLINE void send_to_launcher(std::initializer_list<int> words) noexcept {
  try {
    std::string_view const line = environment_variable(survival_variable);
    std::uint64_t number = 0;
    if (read_number(line, std::numeric_limits<int>::max(), number) == 0) return;
    int const pipe = static_cast<int>(number);
    if (line != name_of_pipe(pipe)) return;
    [[maybe_unused]] ssize_t const written = ::write(pipe, words.begin(), words.size() * sizeof(int));
  } catch (...) {  // the launcher then ends the survivors, as if they had not told it
  }
}
TUTTI_INLINE void report_survival() noexcept { send_to_launcher({survival_word}); }
TUTTI_INLINE void report_late_mismatch() noexcept { send_to_launcher({late_mismatch_word}); }
TUTTI_INLINE void report_join(int number) noexcept { send_to_launcher({number}); }
TUTTI_INLINE void report_exclusion(int process) noexcept { send_to_launcher({exclusion_word, process}); }

}  // namespace tutti::detail
