// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The libraries of an MPI are known by their names, and its main one by a function, too.
#include "callers.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <iterator>
#include <link.h>
#include <string_view>
#include <vector>

namespace interpose {
namespace {

// The beginnings of the names of files: MPICH's library, Open MPI's, and the parts of that. With the dot, because libmpi_mpifh.so and
// libmpifort.so are for Fortran.
constexpr std::array<std::string_view, 7> names = {"libmpi.",    "libmpich.", "libopen-pal", "libopen-rte",
                                                   "liboshmem.", "mca_",      "libmca_"};

enum class kind { other, mpi, here };
struct range {
  std::uintptr_t begin, end;
  kind of;
};

std::uintptr_t address_of(void const* code) { return reinterpret_cast<std::uintptr_t>(code); }

// Calls f(begin, end) with the executable parts of a library.
template <class F>
void for_code(dl_phdr_info const& info, F&& f) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    auto const& part = info.dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    std::uintptr_t const begin = info.dlpi_addr + part.p_vaddr;
    f(begin, begin + part.p_memsz);
  }
}
bool has(dl_phdr_info const& info, void const* code) {
  bool out = false;
  for_code(info, [&](std::uintptr_t begin, std::uintptr_t end) {
    out |= address_of(code) >= begin && address_of(code) < end;
  });
  return out;
}

kind kind_of(dl_phdr_info const& info, void const* here, void const* mpi) {
  if (has(info, here)) return kind::here;
  std::string_view file = info.dlpi_name;
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  bool const named = std::ranges::any_of(names, [&](std::string_view name) { return file.starts_with(name); });
  return named || has(info, mpi) ? kind::mpi : kind::other;
}

// Of the program and the libraries that were loaded when this was made, in the order of addresses.
struct loaded_code {
  std::uint64_t loads = 0;  // of libraries, so far
  void* mpi = find_in_mpi("PMPI_Initialized");
  std::vector<range> all{};

  static loaded_code const* find() {
    auto* const out = new loaded_code;  // never deleted, because destructors of the program may call MPI
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* to) {
          auto& found = *static_cast<loaded_code*>(to);
          found.loads = info->dlpi_adds;
          kind const of = kind_of(*info, reinterpret_cast<void const*>(&loaded_code::find), found.mpi);
          for_code(*info, [&](std::uintptr_t begin, std::uintptr_t end) { found.all.push_back({begin, end, of}); });
          return 0;
        },
        out);
    std::ranges::sort(out->all, {}, &range::begin);
    return out;
  }
  range const* at(void const* code) const {
    auto const next = std::ranges::upper_bound(all, address_of(code), {}, &range::begin);
    return next != all.begin() && address_of(code) < std::prev(next)->end ? &*std::prev(next) : nullptr;
  }
};

std::uint64_t loads_so_far() {
  std::uint64_t out = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<std::uint64_t*>(to) = info->dlpi_adds;
        return 1;  // all have the same number
      },
      &out);
  return out;
}

std::atomic<loaded_code const*> known{nullptr};

loaded_code const& find_code() {
  loaded_code const* const found = loaded_code::find();
  known.store(found, std::memory_order_release);
  return *found;
}

// A program may load a library at any time, such as a module of Python, or generate code.
kind kind_at(void const* code) {
  loaded_code const* const before = known.load(std::memory_order_acquire);
  loaded_code const& now = before != nullptr ? *before : find_code();
  range const* found = now.at(code);
  if (found == nullptr && loads_so_far() != now.loads) found = find_code().at(code);
  return found != nullptr ? found->of : kind::other;
}

}  // namespace

bool is_in_mpi_or_here(void const* code) { return kind_at(code) != kind::other; }
bool is_in_this_library(void const* code) { return kind_at(code) == kind::here; }

void* find_in_mpi(char const* name) {
  void* const out = ::dlsym(RTLD_NEXT, name);
  if (out != nullptr) return out;
  std::fprintf(stderr, "tutti: the MPI of this program has no function %s; run it without libtutti-mpi.so\n", name);
  std::exit(EXIT_FAILURE);
}

}  // namespace interpose
