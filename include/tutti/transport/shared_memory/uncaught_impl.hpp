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
#include "tutti/core/hash.hpp"
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

inline int teller(std::uint64_t told) { return static_cast<int>(static_cast<std::uint32_t>(told)) - 1; }
inline bool tells_enough(std::uint64_t told, std::uint64_t text, int peer) {
  return told >> 32 == text >> 32 || teller(told) == peer;
}

[[noreturn]] TUTTI_INLINE void end_with_uncaught() {
  try {
    if (std::exception_ptr const e = std::current_exception()) std::rethrow_exception(e);
  } catch (error const& e) {
    std::uint64_t first = 0;
    std::uint64_t const text = hash_of(e.happened()) << 32,
                        own = text | (static_cast<std::uint32_t>(uncaught.rank) + 1);
    std::string line = e.what();
    if (!uncaught.job->told.compare_exchange_strong(first, own) && tells_enough(first, text, e.peer())) {
      std::string const cause = e.peer() < 0 || e.peer() == e.rank() ? "" : join({", because of rank ", e.peer()});
      line = join({"tutti: rank ", uncaught.rank, " ends too (", name(e.code()), cause, "); see the error of rank ",
                   teller(first)});
    }
    std::fprintf(stderr, "%s\n", line.c_str());
    std::abort();
  } catch (...) {
  }
  uncaught.usual();
  std::abort();
}

TUTTI_INLINE void share_uncaught_errors([[maybe_unused]] descriptor const& segment_file,
                                        [[maybe_unused]] int rank) noexcept {
#if defined(__GLIBCXX__)
  if (uncaught.job != nullptr || std::get_terminate() != __gnu_cxx::__verbose_terminate_handler) return;
  void* const at = ::mmap(nullptr, sizeof(segment_header), PROT_READ | PROT_WRITE, MAP_SHARED, segment_file.get(), 0);
  if (at == MAP_FAILED) return;
  uncaught = {static_cast<segment_header*>(at), rank, std::set_terminate(&end_with_uncaught)};
#endif
}

}  // namespace tutti::detail
