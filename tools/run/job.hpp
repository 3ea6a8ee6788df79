// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A job from its start to its end: waits for what happens next, and decides what follows from it.
#pragma once

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"
#include "outcome.hpp"
#include "output.hpp"
#include "processes.hpp"
#include "program.hpp"
#include "restarts.hpp"
#include "say.hpp"
#include "signals.hpp"
#include "tutti/fault/survival.hpp"

namespace launcher {

inline constexpr std::chrono::seconds grace(
    3);  // after a failure, the other ranks have this long to report their own errors

class job {
 public:
  explicit job(options o)
      : options_(std::move(o)),
        program_(options_, survival_, signals_.before()),
        processes_(options_.ranks),
        restarts_(options_.ranks, options_.restarts) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    the_console();  // its threads block the signals, too
  }

  int run() {
    if (options_.seconds > 0)
      limit_ = clock_type::now() +
               std::chrono::duration_cast<clock_type::duration>(std::chrono::duration<double>(options_.seconds));
    next_ = limit_;
    for (int r = 0; r < options_.ranks; ++r)
      if (int const code = start_first(r); code != 0) {
        processes_.send(SIGKILL);
        processes_.end_orphans();
        return code;
      }
    while (processes_.any() || restarts_.any()) wait_and_act();
    processes_.end_orphans();
    outputs_.finish();
    signals_.restore();  // a reader that does not read keeps nobody from ending this program
    int code = outcome_.code(options_);
    if (options_.prefix) the_console().of(STDOUT_FILENO).finish();
    if (report_lost_output() && code == 0) code = 1;
    if (is_interrupted_ && code == 128 + SIGINT) end_by_interrupt();
    return code;
  }

 private:
  enum class stage { running, failed, terminating, killing };

