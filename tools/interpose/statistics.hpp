// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the program's calls by how they were carried out; TUTTI_MPI_STATS=1 prints the counts when MPI is finalized.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "decision.hpp"
#include "environment.hpp"
#include "tutti/core/text.hpp"

namespace interpose {

class statistics {
 public:
  bool wanted() const { return wanted_; }

  void ran(function f, std::size_t bytes) {
    if (!wanted_) return;
    row& r = of(f);
    r.ran.fetch_add(1, std::memory_order_relaxed);
    r.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void passed(function f, reason why) {
    if (wanted_) of(f).passed[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }

  // Whether there was a call.
  bool any() const {
    return std::ranges::any_of(rows_, [](row const& r) {
      return r.ran > 0 || std::ranges::any_of(r.passed, [](auto const& n) { return n > 0; });
    });
  }

  // One line per function that was called.
  std::string text() const {
    std::string out = line("function", "on tutti", "bytes", "passed to the MPI");
    for (std::size_t f = 0; f < rows_.size(); ++f) {
      row const& r = rows_[f];
      std::uint64_t passed = 0;
      std::string why;
      for (std::size_t i = 0; i < r.passed.size(); ++i) {
        if (r.passed[i] == 0) continue;
        passed += r.passed[i];
        why += tutti::detail::join({why.empty() ? ": " : ", ", reason_texts[static_cast<reason>(i)]});
      }
      if (r.ran + passed > 0)
        out += line(function_names[static_cast<function>(f)], std::to_string(r.ran), std::to_string(r.bytes),
                    std::to_string(passed) + why);
    }
    return out;
  }

 private:
  struct row {
    std::atomic<std::uint64_t> ran{0}, bytes{0};
    std::array<std::atomic<std::uint64_t>, reason_texts.size()> passed{};
  };

  row& of(function f) { return rows_[static_cast<std::size_t>(f)]; }
  static std::string line(std::string_view name, std::string_view ran, std::string_view bytes,
                          std::string_view passed) {
    auto const right = [](std::string_view text, std::size_t width) {
      return std::string(text.size() < width ? width - text.size() : 0, ' ').append(text);
    };
    std::string out("tutti: ");
    out.append(name).append(27 - name.size(), ' ');
    return out.append(right(ran, 10)).append(right(bytes, 16)).append("  ").append(passed).append("\n");
  }

  bool const wanted_ = is_switched_on("TUTTI_MPI_STATS");
  std::array<row, function_names.size()> rows_{};
};

inline statistics counted;

}  // namespace interpose
