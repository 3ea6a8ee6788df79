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
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "command_line.hpp"
#include "run/output.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/launch/newcomers.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/transport/shared_memory/shm.hpp"

namespace {

using tutti::detail::descriptor;
using clock_type = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto grace = 3s;             // after a failure, the other ranks have this long to report their own errors
constexpr auto termination_time = 5s;  // from SIGTERM to SIGKILL
constexpr auto first_pause = 100ms;    // before a lost rank is replaced; doubled each time for the same rank
constexpr auto longest_pause = 10s;
constexpr auto pause_without_room =
    1s;                                // before the start of a process is tried again, if the system had no room for it
constexpr double longest_limit = 1e9;  // seconds
constexpr int timed_out = 124;         // as timeout(1) does
constexpr std::array forwarded{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  the_console()
      .of(STDERR_FILENO)
      .write(STDERR_FILENO, fmt::format("tutti-run: {}\n", fmt::format(format, std::forward<T>(values)...)));
}

[[noreturn]] void give_up(std::string const& what) {
  say("{}: {}", what, std::strerror(errno));
  std::exit(1);
}

// Without descriptors, and with the reason in errno, if there can be no more.
std::pair<descriptor, descriptor> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  return {descriptor(ends[0]), descriptor(ends[1])};
}

struct options {
  int ranks = 0;
  bool prefix = false;
  bool recovers = false;
  int min_ranks = 0;  // of an elastic job; 0 for any other
  int restarts = 100;
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
    for (std::string& word : options_.command) words_.push_back(word.data());
    words_.push_back(nullptr);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGCHLD);
    for (int const s : forwarded)
      if (!is_ignored(s)) sigaddset(&mine, s);  // the ranks ignore those, too, such as SIGHUP under nohup
    sigprocmask(SIG_BLOCK, &mine, &signals_before_);
    signals_ = descriptor(::signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) give_up("signalfd");
    the_console();  // its threads block these signals, too
    if (options_.prefix && ::getrlimit(RLIMIT_NOFILE, &files_before_) == 0) {
      rlimit const all{files_before_.rlim_max, files_before_.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &all);
    }
  }

  int run() {
    prepare_environment();
    if (options_.seconds > 0)
      limit_ = clock_type::now() +
               std::chrono::duration_cast<clock_type::duration>(std::chrono::duration<double>(options_.seconds));
    next_ = limit_;
    ranks_.resize(static_cast<std::size_t>(options_.ranks));
    for (int r = 0; r < options_.ranks; ++r)
      if (int const code = start(r); code != 0) {
        if (code < 0) say("cannot start rank {}: {}{}", r, std::strerror(-code), advice(-code));
        kill_all(SIGKILL);
        end_orphans();
        return std::max(code, 1);
      }
    while (std::ranges::any_of(ranks_, [](rank const& one) { return one.process > 0 || one.restart; })) wait_and_act();
    end_orphans();
    for (output& o : outputs_) o.finish();
    sigprocmask(SIG_SETMASK, &signals_before_,
                nullptr);  // a reader that does not read keeps nobody from ending this program
    int code = options_.recovers && one_succeeded_ ? late_code_ : code_;
    if (code == 0 && late_mismatch_ && !options_.recovers) code = fail_late();
    if (options_.prefix) the_console().of(STDOUT_FILENO).finish();
    if (report_lost_output() && code == 0) code = 1;
    if (is_interrupted_ && code == 128 + SIGINT) end_by_interrupt();
    return code;
  }

 private:
  enum class stage { running, failed, terminating, killing };

  struct rank {
    pid_t process = -1;     // -1 once it has ended
    bool is_member = true;  // not while it waits to join the others, nor once they have excluded it
    int restarts = 0;
    std::optional<clock_type::time_point> restart{};  // when it is to be replaced
    std::optional<clock_type::time_point> kill{};  // when a process that nobody needs is killed, unless SIGTERM ends it
  };

  // Gives the ranks the environment of this program, with variables that tell them about the job.
  void prepare_environment() const {
    set_variable("TUTTI_SIZE", std::to_string(options_.ranks));
    set_variable("TUTTI_JOB", random_name());
    set_variable(tutti::detail::elastic_variable,
                 is_elastic() ? fmt::format("{}:{}", options_.min_ranks, options_.ranks) : "");
    survival_.pass_on();
  }
  static void set_variable(char const* name, std::string const& value) {
    value.empty() ? ::unsetenv(name) : ::setenv(name, value.c_str(), 1);
  }

  // Returns 0, an exit code if the program cannot be started, or a negative number of errno if the system has no room for a process.
  // Between fork and exec, nothing may allocate or wait for a lock: a thread of this program may have held one that nobody unlocks in
  // the child. So all that the child needs is made before.
  int start(int r, bool joins = false) {
    auto [out, out_end] = options_.prefix ? make_pipe() : std::pair<descriptor, descriptor>{};
    auto [err, err_end] = options_.prefix ? make_pipe() : std::pair<descriptor, descriptor>{};
    auto [trouble, trouble_end] = make_pipe();  // closed by a successful exec
    if (!trouble || (options_.prefix && (!out || !err))) return -errno;
    set_variable("TUTTI_RANK", std::to_string(r));
    set_variable(tutti::detail::join_variable, joins ? std::to_string(r) : "");
    pid_t const parent = ::getpid();
    pid_t const process = ::fork();
    if (process < 0) return -errno;
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      if (options_.prefix) ::dup2(out_end.get(), STDOUT_FILENO), ::dup2(err_end.get(), STDERR_FILENO);
      if (r > 0) ::dup2(no_input_.get(), STDIN_FILENO);
      if (options_.prefix) ::setrlimit(RLIMIT_NOFILE, &files_before_);
      sigprocmask(SIG_SETMASK, &signals_before_, nullptr);
      ::execvp(words_[0], words_.data());
      int const code = errno;
      [[maybe_unused]] auto const told = ::write(trouble_end.get(), &code, sizeof code);
      ::_exit(127);
    }
    rank& one = ranks_[static_cast<std::size_t>(r)];
    one.process = process;
    one.is_member = !joins;
    if (options_.prefix) {
      std::erase_if(outputs_, [](output const& o) { return !o.is_open(); });
      outputs_.emplace_back(std::move(out), STDOUT_FILENO, r);
      outputs_.emplace_back(std::move(err), STDERR_FILENO, r);
    }
    trouble_end = descriptor();
    int code = 0;
    if (::read(trouble.get(), &code, sizeof code) != sizeof code) return 0;
    say("cannot start {}: {}{}", options_.command[0], std::strerror(code), advice(options_.command[0], code));
    return code == ENOENT ? 127 : 126;
  }

  static bool is_ignored(int number) {
    struct sigaction now{};
    return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
  }
  // A shell that waits for this program ends its loop or script if Ctrl-C has killed the program, but not for the exit code alone.
  static void end_by_interrupt() {
    for (int const to : {STDOUT_FILENO, STDERR_FILENO}) the_console().of(to).finish();
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }

  // What helps where the system has no room for another process.
  std::string advice(int code) const {
    if (code == EMFILE)
      return fmt::format("; raise the limit of open files (ulimit -n){}",
                         options_.prefix ? ", of which --prefix needs two for each rank" : "");
    return code == EAGAIN ? "; raise the limit of processes (ulimit -u)" : "";
  }
  // What may be wrong with a program that cannot be started.
  static std::string advice(std::string const& program, int code) {
    namespace fs = std::filesystem;
    std::error_code unknown;
    bool const is_path = program.find('/') != program.npos;
    fs::file_status const there = fs::status(program, unknown);
    if (code == ENOENT && !is_path)
      return fs::is_regular_file(there) ? fmt::format(" in PATH; write ./{} for the one in this folder", program)
                                        : " in PATH";
    if (code == ENOENT && fs::exists(there))
      return "; the file exists, but not the interpreter that its first line names, or the loader that it needs";
    if (code != EACCES) return {};
    if (fs::is_directory(there)) return "; it is a folder";
    return fs::is_regular_file(there) ? fmt::format("; make it executable: chmod +x {}", program) : "";
  }

  void wait_and_act() {
    std::vector<pollfd> waiting{{signals_.get(), POLLIN, 0}, {survival_.handle(), POLLIN, 0}};
    for (int const to : {STDOUT_FILENO, STDERR_FILENO}) waiting.push_back({the_console().of(to).handle(), POLLIN, 0});
    std::size_t const first_output = waiting.size();
    for (output const& o : outputs_) waiting.push_back({o.handle(), POLLIN, 0});
    int milliseconds = -1;
    auto wake = next_;
    for (rank const& one : ranks_)
      for (auto const& time : {one.restart, one.kill})
        if (time && (!wake || *time < *wake)) wake = time;
    if (wake) {
      auto const left = std::chrono::ceil<std::chrono::milliseconds>(*wake - clock_type::now()).count();
      milliseconds = static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
    }
    ::poll(waiting.data(), waiting.size(), milliseconds);
    for (int const to : {STDOUT_FILENO, STDERR_FILENO}) the_console().of(to).note_room();
    report_lost_output();
    for (output& o : outputs_) o.close_if_broken();
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (waiting[first_output + i].revents != 0) outputs_[i].forward();
    if (waiting[0].revents != 0) read_signals();
    hear();
    restart_lost();
    kill_those_told_to_end();
    if (next_ && clock_type::now() >= *next_) escalate();
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      int const number = static_cast<int>(info.ssi_signo);
      if (number == SIGINT || number == SIGTERM || number == SIGHUP) replace_no_more();
      is_interrupted_ |= number == SIGINT;
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
        if (ranks_[r].process == process) {
          ranks_[r].process = -1;
          ranks_[r].kill.reset();
          ended.emplace_back(r, status);
        }
    if (ended.empty()) return;
    note_words(survival_.take());  // what they have said before
    std::ranges::sort(ended, {}, [](auto const& e) { return std::pair(!WIFSIGNALED(e.second), e.first); });
    for (auto const& [r, how] : ended)
      if (how == 0 && ranks_[r].is_member) one_succeeded_ = true;
    for (auto const& [r, how] : ended)
      if (how != 0) note_failure(r, how);
    if (members() == 0 || (is_elastic() && one_succeeded_)) end_the_rest();
  }

  // -- Elastic jobs.

  bool is_elastic() const { return options_.min_ranks > 0; }
  // The processes that take part.
  int members() const {
    return static_cast<int>(
        std::ranges::count_if(ranks_, [](rank const& one) { return one.process > 0 && one.is_member; }));
  }

  void hear() {
    auto const words = survival_.take();
    note_words(words);
    if (words.survival || survived_) go_on();
    survived_ = false;
  }
  void note_words(tutti::detail::survival_line::words const& words) {
    survived_ |= words.survival;
    late_mismatch_ =
        words.late_mismatch || (late_mismatch_ && !words.survival);  // survivors have left the calls behind
    for (int const r : words.joined)
      if (static_cast<std::size_t>(r) < ranks_.size() && !ranks_[static_cast<std::size_t>(r)].is_member) {
        ranks_[static_cast<std::size_t>(r)].is_member = true;
        say("rank {} has been replaced", r);
        survived_ |= stage_ == stage::failed;  // it counts now, so there may be enough
      }
    for (int const process : words.excluded)
      for (rank& one : ranks_)
        if (one.process == process) exclude(one);
  }
  // The others do without a process that hangs. In an elastic job, another replaces it once it has ended.
  void exclude(rank& one) {
    say("the other ranks have excluded rank {}", &one - ranks_.data());
    one.is_member = false;
    if (is_elastic()) end(one);
  }

  void plan_restart(rank& one, std::size_t r) {
    if (stage_ != stage::running || one_succeeded_ || is_ending_) return;
    if (restarts_ == options_.restarts) return say("rank {} is not replaced, after {} restarts", r, restarts_);
    ++restarts_;
    auto const pause = std::min<clock_type::duration>(first_pause * (1 << std::min(one.restarts, 10)), longest_pause);
    ++one.restarts;
    one.restart = clock_type::now() + pause;
  }
  void restart_lost() {
    auto const now = clock_type::now();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!ranks_[r].restart || now < *ranks_[r].restart) continue;
      ranks_[r].restart.reset();
      int const code = start(static_cast<int>(r), true);
      bool const said = std::exchange(lacks_room_, code < 0);
      if (code >= 0) continue;
      if (!said) say("cannot start rank {} again yet: {}", r, std::strerror(-code));
      ranks_[r].restart = now + pause_without_room;
    }
  }
  // Somebody wants the job to end: a process that started now would not know of it.
  void replace_no_more() {
    is_ending_ = true;
    for (rank& one : ranks_) one.restart.reset();
  }
  // Ends a process that nobody needs.
  static void end(rank& one) {
    if (one.process <= 0 || one.is_member || one.kill) return;
    ::kill(one.process, SIGTERM);
    ::kill(one.process, SIGCONT);  // one that is stopped ends, too
    one.kill = clock_type::now() + termination_time;
  }
  // The members have finished, or are gone.
  void end_the_rest() {
    for (rank& one : ranks_) {
      one.restart.reset();
      end(one);
    }
  }
  void kill_those_told_to_end() {
    for (rank& one : ranks_) {
      if (!one.kill || clock_type::now() < *one.kill) continue;
      one.kill.reset();
      if (one.process > 0 && !one.is_member) ::kill(one.process, SIGKILL);
    }
  }

  void note_failure(std::size_t r, int status) {
    rank& one = ranks_[r];
    bool const was_member = std::exchange(one.is_member, false);
    last_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    bool const left_out = !was_member && (one_succeeded_ || members() == 0);  // the end of one that nobody needed
    if (left_out || (code_ != 0 && !options_.recovers && !is_elastic())) return;
    if (code_ == 0 && was_member) code_ = last_code_;
    if (late_code_ == 0 && is_ending_) late_code_ = last_code_;
    std::string const how = WIFSIGNALED(status) ? fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                                                              ::strsignal(WTERMSIG(status)))
                                                : fmt::format("ended with exit code {}", WEXITSTATUS(status));
    say("rank {} {}", r, how);
    if (is_elastic() && members() >= options_.min_ranks) return plan_restart(one, r);
    if (is_elastic() && stage_ == stage::running && !one_succeeded_)
      say("{} ranks are left, fewer than {}", members(), options_.min_ranks);
    if (options_.recovers || stage_ != stage::running || (!was_member && !is_elastic())) return;
    stage_ = stage::failed;
    next_ = clock_type::now() + grace;
  }

  // The ranks that are left have agreed to do without those that failed before. They may all have ended since; then the last
  // failure is that of one of them, unless one has succeeded.
  void go_on() {
    reap();
    if (is_elastic() && members() < options_.min_ranks && !one_succeeded_) return;  // they are about to give up
    std::string const running = list_running();
    code_ = running.empty() && !one_succeeded_ ? last_code_ : 0;
    if (stage_ != stage::failed) return;
    if (running.empty()) say("the ranks that were left went on, and have ended");
    else say("the ranks that are left go on: {}", running);
    stage_ = stage::running;
    next_ = limit_;
  }

  // Called when the time limit of the current stage has passed.
  void escalate() {
    if (stage_ == stage::running) {
      code_ = late_code_ = timed_out;
      say("the job did not finish within {} s", options_.seconds);
    }
    replace_no_more();
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
      if (ranks_[r].process > 0) out += fmt::format("{}{}", out.empty() ? "" : ", ", r);
    return out;
  }

  void kill_all(int number) const {
    for (rank const& one : ranks_)
      if (one.process > 0) ::kill(one.process, number);
  }

  // Says so once if output of the ranks could not be written, and returns whether. Whoever does not read needs no output.
  bool report_lost_output() {
    int const problem = options_.prefix ? the_console().of(STDOUT_FILENO).error() : 0;
    if (problem == 0 || problem == EPIPE) return false;
    if (!std::exchange(says_lost_output_, true))
      say("cannot write the output of the ranks, and loses some of it: {}", std::strerror(problem));
    return true;
  }

  static int fail_late() {
    say("the job failed, although every rank has exit code 0: ranks made different calls, as one of them printed");
    return 1;
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
  std::vector<char*> words_;  // of the command, as exec wants them
  descriptor no_input_{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  sigset_t signals_before_{};
  rlimit files_before_{};
  descriptor signals_;
  tutti::detail::survival_line const survival_;
  bool late_mismatch_ = false;  // noticed when ranks closed their communicators
  std::vector<rank> ranks_;
  std::vector<output> outputs_;
  stage stage_ = stage::running;
  std::optional<clock_type::time_point> limit_;  // of the job
  std::optional<clock_type::time_point> next_;   // the end of the stage, if it has a time limit
  int code_ = 0, last_code_ = 0;                 // of the job, and of the last rank that failed
  int late_code_ =
      0;  // of a rank that failed after the job was told to end: no success of another rank makes up for it
  int restarts_ = 0;
  bool one_succeeded_ = false, survived_ = false, is_ending_ = false, lacks_room_ = false;
  bool is_interrupted_ = false, says_lost_output_ = false;
};

// "2:8"
std::optional<std::pair<int, int>> parse_range(std::string const& text) {
  int least = 0, most = 0;
  char const* const end = text.data() + text.size();
  auto const [colon, trouble] = std::from_chars(text.data(), end, least);
  if (trouble != std::errc{} || colon == end || *colon != ':') return {};
  auto const [last, more_trouble] = std::from_chars(colon + 1, end, most);
  if (more_trouble != std::errc{} || last != end || least < 1 || most < least || most > tutti::max_ranks) return {};
  return std::pair(least, most);
}

bool is_limit(std::string const& text) {
  double seconds = 0;
  auto const [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return trouble == std::errc{} && end == text.data() + text.size() && seconds > 0 && seconds <= longest_limit;
}

// Opens 0, 1 and 2 where they are closed. Otherwise the next pipe would become the standard input, output or error of ranks.
void complete_standard_files() {
  for (int const file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(file, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
}

}  // namespace

int main(int argc, char** argv) {
  complete_standard_files();
  options o;
  CLI::App app{
      "tutti-run -n RANKS [OPTIONS] PROGRAM [ARGUMENTS] starts the ranks of a job on this machine. It exits with the "
      "first exit "
      "code of a rank that is not 0."};
  app.add_option("-n", o.ranks, "Number of ranks, also written -np")->check(CLI::Range(1, tutti::max_ranks));
  app.add_flag("--prefix", o.prefix, "Start each line of output with its rank");
  app.add_flag("--enable-recovery", o.recovers,
               "Let the other ranks go on after a failure; exit with 0 if any rank does");
  std::string range;
  app.add_option("--elastic", range,
                 "MIN:MAX, in place of -n: start MAX ranks, go on while MIN are left, and replace those that are lost. "
                 "The program runs a tutti::training::elastic_loop")
      ->check([](std::string const& text) {
        return parse_range(text)
                   ? ""
                   : fmt::format("{} is not a range of ranks, such as 2:8, of {} at most", text, tutti::max_ranks);
      });
  auto* const restarts = app.add_option("--max-restarts", o.restarts, "Of all ranks of an elastic job together")
                             ->check(CLI::Range(0, 1'000'000))
                             ->capture_default_str();
  app.add_option(
         "--timeout", o.seconds,
         "Seconds after which the job is terminated, with exit code 124. Time in which it is stopped (Ctrl-Z) counts")
      ->check([](std::string const& text) {
        return is_limit(text) ? "" : fmt::format("{} is not a number of seconds, such as 0.5, up to 1e9", text);
      });
  app.prefix_command();
  app.footer(
      "The program and its arguments follow the options. Rank 0 reads the standard input. SIGINT, SIGTERM, SIGHUP,\n"
      "SIGUSR1 and SIGUSR2 are forwarded to all ranks. When a rank fails, the others have 3 s to end by themselves\n"
      "before they are terminated, unless they shrink their communicator: then they go on, and the exit code is "
      "theirs. With --elastic, lost ranks are replaced after 0.1 s, and later if they are lost again and again.");
  std::vector<char*> arguments(argv, argv + argc);
  bool is_value = true;  // argv[0], and what follows --timeout
  for (char*& word : arguments) {
    if (!is_value && *word != '-') break;  // the program
    if (std::string_view(word).starts_with("-np")) ++word, word[0] = '-', word[1] = 'n';
    is_value = std::string_view(word) == "--timeout" || std::string_view(word) == "--elastic" ||
               std::string_view(word) == "--max-restarts" || std::string_view(word) == "-n";
  }
  return run_tool(app, "tutti-run", argc, arguments.data(), [&] {
    o.command = app.remaining();
    if (!o.command.empty() && o.command.front() == "--") o.command.erase(o.command.begin());
    else if (!o.command.empty() && o.command.front().starts_with('-'))
      throw CLI::ExtrasError(std::vector{o.command.front()});
    if (!range.empty()) {
      if (o.ranks != 0) throw CLI::ExcludesError("--elastic", "-n");
      std::tie(o.min_ranks, o.ranks) = *parse_range(range);
    }
    if (range.empty() && restarts->count() > 0) throw CLI::RequiresError("--max-restarts", "--elastic");
    if (o.ranks == 0) throw CLI::RequiredError("-n");
    if (o.command.empty() || o.command.front().empty()) throw CLI::RequiredError("A program to start");
    return job(std::move(o)).run();
  });
}
