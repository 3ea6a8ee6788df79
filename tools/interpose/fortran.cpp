// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Fortran libraries are known by their names.
#include "fortran.hpp"

#include <algorithm>
#include <array>
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

int add_library(dl_phdr_info* info, std::size_t, void* list) {
  std::string_view const file = info->dlpi_name;
  if (std::ranges::none_of(names, [&](std::string_view name) { return file.find(name) != file.npos; })) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    auto const& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    std::uintptr_t const begin = info->dlpi_addr + part.p_vaddr;
    static_cast<std::vector<range>*>(list)->push_back({begin, begin + part.p_memsz});
  }
  return 0;
}

std::vector<range> code_of_fortran_libraries() {
  std::vector<range> out;
  ::dl_iterate_phdr(&add_library, &out);
  return out;
}

}  // namespace

bool is_in_fortran_library(void const* code) {
  static std::vector<range> const all = code_of_fortran_libraries();
  auto const address = reinterpret_cast<std::uintptr_t>(code);
  for (range const& one : all)
    if (address >= one.begin && address < one.end) return true;
  return false;
}

void* find_in_mpi(char const* name) {
  void* const out = ::dlsym(RTLD_NEXT, name);
  if (out != nullptr) return out;
  std::fprintf(stderr, "tutti: the MPI of this program has no function %s; run it without libtutti-mpi.so\n", name);
  std::exit(EXIT_FAILURE);
}

}  // namespace interpose
