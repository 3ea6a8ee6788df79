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
#include <string_view>
#include <sys/stat.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace record {

using json = nlohmann::json;

// A file, or a text under test.
struct source {
  std::string name, text;
};

// Traces of long runs are large, and some pipes have no end.
inline constexpr std::size_t max_bytes = std::size_t{4} << 30;

// Whether it begins as a record or a trace does.
inline bool may_be_json(std::string_view text) {
  std::size_t const first = text.find_first_not_of(" \t\r\n");
  return text.empty() || (first != text.npos && (text[first] == '{' || text[first] == '['));
}

inline source read(std::string const& path) {
  struct closing {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, closing> const file(std::fopen(path.c_str(), "rb"));
  struct stat kind{};
  if (file && ::fstat(::fileno(file.get()), &kind) == 0 && (S_ISCHR(kind.st_mode) || S_ISBLK(kind.st_mode)))
    throw std::runtime_error(fmt::format("cannot read {}: it is a device; name a file or a pipe", path));
  std::string text;
  char part[65536];
  for (std::size_t n = 1; file && n > 0 && text.size() <= max_bytes && may_be_json(text); text.append(part, n))
    n = std::fread(part, 1, sizeof part, file.get());
  bool const too_large = text.size() > max_bytes;
  if (!file || std::ferror(file.get()) != 0 || too_large)
    throw std::runtime_error(fmt::format("cannot read {}: {}", path, std::strerror(too_large ? EFBIG : errno)));
  if (text.empty()) throw std::runtime_error(fmt::format("{} is empty; the disk may have been full", path));
  return {path, std::move(text)};
}

// Whether brackets are nested deeper than in any file of tutti: printing a value takes a function call for each level.
inline bool is_deep(std::string_view text) {
  static constexpr int max_depth = 8;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char const c = text[i];
    if (c == '"') in_string = !in_string;
    else if (in_string) i += c == '\\' ? 1 : 0;
    else if (c == '[' || c == '{') ++depth;
    else if (c == ']' || c == '}') --depth;
    if (depth > max_depth) return true;
  }
  return false;
}

// JSON of few levels; otherwise discarded.
inline json parse(std::string_view text) {
  return is_deep(text) ? json(json::value_t::discarded) : json::parse(text, nullptr, false);
}

// A record or a trace. A trace breaks off if the disk was full; then its events up to the last complete one are used.
inline json parse_file(std::string_view text) {
  json whole = parse(text);
  std::size_t const last = whole.is_discarded() && text.starts_with('[') ? text.rfind("},\n") : std::string::npos;
  return last == std::string::npos ? whole : parse(std::string(text.substr(0, last + 1)) + "]");
}

inline bool is_record(json const& what) { return what.is_object() && what.contains("calls") && what.contains("peers"); }

// The events of a rank, or of all ranks that were joined; null if this is not a trace.
inline json* events_in(json& file) {
  if (file.is_array()) return &file;
  if (!file.is_object()) return nullptr;
  auto const events = file.find("traceEvents");
  return events != file.end() && events->is_array() ? &*events : nullptr;
}

}  // namespace record
