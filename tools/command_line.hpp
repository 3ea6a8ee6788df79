// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of a tool. All tools have --help and --version, and exit with 1 if their work fails, and with 2 for a
// command line that cannot be parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

#include <fmt/format.h>

#include "tutti/core/config.hpp"

// Output that a full disk has not taken is an error, as of any other program.
inline int after_output(std::string const& name, int code) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return code;
  fmt::print(stderr, "{}: cannot write the output: {}\n", name, errno != 0 ? std::strerror(errno) : "it was cut off");
  return 1;
}

// work() returns the exit code, or throws. It may throw CLI::ParseError for arguments that are wrong together.
template <class Work>
int run_tool(CLI::App& app, std::string const& name, int argc, char** argv, Work&& work) {
  app.name(name);
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
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
}
