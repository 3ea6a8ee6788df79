// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of a tool. All tools have --help and --version, and exit with 1 if their work fails, and with 2 for a wrong
// command line.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "tutti/core/config.hpp"

// work() returns the exit code, or throws. It may throw CLI::ParseError for arguments that are wrong together.
template <class Work>
int run_tool(CLI::App& app, std::string const& name, int argc, char** argv, Work&& work) {
  app.name(name);
  app.set_version_flag("--version",
                       fmt::format("{} {}.{}.{}", name, TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH));
  try {
    app.parse(argc, argv);
    return work();
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (std::exception const& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
}
