// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts the ranks of one job on this machine and waits until all of them have ended.
//
// Ranks stay in the process group of tutti-run, so a terminal treats the job as one program: Ctrl-C and Ctrl-Z reach
// every rank, and rank 0 may read its input. tutti-run adopts orphaned descendants (PR_SET_CHILD_SUBREAPER), and kills those
// that still run when the last rank has ended.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "command_line.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/transport/shared_memory/shm.hpp"

namespace {

using tutti::detail::descriptor;
using clock_type = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto grace = 3s;             // after a failure, the other ranks have this long to report their own errors
constexpr auto termination_time = 5s;  // from SIGTERM to SIGKILL
constexpr int timed_out = 124;         // as timeout(1) does
constexpr std::array forwarded{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  fmt::print(stderr, "tutti-run: {}\n", fmt::format(format, std::forward<T>(values)...));
}

[[noreturn]] void give_up(std::string const& what) {
  say("{}: {}", what, std::strerror(errno));
  std::exit(1);
}

std::pair<descriptor, descriptor> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) give_up("cannot make a pipe");
  return {descriptor(ends[0]), descriptor(ends[1])};
}

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    ssize_t const written = ::write(to, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Forwards the output of a rank line by line, with the rank in front of each.
class output {
 public:
  output(descriptor from, int to, int rank) : from_(std::move(from)), to_(to), prefix_(fmt::format("[{}] ", rank)) {
    ::fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  }
  int handle() const { return from_.get(); }

  void forward() {
    char part[65536];
    for (ssize_t n; (n = ::read(from_.get(), part, sizeof part)) != 0;) {
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return;
      add({part, static_cast<std::size_t>(n)});
    }
    finish();
  }
  // Completes the last line if its newline is missing.
  void finish() {
    if (!line_.empty()) add("\n");
    from_ = descriptor();
  }

 private:
  void add(std::string_view text) {
    std::string lines;
    for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
      lines += prefix_ + line_;
      lines += text.substr(0, end + 1);
      line_.clear();
    }
    line_ += text;
    write_all(to_, lines);
  }

  descriptor from_;
  int to_;
  std::string prefix_;
  std::string line_;  // the incomplete last line
};

