// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function of the caller, for functions that are compiled once instead of once for each lambda.
#pragma once

#include <concepts>
#include <memory>

namespace tutti::detail {

// Refers to what is called, which must outlive it.
template <class Signature>
class function_ref;
template <class R, class... A>
class function_ref<R(A...)> {
 public:
  template <class F>
    requires(!std::same_as<F, function_ref>)
  function_ref(F const& f) noexcept
      : f_{std::addressof(f)},
        call_{[](void const* what, A... a) -> R { return (*static_cast<F const*>(what))(a...); }} {}

  R operator()(A... a) const { return call_(f_, a...); }

 private:
  void const* f_;
  R (*call_)(void const*, A...);
};

}  // namespace tutti::detail
