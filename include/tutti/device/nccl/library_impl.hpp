// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/nccl/library.hpp.
#pragma once

#include <dlfcn.h>
#include <string_view>

#include "tutti/core/environment.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/nccl/library.hpp"

namespace tutti::detail::nccl {

TUTTI_INLINE library library::load() {
  constexpr int least_version = 21800;
  std::string_view const named = environment_variable("TUTTI_NCCL");
  std::string const file(named.empty() ? "libnccl.so.2" : named);
  auto const refuse = [](std::string what) {
    throw error({.code = error_code::system,
                 .what = std::move(what),
                 .way_out = "install NCCL 2.18 or later, or set TUTTI_NCCL to the path of its libnccl.so.2"});
  };
  if (file == "0") refuse("TUTTI_NCCL is 0");
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed, because NCCL has threads
  if (handle == nullptr) refuse(::dlerror());
  library out;
  auto const find = [&]<class F>(F*& function, char const* name) {
    function = reinterpret_cast<F*>(::dlsym(handle, name));
    if (function == nullptr) refuse(join({file, " has no function ", name}));
  };
  find(out.api.get_version, "ncclGetVersion");
  if (auto const r = out.api.get_version(&out.version); r != result::success)
    refuse(join({"ncclGetVersion returned ", static_cast<int>(r)}));
  if (out.version < least_version) refuse(join({"NCCL ", out.version_text(), " is older than 2.18"}));
  find(out.api.get_unique_id, "ncclGetUniqueId");
  find(out.api.init_rank, "ncclCommInitRankConfig");
  find(out.api.finalize, "ncclCommFinalize");
  find(out.api.destroy, "ncclCommDestroy");
  find(out.api.abort, "ncclCommAbort");
  find(out.api.get_async_error, "ncclCommGetAsyncError");
  find(out.api.get_error_string, "ncclGetErrorString");
  find(out.api.get_last_error, "ncclGetLastError");
  find(out.api.group_start, "ncclGroupStart");
  find(out.api.group_end, "ncclGroupEnd");
  find(out.api.all_reduce, "ncclAllReduce");
  find(out.api.reduce, "ncclReduce");
  find(out.api.reduce_scatter, "ncclReduceScatter");
  find(out.api.broadcast, "ncclBroadcast");
  find(out.api.all_gather, "ncclAllGather");
  find(out.api.send, "ncclSend");
  find(out.api.recv, "ncclRecv");
  return out;
}

TUTTI_INLINE std::string library::version_text() const {
  int const major = version < 10000 ? 1000 : 10000;  // until 2.8, 2804 was 2.8.4
  return join({version / major, ".", version % major / 100, ".", version % 100});
}

TUTTI_INLINE std::string library::text_of(result what, communicator* comm) const {
  char const* const more = api.get_last_error(comm);
  std::string out = join({"NCCL reports: ", api.get_error_string(what)});
  if (more != nullptr && *more != '\0') out += join({" (", more, ")"});
  return out;
}

}  // namespace tutti::detail::nccl