  void wait_and_act() {
    std::vector<pollfd> waiting{{signals_.handle(), POLLIN, 0}, {survival_.handle(), POLLIN, 0}};
    for (int const to : {STDOUT_FILENO, STDERR_FILENO}) waiting.push_back({the_console().of(to).handle(), POLLIN, 0});
    std::size_t const first_output = waiting.size();
    outputs_.append_to(waiting);
    ::poll(waiting.data(), waiting.size(), milliseconds_to_wait());
    for (int const to : {STDOUT_FILENO, STDERR_FILENO}) the_console().of(to).note_room();
    report_lost_output();
    outputs_.forward(std::span(waiting).subspan(first_output));
    if (waiting[0].revents != 0) read_signals();
    hear();
    restart_lost();
    processes_.kill_overdue();
    if (next_ && clock_type::now() >= *next_) escalate();
  }
  // -1 if no time limit is set.
  int milliseconds_to_wait() const {
    auto wake = next_;
    for (auto const& time : {restarts_.next(), processes_.next_kill()})
      if (time && (!wake || *time < *wake)) wake = time;
    if (!wake) return -1;
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(*wake - clock_type::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
  }

  // -- Starts.

  // Returns 0, or the exit code if the job cannot start.
  int start_first(int r) {
    program::start_result const started = start(r, false);
    if (started.no_room == 0) return started.exit_code;
    say("cannot start rank {}: {}{}", r, std::strerror(started.no_room), program_.advice(started.no_room));
    return 1;
  }
  void restart_lost() {
    for (std::size_t const r : restarts_.take_due()) {
      int const no_room = start(static_cast<int>(r), true).no_room;
      bool const said = std::exchange(lacks_room_, no_room != 0);
      if (no_room == 0) continue;
      if (!said) say("cannot start rank {} again yet: {}", r, std::strerror(no_room));
      restarts_.postpone(r);
    }
  }
  program::start_result start(int r, bool joins) {
    program::start_result started = program_.start(r, joins);
    if (started.process < 0) return started;
    processes_.note_start(r, started.process, !joins);
    if (options_.prefix) outputs_.add(std::move(started.out), std::move(started.errors), r);
    return started;
  }
  // Somebody wants the job to end: a process that started now would not know of it.
  void replace_no_more() {
    is_ending_ = true;
    restarts_.cancel();
  }

  // -- Signals, and the ends of processes.

  static bool ends(int number) { return number == SIGINT || number == SIGTERM || number == SIGHUP; }
  void read_signals() {
    while (auto const info = signals_.next()) {
      int const number = static_cast<int>(info->ssi_signo);
      if (ends(number)) replace_no_more();
      is_interrupted_ |= number == SIGINT;
      // The terminal has sent its signals to the ranks already.
      if (number != SIGCHLD && info->ssi_code != SI_KERNEL) processes_.send(number);
      if (ends(number)) processes_.send(SIGCONT);  // those that are stopped hear of it, too
    }
    reap();
  }
  void reap() {
    auto const ended = processes_.reap();
    if (ended.empty()) return;
    note_words(survival_.take());  // what they have said before
    for (processes::end const& e : ended)
      if (e.status == 0 && processes_.is_member(e.rank)) outcome_.note_success();
    for (processes::end const& e : ended)
      if (e.status != 0) note_failure(e);
    if (processes_.members() == 0 || (options_.is_elastic() && outcome_.one_succeeded())) end_the_rest();
  }
  void note_failure(processes::end const& e) {
    bool const was_member = processes_.leave(e.rank);
    int const code = code_of(e.status), members = processes_.members();
    outcome_.note_end(code);
    bool const is_elastic = options_.is_elastic(),
               was_needed = was_member || (!outcome_.one_succeeded() && members > 0);
    if (!was_needed || (outcome_.has_failed() && !options_.recovers && !is_elastic)) return;
    outcome_.note_failure(code, was_member, is_ending_);
    say("rank {} {}", e.rank, describe_end(e.status));
    if (is_elastic && members >= options_.min_ranks) return replace(e.rank);
    if (is_elastic && stage_ == stage::running && !outcome_.one_succeeded())
      say("{} {} left, fewer than {}", members, members == 1 ? "rank is" : "ranks are", options_.min_ranks);
    if (options_.recovers || stage_ != stage::running || (!was_member && !is_elastic)) return;
    stage_ = stage::failed;
    next_ = clock_type::now() + grace;
  }
  void replace(std::size_t r) {
    if (stage_ != stage::running || outcome_.one_succeeded() || is_ending_) return;
    if (!restarts_.plan(r)) say("rank {} is not replaced, after {} restarts", r, options_.restarts);
  }
  // The members have finished, or are gone.
  void end_the_rest() {
    restarts_.cancel();
    processes_.terminate_others_than_members();
  }

  // -- What ranks say.

  void hear() {
    auto const words = survival_.take();
    note_words(words);
    if (words.survival || survived_) go_on();
    survived_ = false;
  }
  void note_words(tutti::detail::survival_line::words const& words) {
    survived_ |= words.survival;
    outcome_.hear(words);
    for (int const r : words.joined)
      if (processes_.join(r)) {
        say("rank {} has been replaced", r);
        survived_ |= stage_ == stage::failed;  // it counts now, so there may be enough
      }
    for (int const process : words.excluded)
      if (auto const r = processes_.rank_of(process)) exclude(*r);
  }
  // The others do without a process that hangs. In an elastic job, another replaces it once it has ended.
  void exclude(std::size_t r) {
    say("the other ranks have excluded rank {}", r);
    processes_.leave(r);
    if (options_.is_elastic()) processes_.terminate(r);
  }
  // The ranks that are left do without those that failed before.
  void go_on() {
    reap();
    if (options_.is_elastic() && processes_.members() < options_.min_ranks && !outcome_.one_succeeded())
      return;  // they are about to give up
    std::string const running = processes_.list_running();
    outcome_.forgive(!running.empty());
    if (stage_ != stage::failed) return;
    if (running.empty()) say("the ranks that were left went on, and have ended");
    else say("the ranks that are left go on: {}", running);
    stage_ = stage::running;
    next_ = limit_;
  }

  // -- The end.

  // The time limit of the current stage has passed.
  void escalate() {
    if (stage_ == stage::running) {
      outcome_.note_timeout();
      say("the job did not finish within {} s", options_.seconds);
    }
    replace_no_more();
    bool const again = stage_ == stage::terminating;
    say("{} the ranks that are still running: {}", again ? "killing" : "terminating", processes_.list_running());
    processes_.send(again ? SIGKILL : SIGTERM);
    processes_.send(SIGCONT);
    stage_ = again ? stage::killing : stage::terminating;
    next_.reset();
    if (!again) next_ = clock_type::now() + termination_time;
  }

  // Says so once if output of the ranks could not be written, and returns whether. If the reader has closed it, nothing is lost.
  bool report_lost_output() {
    int const problem = options_.prefix ? the_console().of(STDOUT_FILENO).error() : 0;
    if (problem == 0 || problem == EPIPE) return false;
    if (!std::exchange(says_lost_output_, true))
      say("cannot write the output of the ranks, and loses some of it: {}", std::strerror(problem));
    return true;
  }
  // A shell that waits for this program ends its loop or script if Ctrl-C has killed the program, but not for the exit code alone.
  static void end_by_interrupt() {
    for (int const to : {STDOUT_FILENO, STDERR_FILENO}) the_console().of(to).finish();
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }

  options options_;
  signals const signals_;
  tutti::detail::survival_line const survival_;
  program const program_;
  processes processes_;
  restarts restarts_;
  outputs outputs_;
  outcome outcome_;
  stage stage_ = stage::running;
  std::optional<clock_type::time_point> limit_;  // of the job
  std::optional<clock_type::time_point> next_;   // the end of the stage, if it has a time limit
  bool survived_ = false;                        // ranks have gone on without others, and go_on() is still to be called
  bool is_ending_ = false;                       // because of a signal or the time limit
  bool lacks_room_ = false;                      // for the last process that was to replace another
  bool is_interrupted_ = false, says_lost_output_ = false;
};

}  // namespace launcher
