// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sentences out of parts: one function that is compiled once, where a chain of + would be inlined everywhere.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tutti {

// A part of a sentence: text or a number.
class text_part {
 public:
  text_part(char const* text) : view_(text) {}
  text_part(std::string_view text) : view_(text) {}
  text_part(std::string const& text) : view_(text) {}
  template <class Integer>
    requires requires(Integer n) { std::to_string(n); }
  text_part(Integer n) : number_(std::to_string(n)), view_(number_) {}
  text_part(text_part const&) = delete;
  text_part& operator=(text_part const&) = delete;

  std::string_view view() const { return view_; }

 private:
  std::string number_{};
  std::string_view view_;
};

// join({"rank ", 3, " of ", size})
[[gnu::cold]] inline std::string join(std::initializer_list<text_part> parts) {
  std::string out;
  for (text_part const& part : parts) out += part.view();
  return out;
}

}  // namespace tutti
