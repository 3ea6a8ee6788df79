// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of tune/find.hpp.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unistd.h>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "tutti/core/error.hpp"
#include "tutti/core/file.hpp"
#include "tutti/core/text.hpp"
#include "tutti/tune/find.hpp"
#include "tutti/tune/shipped.hpp"
#include "tutti/tune/text.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string processor_in(std::string_view text) {
  auto const value_of = [&](std::string_view key) -> std::string_view {
    std::size_t const at = text.find(key);
    if (at == text.npos) return {};
    std::string_view const line = text.substr(at, text.find('\n', at) - at);
    std::size_t const colon = line.find(": ");
    return colon == line.npos ? std::string_view() : line.substr(colon + 2);
  };
  if (auto const name = value_of("model name"); !name.empty()) return std::string(name);
  if (auto const part = value_of("CPU part"); !part.empty())
    return join({"processor ", value_of("CPU implementer"), " ", part});
  return "unknown processor";
}

TUTTI_INLINE std::string this_machine() {
  return join({processor_in(text_of_file("/proc/cpuinfo")), ", ", ::sysconf(_SC_NPROCESSORS_ONLN), " cores"});
}

TUTTI_INLINE std::size_t find_shipped_table() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return 0;
  unsigned const words[] = {b, d, c};
  char vendor[sizeof words];
  std::memcpy(vendor, words, sizeof words);
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return 0;
  unsigned const family = a >> 8 & 0xf, extended = family == 0xf ? a >> 20 & 0xff : 0;
  return shipped_for({{vendor, sizeof vendor}, family + extended});
#else
  return 0;
#endif
}

TUTTI_INLINE std::string usual_tuning_path() {
  if (char const* const config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config == '/')
    return join({config, "/tutti/tuning"});
  if (char const* const home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return join({home, "/.config/tutti/tuning"});
  return {};
}

TUTTI_INLINE std::optional<found_file> find_tuning_file(bool usual_too) {
  char const* const named = std::getenv("TUTTI_TUNING");
  if (named != nullptr ? *named == '\0' : !usual_too) return {};
  std::string const path = named != nullptr ? named : usual_tuning_path();
  if (path.empty()) return {};
  if (auto text = read_file(path)) return found_file{path, std::move(*text)};
  if (named == nullptr && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) return {};
  throw error({.code = error_code::bad_argument,
               .what = join({"the tuning table ", path, " cannot be read: ", std::strerror(errno)}),
               .way_out = "write it with `tutti-tune`, or set TUTTI_TUNING to another file, or to an empty value"});
}

TUTTI_INLINE device_limits find_device_limits() {
  auto const file = find_tuning_file(true);
  return file ? parse_table(file->text, file->path).devices : device_limits{};
}

}  // namespace tutti::detail
