// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of a tool. All tools have --help and --version, and exit with 1 if their work fails, and with 2 for a
// command line that cannot be parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

#include <fmt/format.h>

#include "complain.hpp"
#include "tutti/core/config.hpp"

// Output that a full disk has not taken is an error, as of any other program.
inline int after_output(std::string const& name, int code) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return code;
  complain("{}: cannot write the output: {}\n", name, errno != 0 ? std::strerror(errno) : "it was cut off");
  return 1;
}

// By itself, CLI11 reads 010 as 8, and refuses 08.
inline void read_numbers_as_decimal(CLI::App& app) {
  for (CLI::Option* const option : app.get_options())
    if (option->get_type_size() > 0 && !option->get_type_name().starts_with("TEXT"))
      option->transform([](std::string const& text) {
        std::size_t const zeros = std::min(text.find_first_not_of('0'), text.size());
        bool const number_follows = zeros < text.size() && text[zeros] >= '0' && text[zeros] <= '9';
        return number_follows ? text.substr(zeros) : text;
      });
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; })) read_numbers_as_decimal(*command);
}

// work() returns the exit code, or throws. It may throw CLI::ParseError for arguments that are wrong together.
template <class Work>
int run_tool(CLI::App& app, std::string const& name, int argc, char** argv, Work&& work) {
  app.name(name);
  read_numbers_as_decimal(app);
  app.failure_message([name](CLI::App const* of, CLI::Error const& e) {
    return fmt::format("{}: {}", name, CLI::FailureMessage::simple(of, e));
  });
  app.set_version_flag("--version",
                       fmt::format("{} {}.{}.{}", name, TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH));
  try {
    app.parse(argc, argv);
    return after_output(name, work());
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? after_output(name, 0) : 2;
  } catch (std::exception const& e) {
    complain("{}: {}\n", name, e.what());
    return 1;
  }
}
