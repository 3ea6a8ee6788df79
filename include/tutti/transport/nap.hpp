// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Naps of a rank whose wait may end with an exception.
#pragma once

#include <exception>

namespace tutti::detail {

// Naps as the transport does. Throws what `ready` has thrown, which must not leave nap() because that is noexcept.
template <class Transport, class Ready>
void nap_rethrowing(Transport& transport, Ready const& ready) {
  std::exception_ptr thrown;
  transport.nap([&]() noexcept {
    try {
      return ready();
    } catch (...) {
      thrown = std::current_exception();
      return true;
    }
  });
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace tutti::detail
