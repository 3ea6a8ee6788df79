// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes a tuning table as a file that tutti finds, or as a header that programs include.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "tutti/core/error.hpp"
#include "tutti/tune/text.hpp"

namespace tuning {

namespace fs = std::filesystem;

// A file that replaces its target in one step, so that readers see the old contents or all of the new ones. It is opened before the
// measurement, so that a path that cannot be written does not cost a measurement.
class draft {
 public:
  explicit draft(std::string path) : target_(std::move(path)), here_(fmt::format("{}.{}", target_, ::getpid())) {
    std::error_code problem;
    if (fs::path const folder = fs::path(target_).parent_path(); !folder.empty())
      fs::create_directories(folder, problem);
    file_.open(here_);
    if (!file_) fail();
  }
  draft(draft const&) = delete;
  draft& operator=(draft const&) = delete;
  ~draft() {
    std::error_code ignored;
    if (!done_) fs::remove(here_, ignored);
  }

  void commit(std::string const& text) {
    file_ << text;
    file_.close();
    std::error_code problem;
    if (file_) fs::rename(here_, target_, problem);
    if (!file_ || problem) fail();
    done_ = true;
  }

 private:
  [[noreturn]] void fail() const {
    throw tutti::error({.code = tutti::error_code::system,
                        .what = fmt::format("cannot write {}", target_),
                        .way_out = "name a file in a folder that you may write to and that has enough space"});
  }

  std::string target_, here_;
  std::ofstream file_;
  bool done_ = false;
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
