// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lock of the Python interpreter.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>

namespace tutti_torch {

// Without the lock, if this thread has it: another thread may need it to end what this one waits for.
class without_interpreter_lock {
 public:
  without_interpreter_lock() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released_.emplace();
  }

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

}  // namespace tutti_torch
