// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the #include edges of a header tree and compares them with the layers that its README declares.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace architecture {

// Text by path, relative to include/tutti; and what tutti::compiled and tutti::cuda_compiled are compiled from.
using tree = std::map<std::string, std::string>;

inline tree read_tree(std::filesystem::path const& source) {
  tree out;
  auto const add = [&](std::filesystem::path const& path, std::filesystem::path const& root) {
    std::ifstream file(path);
    out[path.lexically_relative(root).generic_string()] = {std::istreambuf_iterator<char>(file), {}};
  };
  std::filesystem::path const root = source / "include/tutti";
  for (auto const& entry : std::filesystem::recursive_directory_iterator(root)) {
    auto const kind = entry.path().extension();
    if (kind == ".hpp" || kind == ".cuh" || kind == ".md") add(entry.path(), root);
  }
  for (char const* path : {"src/definitions.cpp", "src/cuda/definitions.cu"}) add(source / path, source);
  return out;
}

inline bool is_header(std::string const& path) { return path.ends_with(".hpp") || path.ends_with(".cuh"); }

// A layer is a folder, as transport/mpi is; empty for a header at the top, such as tutti.hpp.
inline std::string layer_of(std::string const& path) {
  auto const slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// The definitions of x.hpp are in x_impl.hpp, which is a part of it: x.hpp includes it unless they are compiled elsewhere. So are those
// of x.cuh in x_impl.cuh.
inline std::string whole_of(std::string const& path) {
  static std::regex const definitions("_impl[.](hpp|cuh)$");
  return std::regex_replace(path, definitions, ".$1");
}

// An umbrella holds comments, includes and blank lines, and nothing else.
inline bool only_includes(std::string const& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && !line.starts_with("//") && line != "#pragma once" && !line.starts_with("#include "))
      return false;
  return true;
}

struct page {
  std::map<std::string, std::set<std::string>> may_include;
  std::vector<std::string> problems;
};

// The block that starts with ```layers in README.md: `layer: layers that it may include`, each below those it names, so
// that no circle can be declared.
inline page read_page(tree const& files) {
  page out;
  auto const readme = files.find("README.md");
  std::istringstream text(readme == files.end() ? "" : readme->second);
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      inside = !inside && line == "```layers";
      continue;
    }
    if (!inside) continue;
    auto const colon = line.find(':');
    std::string const layer = line.substr(0, colon);
    if (colon == std::string::npos || out.may_include.contains(layer)) {
      out.problems.push_back("README.md: cannot read the line \"" + line + "\"");
      continue;
    }
    std::set<std::string> allowed;
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word; allowed.insert(word))
      if (!out.may_include.contains(word))
        out.problems.push_back("README.md: " + layer + " names " + word + ", which is not above it");
    out.may_include[layer] = allowed;
  }
  if (out.may_include.empty()) out.problems.push_back("README.md: there is no block ```layers");
  return out;
}

// The headers of the tree that a header includes. Reports a problem for every include of our own that is written
// differently.
inline std::vector<std::string> own_includes(std::string const& path, tree const& files,
                                             std::vector<std::string>& problems) {
  static std::regex const directive(R"re(^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"])re");
  std::vector<std::string> out;
  std::istringstream text(files.at(path));
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, directive)) continue;
    bool const quoted = match[1] == "\"";
    std::string const what = match[2];
    bool const ours = what.starts_with("tutti/");
    if (quoted != ours)
      problems.push_back(path + ": " + what + ": our own headers are \"tutti/...\", all others <...>");
    else if (ours && !files.contains(what.substr(6)))
      problems.push_back(path + ": includes " + what + ", which does not exist");
    else if (ours) out.push_back(what.substr(6));
  }
  return out;
}

// Every way in which the tree differs from its page; empty for a tree in order.
inline std::vector<std::string> problems_of(tree const& files) {
  page const declared = read_page(files);
  std::vector<std::string> problems = declared.problems;
  std::map<std::string, std::vector<std::string>> edges;

  for (auto const& [path, text] : files) {
    if (!is_header(path)) continue;
    if (!text.starts_with("// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"))
      problems.push_back(path + ": does not begin with the SPDX line");
    if (text.find("\n#pragma once\n") == std::string::npos) problems.push_back(path + ": has no #pragma once");

    if (std::string const whole = whole_of(path); whole != path) {
      std::string const compiled = path.ends_with(".cuh") ? "src/cuda/definitions.cu" : "src/definitions.cpp";
      if (!files.contains(whole))
        problems.push_back(path + ": there is no " + whole + ", whose definitions it could hold");
      for (std::string const& file : {whole, compiled})
        if (auto const found = files.find(file);
            found != files.end() && found->second.find("\n#include \"tutti/" + path + "\"\n") == std::string::npos)
          problems.push_back(file + ": does not include " + path);
    }

    std::vector<std::string> const included = own_includes(path, files, problems);
    for (std::string const& target : included)
      if (whole_of(target) != whole_of(path)) edges[whole_of(path)].push_back(whole_of(target));
    std::string const from = layer_of(path);
    if (!from.empty() && !declared.may_include.contains(from)) {
      problems.push_back(path + ": the layer " + from + " is not on the page");
      continue;
    }
    if (from.empty() && !only_includes(text)) problems.push_back(path + ": an umbrella may do nothing but include");
    for (std::string const& target : included) {
      std::string const to = layer_of(target);
      // An umbrella may include any layer but the analysis, which nobody should compile who did not name it.
      bool const allowed = from.empty() ? to != "analyze" : to == from || declared.may_include.at(from).contains(to);
      if (!allowed) problems.push_back(path + ": includes " + target + ", an arrow that the page does not have");
    }
  }

  // Depth first: a header that is met again while its own includes are being followed closes a circle.
  enum class state { unseen, open, done };
  std::map<std::string, state> seen;
  std::function<void(std::string const&)> const follow = [&](std::string const& path) {
    seen[path] = state::open;
    for (std::string const& target : edges[path]) {
      if (seen[target] == state::open) problems.push_back(path + ": includes " + target + " in a circle");
      if (seen[target] == state::unseen) follow(target);
    }
    seen[path] = state::done;
  };
  for (auto const& [path, text] : files)
    if (is_header(path) && seen[whole_of(path)] == state::unseen) follow(whole_of(path));
  return problems;
}

}  // namespace architecture
