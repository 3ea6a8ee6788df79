// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The result of a simulation, and the events that it shows while it runs.
#pragma once

#include <functional>

#include "tutti/algorithm/step.hpp"

namespace tutti::analyze {

struct outcome {
  double seconds = 0;   // until the last rank has finished
  double messages = 0;  // of all ranks; each slice counts as one
  int simulated = 0;    // the number of ranks that represent all
};

// Events for a picture: a step of a rank, and a message in flight. Times are in seconds.
struct step_event {
  position who{};
  int index = 0;
  double begin = 0, end = 0;
  step what{};
};
struct message_event {
  int from = 0, to = 0;
  int lane = 0, chunk = 0;
  double sent = 0, arrived = 0;
};
struct observer {
  std::function<void(step_event const&)> on_step;
  std::function<void(message_event const&)> on_message;
};

}  // namespace tutti::analyze
