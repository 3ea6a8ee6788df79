// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the files of a job as JSON, and tells one kind from the other.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace record {

using json = nlohmann::json;

// A file, or a text under test.
struct source {
  std::string name, text;
};

// Traces of long runs are large, and some files, such as /dev/zero, have no end.
inline constexpr std::size_t max_bytes = std::size_t{4} << 30;

inline source read(std::string const& path) {
  struct closing {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, closing> const file(std::fopen(path.c_str(), "rb"));
  std::string text;
  char part[65536];
  for (std::size_t n = 1; file && n > 0 && text.size() <= max_bytes; text.append(part, n))
    n = std::fread(part, 1, sizeof part, file.get());
  bool const too_large = text.size() > max_bytes;
  if (!file || std::ferror(file.get()) != 0 || too_large)
    throw std::runtime_error(fmt::format("cannot read {}: {}", path, std::strerror(too_large ? EFBIG : errno)));
  if (text.empty()) throw std::runtime_error(fmt::format("{} is empty; the disk may have been full", path));
  return {path, std::move(text)};
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

// The events of a rank, or of all ranks that were joined. A trace breaks off if the disk was full; then its events up to the last
// complete one are used. Otherwise discarded.
inline json parse_trace(std::string text) {
  if (text.starts_with('{')) {
    json joined = parse(text);
    auto const events = joined.find("traceEvents");
    return joined.is_object() && events != joined.end() ? std::move(*events) : json(json::value_t::discarded);
  }
  if (!text.starts_with('[')) return json(json::value_t::discarded);
  if (json whole = parse(text); !whole.is_discarded()) return whole;
  std::size_t const last = text.rfind("},\n");
  if (last == std::string::npos) return json(json::value_t::discarded);
  text.resize(last + 1);
  return parse(text + "]");
}

}  // namespace record
