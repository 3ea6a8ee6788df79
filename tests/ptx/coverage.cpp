// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "ptx/module.hpp"

namespace tutti::testing::ptx {

namespace {

// The part of a path that tells files of one name apart.
std::string shortened(std::string const& path) {
  for (char const* const folder : {"/include/", "/tests/"})
    if (auto const at = path.rfind(folder); at != path.npos) return path.substr(at + std::strlen(folder));
  return path.substr(path.rfind('/') + 1);
}

// The line `.loc 2 23 5, function_name .., inlined_at 3 40 7` gives "tutti/device/model/flags.hpp:23, cuda/ipc.cu:40".
std::string place_in_source(module const& of, int line) {
  if (line < 0) return {};
  std::string const& text = of.lines[static_cast<std::size_t>(line)];
  std::string out;
  for (std::size_t at = text.find(".loc"); at != text.npos; at = text.find("inlined_at", at + 1)) {
    char* end = nullptr;
    int const file = static_cast<int>(std::strtol(text.c_str() + text.find_first_of("0123456789", at), &end, 10));
    long const number = std::strtol(end, nullptr, 10);
    auto const found = of.files.find(file);
    std::string const path = found != of.files.end() ? found->second : "?";
    if (!out.empty()) out += ", ";
    out += shortened(path) + ":" + std::to_string(number);
  }
  return out;
}

void add_callees(module const& of, std::size_t caller, std::set<std::size_t>& to) {
  if (!to.insert(caller).second) return;
  for (instruction const& i : of.functions[caller].body)
    if (i.calls) add_callees(of, static_cast<std::size_t>(i.target), to);
}

// A kernel that was not launched.
bool is_idle(function const& f) {
  return f.is_kernel && std::ranges::none_of(f.body, [](instruction const& i) { return i.executed; });
}

}  // namespace

void write_coverage(module const& of, std::ostream& out) {
  std::set<std::size_t> used;
  for (std::size_t k = 0; k < of.functions.size(); ++k)
    if (is_idle(of.functions[k])) out << nlohmann::json{{"idle", of.functions[k].name}} << '\n';
    else if (of.functions[k].is_kernel) add_callees(of, k, used);
  for (std::size_t const k : used) {
    function const& f = of.functions[k];
    nlohmann::json missed = nlohmann::json::object(), calls = nlohmann::json::array();
    for (std::size_t at = 0; at < f.body.size(); ++at) {
      instruction const& i = f.body[at];
      if (i.calls) calls.push_back(of.functions[static_cast<std::size_t>(i.target)].name);
      if (!i.executed)
        missed[std::to_string(at)] = {of.lines[static_cast<std::size_t>(i.line)], place_in_source(of, i.source)};
    }
    out << nlohmann::json{{"name", f.name},
                          {"kernel", f.is_kernel},
                          {"calls", calls},
                          {"instructions", f.body.size()},
                          {"missed", missed}}
        << '\n';
  }
}

}  // namespace tutti::testing::ptx
