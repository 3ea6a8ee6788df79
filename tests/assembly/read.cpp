// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner loops as machine code: built-in operations must have become packed instructions, without calls.
// labels: optimised
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct instruction {
  std::uint64_t address = 0;
  std::string text;                   // "addps  %xmm2,%xmm0"
  std::uint64_t target = UINT64_MAX;  // of a jump within the function
};
struct function {
  std::string name;
  std::vector<instruction> body;
};
using loop = std::vector<std::string>;

std::vector<function> disassembled(std::string const& object) {
  std::string const command = OBJDUMP " --disassemble --demangle --no-show-raw-insn --wide " + object;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const pipe{popen(command.c_str(), "r"), pclose};
  REQUIRE(pipe);
  // As GNU's objdump and LLVM's write it: "jne    c0 <f+0x20>" and "jne\t0xc0 <f+0x20>".
  std::regex const head{"^[0-9a-f]+ <(.*)>:$"}, line{"^ *([0-9a-f]+):\\s+(.*)$"},
      jump{"^j[a-z]+\\s+(?:0x)?([0-9a-f]+) <.*"};
  std::vector<function> out;
  std::smatch match;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr) {
    std::string const text{std::string_view{buffer}.substr(0, std::string_view{buffer}.find_last_not_of(" \n") + 1)};
    if (std::regex_match(text, match, head)) {
      out.push_back({match[1], {}});
    } else if (!out.empty() && std::regex_match(text, match, line)) {
      instruction next{std::stoull(match[1], nullptr, 16), match[2], UINT64_MAX};
      if (std::regex_match(next.text, match, jump)) next.target = std::stoull(match[1], nullptr, 16);
      out.back().body.push_back(next);
    }
  }
  return out;
}

// From the target of a backward jump to that jump, where no other such loop is inside.
std::vector<loop> innermost_loops(function const& f) {
  std::vector<loop> out;
  std::uint64_t inner = 0;  // the latest beginning of a loop that has ended
  for (std::size_t end = 0; end < f.body.size(); ++end) {
    std::uint64_t const begin = f.body[end].target;
    if (begin > f.body[end].address || begin < inner || begin < f.body[0].address) continue;
    inner = begin + 1;
    loop found;
    for (std::size_t i = 0; i <= end; ++i)
      if (f.body[i].address >= begin) found.push_back(f.body[i].text);
    out.push_back(found);
  }
  return out;
}

// The most instructions like `wanted` in an innermost loop without calls of a function whose name has these words.
int packed(std::vector<function> const& functions, char const* name, char const* wanted) {
  std::regex const named{name}, pattern{wanted};
  int most = -1;
  for (function const& f : functions) {
    if (!std::regex_search(f.name, named)) continue;
    for (loop const& body : innermost_loops(f)) {
      int here = 0;
      bool calls = false;
      for (std::string const& text : body) {
        calls = calls || text.starts_with("call");
        here += std::regex_search(text, pattern);
      }
      if (!calls && here > most) most = here;
    }
  }
  return most;
}

}  // namespace

TEST_CASE("built-in operations are loops of packed instructions") {
  std::vector<function> const functions = disassembled(LOOPS);
  struct expectation {
    char const *name, *instruction;
    int least;
  };
  // At least four in one turn: short packs, of one vector, are a loop too.
  for (auto const& [name, wanted, least] : {
           expectation{"detail::fold_packs_widest<[^(]*float, tutti::sum", "^vaddps.*%ymm", 4},
           {"detail::fold_packs_widest<[^(]*double, tutti::sum", "^vaddpd.*%ymm", 4},
           {"detail::fold_packs_widest<[^(]*int, tutti::max", "^vpmaxsd.*%ymm", 4},
           {"detail::fold_packs_widest<[^(]*unsigned char, tutti::sum", "^vpaddb.*%ymm", 4},
           {"detail::fold_packs_widest<[^(]*float, scale_and_add", "^vmulps.*%ymm", 4},
           {"detail::fold_packs_widest<[^(]*float, tutti::sum", "^vmovnt.*%ymm", 4},
           {"detail::fold_widest<[^(]*tutti::bfloat16", "^vaddps.*%ymm", 4},
           {"detail::fold_widest<[^(]*tutti::half", "^vaddps.*%ymm", 4},
           {"detail::fold_widest<[^(]*tutti::half", "^vcvtph2ps.*%ymm", 4},
           {"detail::fold_widest<[^(]*tutti::half", "^vcvtps2ph", 4},
           // For CPUs without AVX2.
           {"detail::fold_in_packs<[^(]*float, tutti::sum", "^addps", 4},
           {"detail::fold_in_packs<[^(]*double, tutti::sum", "^addpd", 4},
           {"detail::fold_in_packs<[^(]*int, tutti::max", "^pcmpgtd", 4},
           {"detail::fold_in_packs<[^(]*unsigned char, tutti::sum", "^paddb", 4},
           {"detail::fold_in_packs<[^(]*float, scale_and_add", "^mulps", 4},
           {"detail::fold_in_packs<[^(]*float, tutti::sum", "^movnt", 4},
           {"detail::fold_in_packs<[^(]*bfloat16, tutti::sum", "^addps", 4},
       }) {
    CAPTURE(std::string{name});
    CAPTURE(std::string{wanted});
    CHECK(packed(functions, name, wanted) >= least);
  }
  // A CPU with fused multiply-add must not give other bits than one without.
  CHECK(packed(functions, "fold_(packs_)?widest", "^vfn?m(add|sub)") == 0);
}

TEST_CASE("loops that are not of packed instructions are recognised") {
  std::vector<function> const functions = disassembled(LOOPS);
  CHECK(packed(functions, "^serial$", "^addss") >= 1);
  CHECK(packed(functions, "^serial$", "^addps") == 0);
  CHECK(packed(functions, "^calls$", "^mov") == -1);
  CHECK(packed(functions, "no such function", "^mov") == -1);
}
