// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine code of the kernels: compiled without warnings, without spills, with 128-bit loads and stores.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct kernel {
  int registers = 0, local_bytes = 0;  // reported by the assembler
  int loads = 0, stores = 0;           // of 128 bits in global memory; reported by the disassembler
  int local_accesses = 0;
};
using kernels = std::map<std::string, kernel>;

struct output {
  std::string text;
  int status = -1;
};
output run(std::string const& command) {
  output out;
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) out.text += buffer;
  out.status = pclose(pipe);
  return out;
}

// "combine_pass<2, float const*, float, fused<sum, unchanged, unchanged> >"
std::string short_name(std::string const& mangled) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> const full{abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
                                                    std::free};
  std::string name = full ? full.get() : mangled;
  name = name.substr(0, name.rfind(">("));
  name = std::regex_replace(
      name,
      std::regex{"^void tutti::detail::run_(work|work_unless|together)<|tutti::|detail::|\\(anonymous namespace\\)::"},
      "");
  return name;
}

template <class F>
void for_each_line(std::string const& text, F const& f) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t const end = std::min(text.find('\n', begin), text.size());
    f(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

kernels compiled_for(std::string const& architecture) {
  output const nvcc =
      run(NVCC " -Xptxas -v -arch=" + architecture + " -cubin -o kernels." + architecture + ".cubin " KERNELS);
  if (nvcc.status != 0) FAIL(nvcc.text);
  std::regex const head{".*Compiling entry function '(\\w+)'.*"}, frame{" *(\\d+) bytes stack frame.*"},
      used{".*Used (\\d+) registers.*"};
  kernels out;
  std::string name;
  for_each_line(nvcc.text, [&](std::string const& line) {
    std::smatch match;
    if (std::regex_match(line, match, head)) name = short_name(match[1]);
    else if (std::regex_match(line, match, frame)) out[name].local_bytes = std::stoi(match[1]);
    else if (std::regex_match(line, match, used)) out[name].registers = std::stoi(match[1]);
  });
  return out;
}

// Reads the files that compiled_for has left in the folder.
kernels disassembled(std::string const& architecture) {
  output const sass = run(NVDISASM " -c kernels." + architecture + ".cubin");
  if (sass.status != 0) FAIL(sass.text);
  std::regex const head{"\\.text\\.(\\w+):"}, instruction{".*\\*/ +(?:@!?U?P\\w+ )? *([A-Z0-9_.]+).*"};
  kernels out;
  kernel* now = nullptr;
  for_each_line(sass.text, [&](std::string const& line) {
    std::smatch match;
    if (std::regex_match(line, match, head)) now = &out[short_name(match[1])];
    if (now == nullptr || !std::regex_match(line, match, instruction)) return;
    std::string const what = match[1];
    bool const wide = what.find(".128") != std::string::npos;
    now->loads += (what.starts_with("LDG") || what.starts_with("LD.")) && wide;
    now->stores += what.starts_with("STG") && wide;
    now->local_accesses += what.starts_with("LDL") || what.starts_with("STL");
  });
  return out;
}

constexpr std::size_t number_of_kernels = 62;

// Each takes nvcc a minute.
std::vector<std::string> architectures() {
  char const* const named = std::getenv("TUTTI_TEST_ARCHITECTURES");
  std::istringstream words(named != nullptr ? named : "sm_90a");
  return {std::istream_iterator<std::string>(words), {}};
}

bool is_bad_example(std::string_view name) { return name == "spilling"; }
bool has_packets(std::string_view name) {
  return name.starts_with("packet_work<");
}  // whose accesses have 8 bytes twice
// Two blocks of it on a multiprocessor are enough.
bool waits_long(std::string_view name) {
  return name.starts_with("steps_work<") || name.starts_with("shots_work<") || has_packets(name);
}

// A table with two numbers per kernel.
void print(std::string const& architecture, kernels const& all, char const* heads, int kernel::* first,
           int kernel::* second) {
  std::printf("| %s | %s |\n|---|---:|---:|\n", architecture.c_str(), heads);
  for (auto const& [name, k] : all) std::printf("| `%s` | %d | %d |\n", name.c_str(), k.*first, k.*second);
}

// The number of sources that a pass of this name reads at once: its first template argument; 1 if that is 0.
int fan_in(std::string const& name) {
  std::smatch match;
  if (!std::regex_search(name, match, std::regex{"^(?:beating<)?combine_pass<(\\d+),"})) return 1;
  return std::max(std::stoi(match[1]), 1);
}

}  // namespace

TEST_CASE("kernels compile without a warning and stay in registers") {
  for (std::string const& architecture : architectures()) {
    CAPTURE(architecture);
    kernels const all = compiled_for(architecture);
    print(architecture, all, "registers | local bytes", &kernel::registers, &kernel::local_bytes);
    CHECK(all.size() == number_of_kernels);
    for (auto const& [name, k] : all) {
      CAPTURE(name);
      CHECK(k.registers > 0);
      CHECK(k.registers <= (waits_long(name) ? 128 : 64));
      CHECK((k.local_bytes > 0) == is_bad_example(name));
    }
  }
}

TEST_CASE("kernels load and store 128 bits at once, and nothing local") {
  for (std::string const& architecture : architectures()) {
    CAPTURE(architecture);
    kernels const all = disassembled(architecture);
    print(architecture, all, "128-bit loads | stores", &kernel::loads, &kernel::stores);
    CHECK(all.size() == number_of_kernels);
    for (auto const& [name, k] : all) {
      CAPTURE(name);
      CHECK((k.local_accesses > 0) == is_bad_example(name));
      if (is_bad_example(name) || has_packets(name) || name == "norm_work" || name == "word_copy")
        continue;  // few numbers
      bool const narrow_results =
          name.starts_with("rows_work<bfloat16, float8_e4m3") || name.starts_with("squares_work<");
      CHECK((k.stores > 0 || narrow_results));
      // If types differ, only the widest has packs of 128 bits.
      bool const narrow_sources = std::regex_search(name, std::regex{"float(16|8_e4m3) const\\*, float,"}) ||
                                  name.find("adam") != std::string::npos;
      CHECK(k.loads >= (narrow_sources ? 0 : fan_in(name)));
    }
  }
}

TEST_CASE("a minimal program has only the kernels that its call can use") {
  output const nvcc =
      run(NVCC " -arch=sm_80 --ptx " MINIMAL " -o minimal.ptx && grep -o '[.]entry [a-zA-Z0-9_]*' minimal.ptx");
  CAPTURE(nvcc.text);
  CHECK(nvcc.status == 0);
  // By 2 or any number of ranks; copies to the memory that others read, and of the fault word; packets; blocks that meet.
  CHECK(std::ranges::count(nvcc.text, '\n') == 6);
}
