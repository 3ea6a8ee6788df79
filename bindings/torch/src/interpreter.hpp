// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lock of the Python interpreter, and what is asked with it.
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/python_headers.h>
#include <unistd.h>

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

// Whether this thread of Python is in an `except` or `finally` because of an exception.
inline bool python_handles_exception() {
  if (Py_IsInitialized() == 0) return false;
  auto const held = PyGILState_Ensure();
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_GetExcInfo(&type, &value, &trace);
  bool const handles = value != nullptr && value != Py_None;
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyGILState_Release(held);
  return handles;
}

// For a wait: runs the program's handlers of signals that have come, and throws what they raise, such as KeyboardInterrupt. Python runs
// them in its main thread, so a wait of another does nothing.
inline void run_signal_handlers() {
  if (::getpid() != ::gettid() || Py_IsInitialized() == 0) return;
  pybind11::gil_scoped_acquire const held;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace tutti_torch
