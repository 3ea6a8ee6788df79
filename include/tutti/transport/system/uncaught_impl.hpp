// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/uncaught.hpp.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <new>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/system/uncaught.hpp"

namespace tutti::detail {

// Of this process. The page stays mapped to its end, past that of the communicator.
struct uncaught_errors {
  // The first error that was printed in full: a hash of its text << 32 | the rank, plus 1; 0: none.
  std::atomic<std::uint64_t>* told = nullptr;
  int rank = 0;
  std::terminate_handler usual = nullptr;
};
inline uncaught_errors uncaught{};

inline std::uint64_t own_entry(std::string_view text) {
  return hash_of(text) << 32 | (static_cast<std::uint32_t>(uncaught.rank) + 1);
}
// Returns the entry that is there already, or 0 if `own` is the first.
inline std::uint64_t enter(std::uint64_t own) {
  std::uint64_t first = 0;
  uncaught.told->compare_exchange_strong(first, own);
  return first;
}
inline int teller(std::uint64_t told) { return static_cast<int>(static_cast<std::uint32_t>(told)) - 1; }
inline bool tells_enough(std::uint64_t told, std::uint64_t own, int peer) {
  return told >> 32 == own >> 32 || teller(told) == peer;
}

[[noreturn]] TUTTI_INLINE void end_with_uncaught() {
  try {
    if (std::exception_ptr const e = std::current_exception()) std::rethrow_exception(e);
  } catch (error const& e) {
    std::uint64_t const own = own_entry(e.happened()), first = enter(own);
    std::string line = e.what();
    if (first != 0 && tells_enough(first, own, e.peer())) {
      // A mismatch names one of two ranks, which need not be the wrong one.
      bool const is_certain = e.peer() >= 0 && e.peer() != e.rank() && e.code() != error_code::mismatch;
      std::string const cause = is_certain ? join({", because of rank ", e.peer()}) : "";
      line = join({"tutti: rank ", uncaught.rank, " ends too (", name(e.code()), cause, "); see the error of rank ",
                   teller(first)});
    }
    std::fprintf(stderr, "%s\n", line.c_str());
    if (e.code() == error_code::revoked && e.peer() != e.rank())  // that rank is about to end with its own exit code
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::abort();
  } catch (...) {
  }
  uncaught.usual();
  std::abort();
}

TUTTI_INLINE void share_uncaught_errors([[maybe_unused]] descriptor const& file, [[maybe_unused]] std::size_t offset,
                                        [[maybe_unused]] int rank) noexcept {
#if defined(__GLIBCXX__)
  if (uncaught.told != nullptr || std::get_terminate() != __gnu_cxx::__verbose_terminate_handler) return;
  void* const at = ::mmap(nullptr, offset + sizeof *uncaught.told, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return;
  auto* const told = reinterpret_cast<std::atomic<std::uint64_t>*>(static_cast<std::byte*>(at) + offset);
  uncaught = {told, rank, std::set_terminate(&end_with_uncaught)};
#endif
}

inline constexpr std::string_view name_of_uncaught = "tutti-uncaught";

TUTTI_INLINE int file_of_uncaught_errors() noexcept {
  if (uncaught.told != nullptr) return -1;
  static descriptor const file = [] {
    descriptor made(::memfd_create(name_of_uncaught.data(), MFD_CLOEXEC));
    return made && ::ftruncate(made.get(), sizeof *uncaught.told) == 0 ? std::move(made) : descriptor();
  }();
  return file.get();
}

TUTTI_INLINE void share_uncaught_errors_with(pid_t keeper, int file, int rank) noexcept {
  if (file < 0 || uncaught.told != nullptr) return;
  try {
    descriptor const opened(::open(join({"/proc/", keeper, "/fd/", file}).c_str(), O_RDWR | O_CLOEXEC));
    // The process may have closed it and opened another file under this number.
    std::array<char, 64> path{};
    ssize_t const length = ::readlink(join({"/proc/self/fd/", opened.get()}).c_str(), path.data(), path.size());
    if (length <= 0 || std::string_view(path.data(), static_cast<std::size_t>(length)) !=
                           join({"/memfd:", name_of_uncaught, " (deleted)"}))
      return;
    share_uncaught_errors(opened, 0, rank);
  } catch (std::bad_alloc const&) {  // this rank prints its errors in full
  }
}

TUTTI_INLINE void count_as_printed(std::string_view text) noexcept {
  if (uncaught.told != nullptr) enter(own_entry(text));
}

}  // namespace tutti::detail
