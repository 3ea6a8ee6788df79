// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that programs map by themselves, and teams, whose memory a switch reaches at once.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptx/runtime/runtime.hpp"

namespace tutti::testing::cuda {

namespace {

using runtime_handle = CUmemGenericAllocationHandle;
constexpr std::size_t granularity = 8192;
char const* const team_name = "ptx-team";

runtime_handle add_handle(runtime::handle const& what) {
  runtime& here = runtime::instance();
  here.handles[++here.last_handle] = what;
  return here.last_handle;
}
CUresult create_memory(runtime_handle* out, std::size_t bytes, CUmemAllocationProp const* how, unsigned long long) {
  auto const held = lock();
  if (bytes % granularity != 0) return CUDA_ERROR_INVALID_VALUE;
  int const file = ::memfd_create("ptx", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = add_handle({file, bytes, how->location.id});
  return CUDA_SUCCESS;
}
runtime::team* map_team(runtime_handle of, int file) {
  void* const at = ::mmap(nullptr, runtime::team::bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : runtime::instance().teams[of] = static_cast<runtime::team*>(at);
}
CUresult create_team(runtime_handle* out, CUmulticastObjectProp const* how) {
  auto const held = lock();
  if (how->size % granularity != 0 || how->numDevices > ptx::machine::gpus_at_most) return CUDA_ERROR_INVALID_VALUE;
  int const file = ::memfd_create(team_name, MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, runtime::team::bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = add_handle({file, how->size, 0});
  map_team(*out, file)->size = how->numDevices;
  return CUDA_SUCCESS;
}
CUresult get_granularity_of_team(std::size_t* out, CUmulticastObjectProp const*, CUmulticastGranularity_flags) {
  *out = granularity;
  return CUDA_SUCCESS;
}
CUresult get_granularity_of_memory(std::size_t* out, CUmemAllocationProp const*, CUmemAllocationGranularity_flags) {
  *out = granularity / 2;
  return CUDA_SUCCESS;
}
CUresult add_to_team(runtime_handle team, CUdevice) {
  auto const held = lock();
  runtime::team& of = *runtime::instance().teams.at(team);
  return of.added.fetch_add(1) < of.size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
// CUDA would wait until all members have been added.
bool is_complete(runtime::team const& of) { return of.added == of.size; }
CUresult bind_to_team(runtime_handle team, std::size_t, runtime_handle memory, std::size_t, std::size_t,
                      unsigned long long) {
  auto const held = lock();
  runtime& here = runtime::instance();
  runtime::team& of = *here.teams.at(team);
  runtime::handle const& what = here.handles.at(memory);
  if (!is_complete(of)) return CUDA_ERROR_ILLEGAL_STATE;
  if (what.gpu == 1 && number_from_environment("PTX_SWITCH", 0) == 2) return CUDA_ERROR_SYSTEM_NOT_READY;
  runtime::team::member& mine = of.members[what.gpu];
  if (mine.process != 0) return CUDA_ERROR_INVALID_VALUE;
  mine.file = what.file;
  mine.process = ::getpid();
  return CUDA_SUCCESS;
}
CUresult unbind_from_team(runtime_handle, CUdevice, std::size_t, std::size_t) { return CUDA_SUCCESS; }
CUresult export_handle(void* out, runtime_handle from, CUmemAllocationHandleType, unsigned long long) {
  auto const held = lock();
  runtime& here = runtime::instance();
  runtime::handle const& what = here.handles.at(from);
  if (what.mapped != nullptr) here.machine().memory().share(what.mapped);
  *static_cast<int*>(out) = ::fcntl(what.file, F_DUPFD_CLOEXEC, 0);
  return *static_cast<int*>(out) >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
CUresult import_handle(runtime_handle* out, void* from, CUmemAllocationHandleType) {
  auto const held = lock();
  int const file = ::fcntl(static_cast<int>(reinterpret_cast<std::uintptr_t>(from)), F_DUPFD_CLOEXEC, 0);
  struct stat about{};
  if (file < 0 || ::fstat(file, &about) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *out = add_handle({file, static_cast<std::size_t>(about.st_size), current_gpu, true});
  char name[64]{};
  std::string const link = "/proc/self/fd/" + std::to_string(file);
  if (::readlink(link.c_str(), name, sizeof name - 1) > 0 &&
      std::string_view(name).find(team_name) != std::string::npos)
    map_team(*out, file);
  return CUDA_SUCCESS;
}
CUresult release_handle(runtime_handle handle) {
  auto const held = lock();
  runtime& here = runtime::instance();
  if (auto const team = here.teams.find(handle); team != here.teams.end()) {
    ::munmap(team->second, runtime::team::bytes);
    here.teams.erase(team);
  }
  ::close(here.handles.at(handle).file);
  here.handles.erase(handle);
  return CUDA_SUCCESS;
}
CUresult reserve_addresses(CUdeviceptr* out, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  void* const at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *out = reinterpret_cast<CUdeviceptr>(at);
  return at != MAP_FAILED ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult free_addresses(CUdeviceptr at, std::size_t bytes) {
  ::munmap(reinterpret_cast<void*>(at), bytes);
  return CUDA_SUCCESS;
}
// Where this process sees memory of a member.
std::byte* find_member(runtime::team::member const& of, std::size_t bytes, CUdeviceptr team) {
  runtime& here = runtime::instance();
  if (of.process == ::getpid()) {
    for (auto const& [number, known] : here.handles)
      if (known.file == of.file) return known.mapped;
    return nullptr;
  }
  std::string const path = "/proc/" + std::to_string(of.process) + "/fd/" + std::to_string(of.file);
  int const file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (at == MAP_FAILED) return nullptr;
  here.machine().memory().add(at, bytes, {.cached = true, .written = true, .foreign = true});
  here.opened_members[team].push_back(at);
  return static_cast<std::byte*>(at);
}
CUresult map_memory(CUdeviceptr at, std::size_t bytes, std::size_t, runtime_handle handle, unsigned long long) {
  auto const held = lock();
  runtime& here = runtime::instance();
  auto* const begin = reinterpret_cast<std::byte*>(at);
  if (auto const team = here.teams.find(handle); team != here.teams.end()) {
    if (!is_complete(*team->second)) return CUDA_ERROR_ILLEGAL_STATE;
    std::vector<std::uint64_t> members;
    for (runtime::team::member const& m : team->second->members) {
      if (m.process == 0) continue;
      std::byte* const found = find_member(m, bytes, at);
      if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
      members.push_back(reinterpret_cast<std::uint64_t>(found));
    }
    // Programs may bind memory later, but the machine wants it now.
    if (members.size() != team->second->size) return CUDA_ERROR_ILLEGAL_STATE;
    here.machine().memory().add_team(begin, bytes, std::move(members));
    return CUDA_SUCCESS;
  }
  runtime::handle& what = here.handles.at(handle);
  if (::mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, what.file, 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  what.mapped = begin;
  here.machine().memory().add(begin, bytes, {.cached = true, .written = what.imported, .foreign = what.imported});
  here.allocations[begin] = {what.file, bytes, what.gpu};
  return CUDA_SUCCESS;
}
CUresult unmap_memory(CUdeviceptr at, std::size_t bytes) {
  auto const held = lock();
  runtime& here = runtime::instance();
  auto* const begin = reinterpret_cast<void*>(at);
  here.machine().memory().remove(begin);
  here.allocations.erase(begin);
  if (auto const members = here.opened_members.extract(at); !members.empty())
    for (void* const m : members.mapped()) {
      here.machine().memory().remove(m);
      ::munmap(m, bytes);
    }
  ::mmap(begin, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr, std::size_t, CUmemAccessDesc const*, std::size_t) { return CUDA_SUCCESS; }

}  // namespace

driver_functions functions_of_mapped_memory() {
  return {{"cuMemCreate", reinterpret_cast<void*>(&create_memory)},
          {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&get_granularity_of_memory)},
          {"cuMemRelease", reinterpret_cast<void*>(&release_handle)},
          {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve_addresses)},
          {"cuMemAddressFree", reinterpret_cast<void*>(&free_addresses)},
          {"cuMemMap", reinterpret_cast<void*>(&map_memory)},
          {"cuMemUnmap", reinterpret_cast<void*>(&unmap_memory)},
          {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)},
          {"cuMemExportToShareableHandle", reinterpret_cast<void*>(&export_handle)},
          {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(&import_handle)},
          {"cuMulticastCreate", reinterpret_cast<void*>(&create_team)},
          {"cuMulticastGetGranularity", reinterpret_cast<void*>(&get_granularity_of_team)},
          {"cuMulticastAddDevice", reinterpret_cast<void*>(&add_to_team)},
          {"cuMulticastBindMem", reinterpret_cast<void*>(&bind_to_team)},
          {"cuMulticastUnbind", reinterpret_cast<void*>(&unbind_from_team)}};
}

}  // namespace tutti::testing::cuda
