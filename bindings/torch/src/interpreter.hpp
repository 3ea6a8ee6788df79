// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lock of the Python interpreter.
#pragma once

#include <torch/csrc/python_headers.h>

namespace tutti_torch {

// Without the lock, if this thread has it: another thread may need it to end what this one waits for.
class without_interpreter_lock {
 public:
  without_interpreter_lock() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released_ = PyEval_SaveThread();
  }
  without_interpreter_lock(without_interpreter_lock const&) = delete;
  without_interpreter_lock& operator=(without_interpreter_lock const&) = delete;
  ~without_interpreter_lock() {
    if (released_ != nullptr) PyEval_RestoreThread(released_);
  }

 private:
  PyThreadState* released_ = nullptr;
};

}  // namespace tutti_torch
