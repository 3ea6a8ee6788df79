// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sentences out of parts: one function that is compiled once, where a chain of + would be inlined everywhere.
#pragma once

#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti::detail {

// A part of a sentence: text or a number. Without a destructor, or the compiler would spend half a second on the clean-up of
// sentences that are never said.
class text_part {
 public:
  text_part(char const* text) : view_(text) {}
  text_part(std::string_view text) : view_(text) {}
  text_part(std::string const& text) : view_(text) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  text_part(Number n) {
    if constexpr (std::is_floating_point_v<Number>) write(static_cast<double>(n));
    else if constexpr (std::is_signed_v<Number>) write(static_cast<long long>(n));
    else write(static_cast<unsigned long long>(n));
  }
  text_part(text_part const&) = delete;
  text_part& operator=(text_part const&) = delete;

  std::string_view view() const { return view_; }

 private:
  [[gnu::noinline, gnu::cold]] void write(long long n) { taken(std::snprintf(number_, sizeof number_, "%lld", n)); }
  [[gnu::noinline, gnu::cold]] void write(unsigned long long n) {
    taken(std::snprintf(number_, sizeof number_, "%llu", n));
  }
  [[gnu::noinline, gnu::cold]] void write(double n) { taken(std::snprintf(number_, sizeof number_, "%g", n)); }
  void taken(int length) { view_ = {number_, static_cast<std::size_t>(length)}; }

  char number_[24];
  std::string_view view_;
};

// join({"rank ", 3, " of ", size})
[[gnu::noinline, gnu::cold]] inline std::string join(std::initializer_list<text_part> parts) {
  std::string out;
  for (text_part const& part : parts) out += part.view();
  return out;
}

}  // namespace tutti::detail
