// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes a tuning table as a file that tutti finds, or as a header that programs include.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "session.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/file.hpp"
#include "tutti/tune/text.hpp"

namespace tuning {

namespace fs = std::filesystem;

// A file that replaces its target in one step, so that readers see the old contents or all of the new ones. The folder is tried before
// the measurement, so that a path that cannot be written does not cost one. While it runs there is no file yet, which Ctrl-C would leave.
class draft {
 public:
  explicit draft(std::string const& path) : target_(resolved(path)), here_(fmt::format("{}.{}", target_, ::getpid())) {
    std::error_code problem;
    if (fs::path const folder = fs::path(target_).parent_path(); !folder.empty())
      fs::create_directories(folder, problem);
    write({});
    fs::remove(here_, problem);
  }
  draft(draft const&) = delete;
  draft& operator=(draft const&) = delete;

  std::string const& target() const { return target_; }

  void commit(std::string const& text) const {
    write(text);
    if (::rename(here_.c_str(), target_.c_str()) != 0) fail();
  }

 private:
  // The file behind a symbolic link. Throws for what is no file that could be replaced.
  static std::string resolved(std::string const& path) {
    if (path.empty())
      throw tutti::error({.code = tutti::error_code::bad_argument,
                          .what = "no output file is named",
                          .way_out = "pass one with --output; by default it is in XDG_CONFIG_HOME or HOME"});
    std::error_code problem;
    fs::file_status const there = fs::status(path, problem);
    if (fs::exists(there) && !fs::is_regular_file(there))
      throw tutti::error(
          {.code = tutti::error_code::bad_argument,
           .what = fmt::format("{} is a {}", path, fs::is_directory(there) ? "folder" : "device or pipe"),
           .way_out = "name a file, which is replaced if it exists"});
    fs::path const file = fs::weakly_canonical(fs::absolute(path), problem);
    return problem ? path : file.string();
  }

  // The text is on the disk before the file gets its name: otherwise a power failure could leave a name without it.
  void write(std::string const& text) const {
    errno = 0;
    std::FILE* const file = std::fopen(here_.c_str(), "w");
    if (file == nullptr) fail();
    bool const written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 &&
                         ::fsync(::fileno(file)) == 0;
    int const reason = errno;
    if (std::fclose(file) == 0 && written) return;
    if (!written) errno = reason;
    fail();
  }
  [[noreturn]] void fail() const {
    std::string const why = errno == 0 ? "" : fmt::format(": {}", std::strerror(errno));
    std::error_code ignored;
    fs::remove(here_, ignored);
    throw tutti::error({.code = tutti::error_code::system,
                        .what = fmt::format("cannot write {}{}", target_, why),
                        .way_out = "name a file in a folder that you may write to and that has enough space"});
  }

  std::string target_, here_;
};

// The files that a measurement writes.
struct drafts {
  explicit drafts(settings const& s) : table(s.output) {
    expect_table(table.target());
    if (!s.header.empty()) header.emplace(s.header);
    if (!s.results.empty()) times.emplace(s.results);
    auto const same = [](draft const& a, std::optional<draft> const& b) { return b && a.target() == b->target(); };
    if (same(table, header) || same(table, times) || (header && same(*header, times)))
      throw tutti::error({.code = tutti::error_code::bad_argument,
                          .what = "two of the output files are the same file",
                          .way_out = "name different files with --output, --header and --results"});
  }

  draft table;
  std::optional<draft> header{}, times{};

 private:
  // A table is replaced even if it cannot be read. Another file was probably named by mistake.
  static void expect_table(std::string const& path) {
    constexpr std::string_view begin = tutti::detail::tuning_version.substr(0, tutti::detail::tuning_version.find(' '));
    auto const there = tutti::detail::read_file(path);
    if (there && !there->empty() && !there->starts_with(begin))
      throw tutti::error({.code = tutti::error_code::bad_argument,
                          .what = fmt::format("{} is a file, but no tuning table, which begins with {}", path, begin),
                          .way_out = "name another file, or remove it"});
  }
};

inline std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char const c : text) out += c == '"' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
  return out + '"';
}

inline std::string initialiser(tutti::detail::costs const& c) {
  return fmt::format("{{.hop = {}, .message = {}, .sent = {}, .combined = {}}}", c.hop, c.message, c.sent, c.combined);
}

inline std::string initialiser(tutti::detail::link_times const& links) {
  std::string out;
  for (tutti::detail::link_time const& l : links.all)
    out += fmt::format("{}{{{}, {}}}", out.empty() ? "" : ", ", l.latency, l.byte);
  return out;
}

// A header that defines tutti::tables::<name>.
inline std::string to_header(tutti::detail::tuning_table const& t, std::string const& name) {
  std::string out = fmt::format(
      "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"
      "// Measured on {}, {}, by `{}`.\n"
      "#pragma once\n\n#include \"tutti/tune/table.hpp\"\n\nnamespace tutti::tables {{\n\n"
      "using detail::occupancy, detail::reach, detail::rule, detail::tuning_table;\n\n"
      "// clang-format off\ninline constexpr rule {}_rules[] = {{\n",
      t.machine, t.date, t.command, name);
  for (tutti::detail::rule const& r : t.rules)
    out += fmt::format(
        "  {{collective::{}, {}, {}, occupancy::{}, reach::{}, {}, algorithm_id::{}, protocol::{}, {}, {}}},\n",
        tutti::name(r.what), r.min_ranks, r.max_ranks, tutti::detail::name(r.cores), tutti::detail::name(r.memory),
        r.up_to == tutti::detail::rule::no_limit ? "rule::no_limit" : fmt::format("{}", r.up_to),
        tutti::name(r.algorithm), tutti::name(r.how), r.nanoseconds, r.measured_at);
  out += fmt::format(
      "}};\n// clang-format on\n\n"
      "inline constexpr tuning_table {} = {{\n    .machine = {},\n    .date = {},\n    .command = {},\n"
      "    .apart = {},\n    .crowded = {},\n    .rules = {}_rules,\n    .links = {{{{{{{}}}}}}},\n}};\n\n"
      "}}  // namespace tutti::tables\n",
      name, quoted(t.machine), quoted(t.date), quoted(t.command), initialiser(t.apart), initialiser(t.crowded), name,
      initialiser(t.links));
  return out;
}

}  // namespace tuning
