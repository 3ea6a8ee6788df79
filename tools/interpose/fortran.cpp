// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Fortran libraries are known by their names.
#include "fortran.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <string_view>
#include <vector>

namespace interpose {
namespace {

// Open MPI's, MPICH's, and MPICH's as Debian calls it.
constexpr std::array<std::string_view, 3> names = {"/libmpi_mpifh", "/libmpifort", "/libmpichfort"};

struct range {
  std::uintptr_t begin, end;
};

// The executable parts of a library.
void add_code(dl_phdr_info const& info, std::vector<range>& to) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    auto const& part = info.dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    std::uintptr_t const begin = info.dlpi_addr + part.p_vaddr;
    to.push_back({begin, begin + part.p_memsz});
  }
}
bool lies_in(std::vector<range> const& all, void const* code) {
  auto const address = reinterpret_cast<std::uintptr_t>(code);
  return std::ranges::any_of(all, [&](range const& one) { return address >= one.begin && address < one.end; });
}

// Of the libraries that were loaded when this was made.
struct loaded_code {
  std::uint64_t loads = 0;  // of libraries, so far
  std::vector<range> fortran, own;

  static loaded_code const* find() {
    auto* const out = new loaded_code;  // never deleted, because destructors of the program may call MPI
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* to) {
          auto& found = *static_cast<loaded_code*>(to);
          found.loads = info->dlpi_adds;
          std::string_view const file = info->dlpi_name;
          if (std::ranges::any_of(names, [&](std::string_view name) { return file.find(name) != file.npos; }))
            add_code(*info, found.fortran);
          std::vector<range> code;
          add_code(*info, code);
          if (lies_in(code, reinterpret_cast<void const*>(&loaded_code::find))) found.own = code;
          return 0;
        },
        out);
    return out;
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
loaded_code const& known_code() {
  loaded_code const* const before = known.load(std::memory_order_acquire);
  return before != nullptr ? *before : find_code();
}

}  // namespace

bool is_in_this_library(void const* code) { return lies_in(known_code().own, code); }

// A program may load a Fortran library at any time, such as a module of Python.
bool is_in_fortran_library(void const* code) {
  loaded_code const& now = known_code();
  if (lies_in(now.fortran, code)) return true;
  if (lies_in(now.own, code) || loads_so_far() == now.loads) return false;
  return lies_in(find_code().fortran, code);
}

void* find_in_mpi(char const* name) {
  void* const out = ::dlsym(RTLD_NEXT, name);
  if (out != nullptr) return out;
  std::fprintf(stderr, "tutti: the MPI of this program has no function %s; run it without libtutti-mpi.so\n", name);
  std::exit(EXIT_FAILURE);
}

}  // namespace interpose
