// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/uncaught.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <sys/mman.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/shared_memory/uncaught.hpp"

namespace tutti::detail {

// Of this process. The segment's first page stays mapped to its end, past that of the communicator.
struct uncaught_errors {
  segment_header* job = nullptr;
  int rank = 0;
  std::terminate_handler usual = nullptr;
};
inline uncaught_errors uncaught{};

[[noreturn]] TUTTI_INLINE void end_with_uncaught() {
  try {
    if (std::exception_ptr const e = std::current_exception()) std::rethrow_exception(e);
  } catch (error const& e) {
    std::uint32_t first = 0;
    std::string line = e.what();
    if (!uncaught.job->told.compare_exchange_strong(first, static_cast<std::uint32_t>(uncaught.rank) + 1)) {
      std::string const cause = e.peer() < 0 ? "" : join({", because of rank ", e.peer()});
      line = join({"tutti: rank ", uncaught.rank, " ends too (", name(e.code()), cause, "); see the error of rank ",
                   first - 1});
    }
    std::fprintf(stderr, "%s\n", line.c_str());
    std::abort();
  } catch (...) {
  }
  uncaught.usual();
  std::abort();
}

TUTTI_INLINE void share_uncaught_errors(descriptor const& segment_file, int rank) noexcept {
#if defined(__GLIBCXX__)
  if (uncaught.job != nullptr || std::get_terminate() != __gnu_cxx::__verbose_terminate_handler) return;
  void* const at = ::mmap(nullptr, sizeof(segment_header), PROT_READ | PROT_WRITE, MAP_SHARED, segment_file.get(), 0);
  if (at == MAP_FAILED) return;
  uncaught = {static_cast<segment_header*>(at), rank, std::set_terminate(&end_with_uncaught)};
#else
  static_cast<void>(segment_file), static_cast<void>(rank);
#endif
}

}  // namespace tutti::detail
