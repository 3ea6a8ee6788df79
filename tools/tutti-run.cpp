// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts the ranks of one job on this machine and waits until all of them have ended.
//
// Ranks stay in the process group of tutti-run, so a terminal treats the job as one program: Ctrl-C and Ctrl-Z reach
// every rank, and rank 0 may read its input. tutti-run adopts orphaned descendants (PR_SET_CHILD_SUBREAPER), and kills those
// that still run when the last rank has ended.
//
//   run/options.hpp    what the command line says
//   run/job.hpp        the job from its start to its end, by means of
//   run/program.hpp    the start of a process
//   run/processes.hpp  the processes that run, their ends and their termination
//   run/restarts.hpp   when lost ranks of an elastic job are replaced
//   run/outcome.hpp    the exit code
//   run/output.hpp     the output of ranks
//   run/signals.hpp    signals to this program
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "command_line.hpp"
#include "run/job.hpp"
#include "run/options.hpp"
#include "tutti/core/shape.hpp"

namespace {

using namespace launcher;

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
      "tutti-run -n RANKS [OPTIONS] PROGRAM [ARGUMENTS] starts the ranks of a job on this machine. "
      "It exits with the first exit code of a rank that is not 0."};
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