struct options {
  int ranks = 0;
  bool prefix = false;
  bool recovers = false;
  double seconds = 0;
  std::vector<std::string> command;
};

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) give_up("getrandom");
  std::string out;
  for (unsigned char const b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

class job {
 public:
  explicit job(options o) : options_(std::move(o)) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGCHLD);
    for (int const s : forwarded) sigaddset(&mine, s);
    sigprocmask(SIG_BLOCK, &mine, &signals_before_);
    signals_ = descriptor(::signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) give_up("signalfd");
  }

  int run() {
    std::string const name = random_name();
    if (options_.seconds > 0)
      limit_ = clock_type::now() +
               std::chrono::duration_cast<clock_type::duration>(std::chrono::duration<double>(options_.seconds));
    next_ = limit_;
    for (int r = 0; r < options_.ranks; ++r)
      if (int const code = start(r, name); code != 0) {
        kill_all(SIGKILL);
        end_orphans();
        return code;
      }
    while (std::ranges::any_of(ranks_, [](pid_t process) { return process > 0; })) wait_and_act();
    end_orphans();
    for (output& o : outputs_)
      if (o.handle() >= 0) o.forward(), o.finish();
    return options_.recovers && one_succeeded_ ? 0 : code_;
  }

 private:
  enum class stage { running, failed, terminating, killing };

  // Returns 0, or an exit code if the program cannot be started.
  int start(int r, std::string const& name) {
    auto [out, out_end] = options_.prefix ? make_pipe() : std::pair<descriptor, descriptor>{};
    auto [err, err_end] = options_.prefix ? make_pipe() : std::pair<descriptor, descriptor>{};
    auto [trouble, trouble_end] = make_pipe();  // closed by a successful exec
    pid_t const parent = ::getpid();
    pid_t const process = ::fork();
    if (process < 0) give_up(fmt::format("cannot fork rank {}", r));
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      if (options_.prefix) ::dup2(out_end.get(), STDOUT_FILENO), ::dup2(err_end.get(), STDERR_FILENO);
      if (r > 0) ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
      ::setenv("TUTTI_RANK", std::to_string(r).c_str(), 1);
      ::setenv("TUTTI_SIZE", std::to_string(options_.ranks).c_str(), 1);
      ::setenv("TUTTI_JOB", name.c_str(), 1);
      survival_.pass_on();
      sigprocmask(SIG_SETMASK, &signals_before_, nullptr);
      std::vector<char*> words;
      for (std::string& word : options_.command) words.push_back(word.data());
      words.push_back(nullptr);
      ::execvp(words[0], words.data());
      int const code = errno;
      [[maybe_unused]] auto const told = ::write(trouble_end.get(), &code, sizeof code);
      ::_exit(127);
    }
    ranks_.push_back(process);
    if (options_.prefix) {
      outputs_.emplace_back(std::move(out), STDOUT_FILENO, r);
      outputs_.emplace_back(std::move(err), STDERR_FILENO, r);
    }
    trouble_end = descriptor();
    int code = 0;
    if (::read(trouble.get(), &code, sizeof code) != sizeof code) return 0;
    say("cannot start {}: {}", options_.command[0], std::strerror(code));
    return code == ENOENT ? 127 : 126;
  }

  void wait_and_act() {
    std::vector<pollfd> waiting{{signals_.get(), POLLIN, 0}, {survival_.handle(), POLLIN, 0}};
    std::size_t const first_output = waiting.size();
    for (output const& o : outputs_) waiting.push_back({o.handle(), POLLIN, 0});
    int milliseconds = -1;
    if (next_) {
      auto const left = std::chrono::ceil<std::chrono::milliseconds>(*next_ - clock_type::now()).count();
      milliseconds = static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
    }
    ::poll(waiting.data(), waiting.size(), milliseconds);
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (waiting[first_output + i].revents != 0) outputs_[i].forward();
    if (waiting[0].revents != 0) read_signals();
    if (survival_.heard()) go_on();
    if (next_ && clock_type::now() >= *next_) escalate();
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      int const number = static_cast<int>(info.ssi_signo);
      // The terminal has sent its signals to the ranks already.
      if (number != SIGCHLD && info.ssi_code != SI_KERNEL) kill_all(number);
    }
    reap();
  }

  // Reaps the ranks that have ended. Killed ranks are reported first, because they cause the failures of others.
  void reap() {
    std::vector<std::pair<std::size_t, int>> ended;
    int status = 0;
    for (pid_t process; (process = ::waitpid(-1, &status, WNOHANG)) > 0;)
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        if (ranks_[r] == process) {
          ranks_[r] = -1;
          if (status != 0) ended.emplace_back(r, status);
          else one_succeeded_ = true;
        }
    std::ranges::sort(ended, {}, [](auto const& e) { return std::pair(!WIFSIGNALED(e.second), e.first); });
    for (auto const& [r, how] : ended) note_failure(r, how);
  }

  void note_failure(std::size_t r, int status) {
    if (code_ != 0 && !options_.recovers) return;
    if (code_ == 0) code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    std::string const how = WIFSIGNALED(status) ? fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                                                              ::strsignal(WTERMSIG(status)))
                                                : fmt::format("ended with exit code {}", WEXITSTATUS(status));
    say("rank {} {}", r, how);
    if (options_.recovers || stage_ != stage::running) return;
    stage_ = stage::failed;
    next_ = clock_type::now() + grace;
  }

  // The ranks that are left have agreed to do without those that failed before.
  void go_on() {
    reap();
    code_ = 0;
    if (stage_ != stage::failed) return;
    say("the ranks that are left go on: {}", list_running());
    stage_ = stage::running;
    next_ = limit_;
  }

  // Called when the time limit of the current stage has passed.
  void escalate() {
    if (stage_ == stage::running) {
      code_ = timed_out;
      say("the job did not finish within {} s", options_.seconds);
    }
    bool const again = stage_ == stage::terminating;
    say("{} the ranks that are still running: {}", again ? "killing" : "terminating", list_running());
    kill_all(again ? SIGKILL : SIGTERM);
    stage_ = again ? stage::killing : stage::terminating;
    next_.reset();
    if (!again) next_ = clock_type::now() + termination_time;
  }

  std::string list_running() const {
    std::string out;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r] > 0) out += fmt::format("{}{}", out.empty() ? "" : ", ", r);
    return out;
  }

  void kill_all(int number) const {
    for (pid_t const process : ranks_)
      if (process > 0) ::kill(process, number);
  }

  // Kills children until none are left: this process inherits the children of each one that ends.
  static void end_orphans() {
    while (true) {
      std::ifstream list(fmt::format("/proc/self/task/{}/children", ::getpid()));
      if (!list) return;  // the kernel does not provide this list
      for (pid_t process; list >> process;) ::kill(process, SIGKILL);
      if (::waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
    }
  }

  options options_;
  sigset_t signals_before_{};
  descriptor signals_;
  tutti::detail::survival_line const survival_;
  std::vector<pid_t> ranks_;  // -1 once a rank has ended
  std::vector<output> outputs_;
  stage stage_ = stage::running;
  std::optional<clock_type::time_point> limit_;  // of the job
  std::optional<clock_type::time_point> next_;   // the end of the stage, if it has a time limit
  int code_ = 0;
  bool one_succeeded_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app{"Starts the ranks of a job on this machine. Exits with the first exit code of a rank that is not 0."};
  app.add_option("-n", o.ranks, "Number of ranks, also written -np")->check(CLI::Range(1, tutti::max_ranks));
  app.add_flag("--prefix", o.prefix, "Start each line of output with its rank");
  app.add_flag("--enable-recovery", o.recovers,
               "Let the other ranks go on after a failure; exit with 0 if any rank does");
  app.add_option("--timeout", o.seconds, "Seconds after which the job is terminated, with exit code 124")
      ->check(CLI::PositiveNumber);
  app.prefix_command();
  app.footer(
      "The program and its arguments follow the options. Rank 0 reads the standard input. SIGINT, SIGTERM, SIGHUP,\n"
      "SIGUSR1 and SIGUSR2 are forwarded to all ranks. When a rank fails, the others have 3 s to end by themselves\n"
      "before they are terminated, unless they shrink their communicator: then they go on, and the exit code is "
      "theirs.");
  std::vector<char*> arguments(argv, argv + argc);
  static char number_of_ranks[] = "-n";
  bool is_value = true;  // argv[0], and what follows --timeout
  for (char*& word : arguments) {
    if (!is_value && *word != '-') break;  // the program
    if (std::string_view(word) == "-np") word = number_of_ranks;
    is_value = std::string_view(word) == "--timeout" || word == number_of_ranks;
  }
  return run_tool(app, "tutti-run", argc, arguments.data(), [&] {
    o.command = app.remaining();
    if (!o.command.empty() && o.command.front() == "--") o.command.erase(o.command.begin());
    else if (!o.command.empty() && o.command.front().starts_with('-'))
      throw CLI::ExtrasError(std::vector{o.command.front()});
    if (o.ranks == 0) throw CLI::RequiredError("-n");
    if (o.command.empty()) throw CLI::RequiredError("A program to start");
    return job(std::move(o)).run();
  });
}
