// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every path that a page of the project names exists.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::set<std::string> const folders = {".ci",     "bench",     "bindings", "cmake", "docs", "examples",
                                       "include", "packaging", "src",      "tests", "tools"};
std::regex const source{R"((?!build/).*\w\.(hpp|cuh|cpp|cu|py|sh|md|cmake))"};

// The names of all files of the project, for names that a page gives without a folder.
std::set<std::string> file_names(fs::path const& root) {
  std::set<std::string> out;
  for (std::string const& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (auto const& entry : fs::recursive_directory_iterator(root / folder))
      out.insert(entry.path().filename().string());
  }
  return out;
}

// The words of a page that name a path: those that start with a folder of the project and, in `code` or as the target of a link
// outside of code blocks, names of source files. Words with placeholders, such as tests/<layer>/<name>.cpp, are left out.
std::vector<std::string> paths_of(std::string const& text) {
  static std::regex const block{"```[^]*?```"}, code{R"(`([^`\n]+)`|\]\(([^)#\n]+)\))"};
  static std::regex const in_folder{R"((^|[\s`(\[])((\.ci|[a-z]+)/[\w./*<-]*[\w*>]))"};
  std::vector<std::string> out;
  auto const add = [&](std::string const& word) {
    if (word.find_first_of("*<>$") == std::string::npos) out.push_back(word);
  };
  for (std::sregex_iterator i{text.begin(), text.end(), in_folder}, end; i != end; ++i)
    if (folders.contains((*i)[3])) add((*i)[2]);
  std::string const prose = std::regex_replace(text, block, "");
  for (std::sregex_iterator i{prose.begin(), prose.end(), code}, end; i != end; ++i) {
    std::string const word = (*i)[1].matched ? (*i)[1] : (*i)[2];
    if (std::regex_match(word, source) && word.find_first_of(" :") == std::string::npos) add(word);
  }
  return out;
}

// The paths that a page names and that do not exist from the root of the project, the folder of the page, include/ or include/tutti/.
std::vector<std::string> missing_paths(std::string const& text, fs::path const& root, fs::path const& page) {
  static std::set<std::string> const names = file_names(root);
  std::vector<std::string> out;
  for (std::string const& path : paths_of(text)) {
    std::array const places = {root / path, page.parent_path() / path, root / "include" / path,
                               root / "include/tutti" / path};
    bool const found = std::ranges::any_of(places, [](fs::path const& place) { return fs::exists(place); });
    bool const bare = path.find('/') == std::string::npos;
    if (!found && !(bare && names.contains(path))) out.push_back(path);
  }
  return out;
}

}  // namespace

TEST_CASE("every path that a page names exists") {
  fs::path const root = TUTTI_SOURCE;
  for (char const* name :
       {"README.md", "CONTRIBUTING.md", "include/tutti/README.md", "bench/README.md", "tools/interpose/README.md"}) {
    CAPTURE(name);
    fs::path const page = root / name;
    std::ifstream file(page);
    std::string const text{std::istreambuf_iterator<char>(file), {}};
    CHECK(!text.empty());
    for (std::string const& path : missing_paths(text, root, page)) FAIL_CHECK(path, " does not exist");
  }
}

TEST_CASE("a missing path is found") {
  fs::path const root = TUTTI_SOURCE;
  auto const missing = [&](char const* text) { return missing_paths(text, root, root / "README.md").size(); };
  CHECK(missing("Run tools/test, see `tests/CMakeLists.txt`, `test`, `registry.hpp` and [this](include/tutti).") == 0);
  CHECK(missing("```sh\ntools/nothing\n```") == 1);
  CHECK(missing("as in `algorithm/nothing.hpp`") == 1);
  CHECK(missing("as in `nothing.hpp`") == 1);
  CHECK(missing("see [this](nothing.md)") == 1);
  CHECK(missing("add `tests/<layer>/<name>.cpp`, or tests/support/nothing_*.hpp") == 0);
}
