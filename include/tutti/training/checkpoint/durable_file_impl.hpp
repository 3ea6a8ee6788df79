// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/checkpoint/durable_file.hpp.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti/core/crc32c.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/checkpoint/durable_file.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

[[noreturn, gnu::cold]] TUTTI_INLINE void cannot(char const* what, std::string const& path) {
  throw_system(join({"cannot ", what, " ", path}),
               "check the folder, its permissions and the space on its disk, and that no other job saves to it");
}

TUTTI_INLINE void flush_folder(std::string const& path) {
  descriptor const folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder && errno == EACCES) return;  // it may be written, but not read, so nobody can flush it
  // Some file systems flush folders by themselves and refuse to do it on demand.
  if (!folder || (::fsync(folder.get()) != 0 && errno != EINVAL && errno != ENOTSUP)) cannot("flush", path);
}

TUTTI_INLINE void make_folder(std::string const& path) {
  if (::mkdir(path.c_str(), 0777) != 0) cannot("create", path);
}

TUTTI_INLINE void make_durable_folder(std::string const& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    int const reason = errno;
    if (reason != ENOENT && reason != ENOTDIR) cannot("create", path);
    throw_system(join({"cannot create ", path}), "create the folder above it, or name another one", reason);
  }
  std::size_t const last = path.find_last_not_of('/'), slash = path.substr(0, last + 1).rfind('/');
  flush_folder(slash == path.npos ? "." : path.substr(0, slash + 1));
}

TUTTI_INLINE written_file write_durably(std::string const& folder, std::string const& name,
                                        std::span<std::span<std::byte const> const> parts) {
  // The checksum of a piece is computed while the piece is in a cache.
  static constexpr std::size_t piece = std::size_t{1} << 20;
  std::string const path = join({folder, "/", name}), fresh = path + ".new";
  written_file out;
  {
    descriptor const file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file) cannot("create", fresh);
    for (std::span<std::byte const> part : parts) {
      while (!part.empty()) {
        auto const now = part.first(std::min(part.size(), piece));
        ssize_t const written = ::write(file.get(), now.data(), now.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) cannot("write", fresh);
        auto const n = static_cast<std::size_t>(written);
        out.checksum = crc32c(now.first(n), out.checksum);
        out.bytes += n;
        part = part.subspan(n);
      }
    }
    if (::fsync(file.get()) != 0) cannot("flush", fresh);
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) cannot("rename", fresh);
  flush_folder(folder);
  return out;
}

TUTTI_INLINE descriptor open_to_read(std::string const& path) {
  descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0) cannot("read", path);
  if (!S_ISREG(info.st_mode)) throw error({.code = error_code::system, .what = join({path, " is not a file"})});
  return file;
}

TUTTI_INLINE written_file checksum_file(std::string const& path, std::span<char> head) {
  descriptor const file = open_to_read(path);
  std::vector<std::byte> buffer(std::size_t{1} << 18);
  written_file out;
  std::ranges::fill(head, '\0');
  while (true) {
    ssize_t const got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot("read", path);
    if (got == 0) return out;
    auto const n = static_cast<std::size_t>(got);
    if (out.bytes < head.size()) {
      std::size_t const at = out.bytes;
      std::memcpy(head.data() + at, buffer.data(), std::min(n, head.size() - at));
    }
    out.checksum = crc32c(std::span(buffer).first(n), out.checksum);
    out.bytes += n;
  }
}

TUTTI_INLINE void read_parts(std::string const& path, std::span<wanted_bytes const> parts) {
  descriptor const file = open_to_read(path);
  for (auto [offset, to] : parts)
    while (!to.empty()) {
      ssize_t const got = ::pread(file.get(), to.data(), to.size(), static_cast<::off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got == 0) errno = EIO;
      if (got <= 0) cannot("read", path);
      offset += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
}

}  // namespace tutti::detail
