// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flight records and traces, as tutti-record reads them: refused with a sentence, never with that of a library.
// runs: 7000
#include <stdexcept>
#include <string>

// By these two, the program links the packages of tutti-record.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "fuzz/input.hpp"
#include "record/states.hpp"
#include "record/trace.hpp"

void take(std::string const& text) {
  using namespace record;
  auto const expect_sentence_or = [](auto&& read) {
    try {
      read();
    } catch (json::exception const&) {
      require(false);
    } catch (std::runtime_error const&) {
    }
  };
  expect_sentence_or([&] { show({{"input", text}}); });
  expect_sentence_or([&] { joined(events_of({{"input", text}})); });
  expect_sentence_or([&] { draw(calls_of(events_of({{"input", text}})), 0, 0); });
}
