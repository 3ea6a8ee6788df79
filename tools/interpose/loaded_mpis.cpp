// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library needs its MPI, so where the program needs another, both are loaded, each with a PMPI_Initialized. This
// library does not define that function.
#include "loaded_mpis.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <string>
#include <string_view>
#include <vector>

namespace interpose {
namespace {

#if defined(OPEN_MPI)
constexpr std::string_view built_for = "Open MPI";
#elif defined(MPICH_VERSION)
constexpr std::string_view built_for = "MPICH";
#else
constexpr std::string_view built_for = "another MPI";
#endif

// The file of the PMPI_Initialized that an object or the libraries that it needs define; empty if there is none.
std::string mpi_of(char const* object) {
  void* const handle = ::dlopen(object, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return {};
  Dl_info found{};
  void* const init = ::dlsym(handle, "PMPI_Initialized");
  bool const known = init != nullptr && ::dladdr(init, &found) != 0;
  ::dlclose(handle);
  return known ? found.dli_fname : "";
}

std::vector<std::string> loaded_mpis() {
  std::vector<std::string> objects, out;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* list) {
        static_cast<std::vector<std::string>*>(list)->emplace_back(info->dlpi_name);
        return 0;
      },
      &objects);
  for (std::string const& object : objects) {
    if (object.empty()) continue;  // the program itself, whose libraries are in the list
    std::string mpi = mpi_of(object.c_str());
    if (!mpi.empty() && std::ranges::find(out, mpi) == out.end()) out.push_back(std::move(mpi));
  }
  return out;
}

}  // namespace

void expect_one_mpi() {
  std::vector<std::string> const mpis = loaded_mpis();
  if (mpis.size() < 2) return;
  std::string list;
  for (std::string const& mpi : mpis) list += (list.empty() ? "" : " and ") + mpi;
  std::fprintf(stderr,
               "tutti: this libtutti-mpi.so was built for %s, but two MPIs are loaded (%s); preload the one "
               "that was built for the MPI of the program\n",
               built_for.data(), list.c_str());
  std::exit(EXIT_FAILURE);
}

}  // namespace interpose
