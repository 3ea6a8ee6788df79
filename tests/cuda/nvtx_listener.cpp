// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that NVTX loads in place of a profiler (NVTX_INJECTION64_PATH). It writes a line for each range that starts
// or ends to the file NVTX_LISTENER_LOG.
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <nvtx3/nvToolsExt.h>

namespace {

std::FILE* const out = std::fopen(std::getenv("NVTX_LISTENER_LOG"), "a");
std::atomic<nvtxRangeId_t> ranges{0};

nvtxDomainHandle_t NVTX_API create_domain(char const* name) {
  std::fprintf(out, "domain %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(out);
}
nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t, nvtxEventAttributes_t const* what) {
  nvtxRangeId_t const id = ++ranges;
  std::fprintf(out, "start %" PRIu64 ", %" PRIu64 " bytes: %s\n", id, what->payload.ullValue, what->message.ascii);
  return id;
}
void NVTX_API end(nvtxDomainHandle_t, nvtxRangeId_t id) { std::fprintf(out, "end %" PRIu64 "\n", id); }

template <class F>
void set(NvtxFunctionTable table, std::size_t which, F function) {
  *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  auto const* const callbacks = static_cast<NvtxExportTableCallbacks const*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  set(table, NVTX_CBID_CORE2_DomainCreateA, &create_domain);
  set(table, NVTX_CBID_CORE2_DomainRangeStartEx, &start);
  set(table, NVTX_CBID_CORE2_DomainRangeEnd, &end);
  return 1;
}
