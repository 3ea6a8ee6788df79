// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Explains which cursor waits for which when a symbolic execution makes no progress.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::analyze {

// The wait of a half of a step: the cursor that it waits for, and the purpose.
struct wait {
  enum reasons { for_nothing, for_message, for_room, for_reader, for_phase };

  int rank = -1;
  int track = 0;
  reasons why = for_nothing;
  int chunk = 0;

  std::string text() const {
    std::string const who = "rank " + std::to_string(rank), what = "chunk " + std::to_string(chunk);
    switch (why) {
      case for_message: return "waits for " + what + " from " + who;
      case for_room: return "waits for room to send " + what + " to " + who;
      case for_reader: return "waits to overwrite " + what + ", which " + who + " has yet to read";
      case for_phase: return "waits for the phase before";
      case for_nothing: break;
    }
    return "waits for nothing";
  }
};

// The waits of both halves of a cursor.
struct waits {
  wait sending{};
  wait receiving{};

  wait const& any() const { return receiving.why != wait::for_nothing ? receiving : sending; }
};

// Follows the waits from cursor `start` until they form a cycle or reach a cursor that has finished. `wait_of(i)` is
// the wait of cursor i, `cursor_of(wait)` the cursor that it waits for, and `name(i)` its position; empty if it has
// finished.
template <class WaitOf, class CursorOf, class Name>
std::string describe_deadlock(std::size_t start, WaitOf wait_of, CursorOf cursor_of, Name name) {
  static constexpr std::size_t enough = 6;
  auto const story = [&](std::vector<std::size_t> const& path, std::size_t first, char const* end) {
    std::string text = "deadlock: ";
    std::size_t const count = path.size() - first;
    for (std::size_t i = 0; i < count && i < enough; ++i)
      text += (i > 0 ? "; " : "") + name(path[first + i]) + wait_of(path[first + i]).text();
    if (count > enough) text += "; and so on, a cycle of " + std::to_string(count);
    return text + end;
  };
  std::vector<std::size_t> path;
  for (std::size_t here = start;; here = cursor_of(wait_of(here))) {
    if (name(here).empty()) return story(path, path.size() - 1, ", which has finished");
    for (std::size_t i = 0; i < path.size(); ++i)
      if (path[i] == here) return story(path, i, "");
    path.push_back(here);
  }
}

}  // namespace tutti::analyze
