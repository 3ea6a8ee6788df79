// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program of the ranks: starts it in a new process, and says what may be wrong if that fails.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "options.hpp"
#include "say.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace launcher {

class program {
 public:
  // The program gets this mask of signals, the environment of this process, to which this adds variables about the job, and, without
  // --prefix, its output.
  program(options& o, tutti::detail::survival_line const& survival, sigset_t const& mask)
      : name_(o.command[0]), has_pipes_(o.prefix), mask_(mask) {
    for (std::string& word : o.command) words_.push_back(word.data());
    words_.push_back(nullptr);
    set_variable("TUTTI_SIZE", std::to_string(o.ranks));
    set_variable("TUTTI_JOB", random_name());
    set_variable(tutti::detail::elastic_variable, o.is_elastic() ? fmt::format("{}:{}", o.min_ranks, o.ranks) : "");
    survival.pass_on();
    if (!has_pipes_ || ::getrlimit(RLIMIT_NOFILE, &files_before_) != 0) return;
    rlimit const all{files_before_.rlim_max, files_before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &all);
  }

  struct start_result {
    int no_room = 0;                            // the reason in errno if the system has no room for a process
    int exit_code = 0;                          // of this program, if it cannot start the other one, which it has said
    pid_t process = -1;                         // also where exit_code is not 0
    tutti::detail::descriptor out{}, errors{};  // from which to read, with --prefix
  };
  // Between fork and exec, nothing may allocate or wait for a lock: a thread of this process may have held one that nobody unlocks in
  // the child. So all that the child needs is made before.
  start_result start(int rank, bool joins) const {
    auto [out, out_end] = has_pipes_ ? make_pipe() : pipe_ends();
    auto [errors, errors_end] = has_pipes_ ? make_pipe() : pipe_ends();
    auto [trouble, trouble_end] = make_pipe();  // closed by a successful exec
    if (!trouble || (has_pipes_ && (!out || !errors))) return {.no_room = errno};
    set_variable("TUTTI_RANK", std::to_string(rank));
    set_variable(tutti::detail::join_variable, joins ? std::to_string(rank) : "");
    pid_t const parent = ::getpid();
    pid_t const process = ::fork();
    if (process < 0) return {.no_room = errno};
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      if (has_pipes_) ::dup2(out_end.get(), STDOUT_FILENO), ::dup2(errors_end.get(), STDERR_FILENO);
      if (rank > 0) ::dup2(no_input_.get(), STDIN_FILENO);
      if (has_pipes_) ::setrlimit(RLIMIT_NOFILE, &files_before_);
      sigprocmask(SIG_SETMASK, &mask_, nullptr);
      ::execvp(words_[0], words_.data());
      int const code = errno;
      [[maybe_unused]] auto const told = ::write(trouble_end.get(), &code, sizeof code);
      ::_exit(127);
    }
    start_result started{.process = process, .out = std::move(out), .errors = std::move(errors)};
    trouble_end = tutti::detail::descriptor();
    int code = 0;
    if (::read(trouble.get(), &code, sizeof code) != sizeof code) return started;
    say("cannot start {}: {}{}", name_, std::strerror(code), advice(name_, code));
    started.exit_code = code == ENOENT ? 127 : 126;
    return started;
  }

  // How to make room for another process.
  std::string advice(int no_room) const {
    if (no_room == EMFILE)
      return fmt::format("; raise the limit of open files (ulimit -n){}",
                         has_pipes_ ? ", of which --prefix needs two for each rank" : "");
    return no_room == EAGAIN ? "; raise the limit of processes (ulimit -u)" : "";
  }

 private:
  using pipe_ends = std::pair<tutti::detail::descriptor, tutti::detail::descriptor>;

  // Without descriptors, and with the reason in errno, if there can be no more.
  static pipe_ends make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return {};
    return {tutti::detail::descriptor(ends[0]), tutti::detail::descriptor(ends[1])};
  }
  static void set_variable(char const* name, std::string const& value) {
    value.empty() ? ::unsetenv(name) : ::setenv(name, value.c_str(), 1);
  }
  static std::string random_name() {
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) give_up("getrandom");
    std::string out;
    for (unsigned char const b : bytes) out += fmt::format("{:02x}", b);
    return out;
  }
  // What may be wrong with a program that cannot be started.
  static std::string advice(std::string const& name, int code) {
    namespace fs = std::filesystem;
    std::error_code unknown;
    bool const is_path = name.find('/') != name.npos;
    fs::file_status const there = fs::status(name, unknown);
    if (code == ENOENT && !is_path)
      return fs::is_regular_file(there) ? fmt::format(" in PATH; write ./{} for the one in this folder", name)
                                        : " in PATH";
    if (code == ENOENT && fs::exists(there))
      return "; the file exists, but not the interpreter that its first line names, or the loader that it needs";
    if (code != EACCES) return {};
    if (fs::is_directory(there)) return "; it is a folder";
    if (!fs::is_regular_file(there)) return {};
    struct statvfs mount{};
    if (::statvfs(name.c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0)
      return "; its file system is mounted with noexec";
    return fmt::format("; make it executable: chmod +x {}", name);
  }

  std::string name_;
  std::vector<char*> words_;  // of the command, as exec wants them
  bool has_pipes_;
  sigset_t mask_;
  rlimit files_before_{};  // a rank gets the limit that this process had, which needs more files for the pipes
  tutti::detail::descriptor no_input_{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
};

}  // namespace launcher
