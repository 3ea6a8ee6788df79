// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the files of a job as JSON, and tells one kind from the other.
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tutti/core/file.hpp"

namespace record {

using json = nlohmann::json;

// A file, or a text under test.
struct source {
  std::string name, text;
};

inline source read(std::string const& path) {
  auto text = tutti::detail::read_file(path);
  if (!text) throw std::runtime_error(fmt::format("cannot read {}", path));
  return {path, std::move(*text)};
}

// JSON of few levels, as tutti writes it: printing a value takes a function call for each level. Otherwise discarded.
inline json parse(std::string const& text) {
  static constexpr int max_depth = 8;
  bool deep = false;
  json out = json::parse(
      text,
      [&](int depth, json::parse_event_t, json const&) {
        deep = deep || depth > max_depth;
        return !deep;
      },
      false);
  return deep ? json(json::value_t::discarded) : out;
}

inline bool is_record(json const& what) { return what.is_object() && what.contains("calls") && what.contains("peers"); }

// A trace breaks off if the disk was full; then its events up to the last complete one are used.
// Otherwise discarded.
inline json parse_trace(std::string text) {
  if (!text.starts_with('[')) return json(json::value_t::discarded);
  if (json whole = parse(text); !whole.is_discarded()) return whole;
  std::size_t const last = text.rfind("},\n");
  if (last == std::string::npos) return json(json::value_t::discarded);
  text.resize(last + 1);
  return parse(text + "]");
}

}  // namespace record
