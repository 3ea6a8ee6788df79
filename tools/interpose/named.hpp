// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts for the values of an enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace interpose {

template <class Enum>
struct named {
  Enum value;
  std::string_view text;
};

// Row i is that of value i; in any other order, a table does not compile.
template <class Enum, std::size_t Rows>
class names {
 public:
  consteval names(std::array<named<Enum>, Rows> const& rows) {
    for (std::size_t i = 0; i < Rows; ++i) {
      if (rows[i].value != static_cast<Enum>(i)) throw "a row is not in the place of its value";
      texts_[i] = rows[i].text;
    }
  }
  static constexpr std::size_t size() { return Rows; }
  constexpr std::string_view operator[](Enum value) const { return texts_[static_cast<std::size_t>(value)]; }

 private:
  std::array<std::string_view, Rows> texts_{};
};

}  // namespace interpose
