// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The name of a type as the compiler spells it, and its hash: for messages and fingerprints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti::detail {
template <class T>
constexpr std::string_view signature() {
  return __PRETTY_FUNCTION__;
}

// The text around the name is the same for every T, so one known name measures it.
inline constexpr std::string_view void_signature = signature<void>();
inline constexpr std::size_t name_begin = void_signature.find("void");
inline constexpr std::size_t name_margin = void_signature.size() - std::string_view{"void"}.size();
static_assert(name_begin != std::string_view::npos, "this compiler does not spell the type in __PRETTY_FUNCTION__");

// "float", "tutti::sum". Compilers differ in the spelling of a few types ("long unsigned int", "unsigned long").
template <class T>
constexpr std::string_view type_name() {
  std::string_view const all = detail::signature<T>();
  return all.substr(detail::name_begin, all.size() - detail::name_margin);
}

// FNV-1a; identifies a name on other ranks.
constexpr std::uint32_t name_id(std::string_view name) {
  std::uint32_t hash = 2166136261u;
  for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

// A hash of the name and the size. Equal on all ranks if their programs are built by one compiler; a fingerprint, not a
// proof. consteval, because a compiler may otherwise evaluate it at every call.
template <class T>
consteval std::uint32_t type_id() {
  return (name_id(type_name<T>()) ^ static_cast<std::uint32_t>(sizeof(T))) * 16777619u;
}

static_assert(type_name<float>() == "float");

}  // namespace tutti::detail
