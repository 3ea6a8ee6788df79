// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a type comes from a template.
#pragma once

namespace tutti::detail {

// Of a template without constraints: a compiler may refuse another one as the argument.
template <class T, template <class...> class Of>
inline constexpr bool is_a = false;
template <template <class...> class Of, class... Arguments>
inline constexpr bool is_a<Of<Arguments...>, Of> = true;

}  // namespace tutti::detail
