// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds sentences from parts with one function, because a chain of + would be inlined at every use. Reads numbers, and cuts texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// A part of a sentence: text or a number. It has no destructor, because the cleanup code of rarely built sentences
// would take the compiler half a second.
class text_part {
 public:
  text_part(char const* text) : view_(text) {}
  text_part(std::string_view text) : view_(text) {}
  text_part(std::string const& text) : view_(text) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  text_part(Number n) : text_part(static_cast<widest<Number>>(n)) {}
  [[gnu::cold]] text_part(long long n);
  [[gnu::cold]] text_part(unsigned long long n);
  [[gnu::cold]] text_part(double n);
  text_part(text_part const&) = delete;
  text_part& operator=(text_part const&) = delete;

  std::string_view view() const { return view_; }

 private:
  template <class Number>
  using widest = std::conditional_t<std::is_floating_point_v<Number>, double,
                                    std::conditional_t<std::is_signed_v<Number>, long long, unsigned long long>>;

  char number_[24];
  std::string_view view_;
};

// join({"rank ", 3, " of ", size})
[[gnu::cold]] std::string join(std::initializer_list<text_part> parts);
[[gnu::cold]] void append(std::string& to, std::initializer_list<text_part> parts);

// Reads the decimal number at the start of a text. Returns how many digits it has; 0 if there is none, or if it exceeds `most`.
// std::from_chars would be compiled again for each type of number.
[[gnu::cold]] std::size_t read_number(std::string_view text, std::uint64_t most, std::uint64_t& out) noexcept;

// Copies as many whole UTF-8 characters as there is room for, and a zero after them.
[[gnu::cold]] void write_terminated(std::span<char> to, std::string_view text) noexcept;

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/core/text_impl.hpp"
#endif
