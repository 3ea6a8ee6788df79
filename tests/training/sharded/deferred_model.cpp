// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that a process needs to make a model of stage 3, as the kernel counts it.
// labels: processes unsanitized
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// Bytes of a line of /proc/self/status.
std::size_t bytes_of_process(std::string const& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::size_t kib = 0; word == key && status >> kib) return kib * 1024;
  return 0;
}

constexpr std::size_t unit_count = 16, of_unit = std::size_t{1} << 20;  // elements
constexpr std::size_t unit_bytes = of_unit * sizeof(float), model_bytes = unit_count * unit_bytes;

// The most memory that each rank has had at once, less what it began with.
template <class Make>
std::size_t peak_of_making(communicator<shm>& comm, Make const& make) {
  std::size_t const before = bytes_of_process("VmRSS:");
  make();
  return all_reduce(comm, bytes_of_process("VmHWM:") - before, max{});
}

}  // namespace

TEST_CASE("a rank needs memory for its shard and a unit to make a deferred model") {
  training::sharding_options const options{.stage = 3};
  auto const value = [](std::size_t i, std::size_t k) { return static_cast<float>(i * 7 + k % 1000); };
  CHECK_NOTHROW(run_local(4, [&](auto& comm) {
    std::size_t const peak = peak_of_making(comm, [&] {
      training::deferred_model<float> deferred{.parameters = {unit_count, {{of_unit}}},
                                               .fill = [&](std::size_t i, std::span<float> values) {
                                                 for (std::size_t k = 0; k < of_unit; ++k) values[k] = value(i, k);
                                               }};
      training::sharded_data_parallel model(comm, deferred, training::sgd{}, options);
      auto const memory = model.memory().peak;
      expect(memory.total() == 2 * model_bytes / 4 + unit_bytes, "the model counts other memory");
      for (auto const& part : model.shard())
        for (std::size_t k = 0; k < part.values.size(); k += 997)
          expect(part.values[k] == value(part.parameter, part.elements.begin + k), "a shard has other values");
    });
    // The shards of parameters and gradients, and a unit; besides, the windows of the communicators.
    expect(peak < 2 * model_bytes / 4 + 4 * unit_bytes, "the peak is " + std::to_string(peak));
  }));
  CHECK_NOTHROW(run_local(4, [&](auto& comm) {
    std::size_t const peak = peak_of_making(comm, [&] {
      std::vector<std::vector<float>> const whole(unit_count, std::vector<float>(of_unit, 1.0f));
      training::sharded_data_parallel const model(comm, std::vector(whole), training::sgd{}, options);
    });
    expect(peak > model_bytes, "a rank that has the whole model needs little memory, so the measurement is wrong");
  }));
}
