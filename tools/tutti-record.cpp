// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads flight records and finds the ranks that are behind; joins traces and draws them.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "command_line.hpp"
#include "record/states.hpp"
#include "record/trace.hpp"
#include "result_file.hpp"

namespace {

void write(std::string const& path, std::string const& text) {
  if (int const reason = write_result(path, text); reason != 0)
    throw std::runtime_error(fmt::format("cannot write \"{}\": {}", path, std::strerror(reason)));
}

// A pattern such as *.json may match a result, which would replace a trace.
void expect_new(std::string const& to, std::vector<std::string> const& inputs) {
  std::error_code unknown;
  for (std::string const& input : inputs)
    if (std::filesystem::equivalent(input, to, unknown))
      throw std::runtime_error(fmt::format("{} is an input: name another file for the result", to));
}

// Two patterns may match one file, whose events would appear twice.
void expect_different(std::vector<std::string> const& inputs) {
  std::set<std::filesystem::path> seen;
  std::error_code unknown;
  for (std::string const& input : inputs)
    if (std::filesystem::path const file = std::filesystem::weakly_canonical(input, unknown);
        !unknown && !seen.insert(file).second)
      throw std::runtime_error(fmt::format("{} is named twice", input));
}

void join(std::vector<record::source> const& traces, std::string const& to) {
  auto const all = record::events_of(traces);
  write(to, record::joined(all));
  fmt::print("wrote {} events of {} files to {}; open it at https://ui.perfetto.dev\n", all.size(), traces.size(), to);
}

void draw(std::vector<record::source> const& traces, std::string const& to, double begin, double length) {
  record::picture const drawn = record::draw(record::calls_of(record::events_of(traces)), begin, length);
  write(to, drawn.svg);
  fmt::print("drew {:.3g} ms of {} lanes to {}\n", drawn.milliseconds, drawn.lanes, to);
}

// CLI::NonNegativeNumber, whose error names the largest double, takes nan.
std::string objection_to_time(std::string text) {
  bool const is_time = CLI::NonNegativeNumber(text).empty() && std::isfinite(std::strtod(text.c_str(), nullptr));
  return is_time ? "" : fmt::format("{} is not a number of milliseconds, 0 or more", text);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Reads the files that ranks write if TUTTI_RECORD or TUTTI_TRACE is set."};
  app.require_subcommand(1);
  std::vector<std::string> paths;
  std::string to;
  auto* const show_command =
      app.add_subcommand("show", "print the call that each rank is in, and which ranks are behind");
  show_command->add_option("files", paths, "flight records; those of each communicator of each job are shown together")
      ->required();
  double begin = 0, length = 0;
  auto* const draw_command = app.add_subcommand("draw", "draw traces as an SVG picture");
  draw_command->add_option("files", paths, "traces")->required();
  draw_command->add_option("-o,--output", to, "output file")->required();
  draw_command->add_option("--begin", begin, "start, in milliseconds after the first call")->check(objection_to_time);
  draw_command->add_option("--length", length, "length in milliseconds; 0: to the end")->check(objection_to_time);
  auto* const join_command = app.add_subcommand("join", "join the traces of all ranks into one");
  join_command->add_option("files", paths, "traces")->required();
  join_command->add_option("-o,--output", to, "output file")->required();
  // An exception would not arrive: while it destroys JSON, the library of JSON allocates.
  std::set_new_handler([] {
    std::fputs("tutti-record: these files do not fit into memory; read fewer at once\n", stderr);
    std::_Exit(1);
  });
  return run_tool(app, "tutti-record", argc, argv, [&] {
    expect_different(paths);
    if (!to.empty()) expect_new(to, paths);
    std::vector<record::source> sources;
    for (std::string const& path : paths) sources.push_back(record::read(path));
    if (show_command->parsed()) fmt::print("{}", record::show(sources));
    else if (draw_command->parsed()) draw(sources, to, begin, length);
    else join(sources, to);
    return 0;
  });
}
