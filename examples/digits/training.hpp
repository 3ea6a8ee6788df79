// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the programs that train on the digits have in common: options, exit codes, and what they print.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>

#include "digits.hpp"
#include "tutti/launch/place.hpp"

// Options that contradict each other or the launcher: says which, and what to do.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct training_options {
  int epochs;
  int batch;
  double rate;
  unsigned seed = 1;
  std::string file = TUTTI_EXAMPLE_DATA "/digits.csv.gz";
};

// CLI::Range accepts nan. Both bounds are positive.
inline CLI::Validator positive_range(double least, double most) {
  return CLI::Validator(
      [=](std::string& text) {
        double const value = std::strtod(text.c_str(), nullptr);
        return value >= least && value <= most
                   ? std::string()
                   : "not a number from " + CLI::detail::to_string(least) + " to " + CLI::detail::to_string(most);
      },
      "");
}

inline void add_training_options(CLI::App& to, training_options& with, std::string const& about_rate) {
  to.add_option("--epochs", with.epochs, "how often each image is seen")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  to.add_option("--batch", with.batch, "images in a step, of all ranks together")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  to.add_option("--rate", with.rate, about_rate)->check(positive_range(1e-6, 10))->capture_default_str();
  to.add_option("--seed", with.seed, "of the initial weights and the order of images")->capture_default_str();
  to.add_option("--file", with.file, "lines of 64 pixels and a label, compressed or not")->capture_default_str();
}

// Refuses to run on another number of ranks than a launcher has started. `asked` are the options that asked for `ranks`.
inline void expect_started(int ranks, std::string const& asked, std::string const& way_out) {
  tutti::place const here = tutti::find_place();
  if (!here.launcher.empty() && here.size != ranks)
    throw usage_error(asked + ", but " + here.launcher + " started " + std::to_string(here.size) + "; " + way_out);
}

// Parses the command line and calls run(). Returns the program's exit code: 2 for wrong options or files, 1 for other errors.
template <class F>
int run_program(CLI::App& app, int argc, char** argv, F run) {
  auto const failed = [&](std::exception const& e, int code) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), e.what());
    return code;
  };
  try {
    app.parse(argc, argv);
    run();
    return 0;
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (usage_error const& e) {
    return failed(e, 2);
  } catch (data_error const& e) {
    return failed(e, 2);
  } catch (std::exception const& e) {
    return failed(e, 1);
  }
}

using seconds = std::chrono::duration<double>;

// What a training took and achieved.
struct outcome {
  double accuracy = 0;  // on the held-out images, after the last epoch
  seconds time{};
  double communication = 0;  // its share of the time
};

inline void print_heading() { std::printf("epoch     loss   held-out    images/s   communication\n"); }

inline void print_epoch(int epoch, double loss, double accuracy, double images_per_second, double communication) {
  std::printf("%5d %8.4f %9.2f%% %11.0f %14.0f%%\n", epoch, loss, 100 * accuracy, images_per_second,
              100 * communication);
  std::fflush(stdout);
}

inline void print_comparison(outcome const& alone, outcome const& together, int ranks) {
  std::printf(
      "one process alone: held-out %.2f%% in %.0f ms (together: %.2f%% in %.0f ms, %.0f%% of them in communication)\n"
      "%d ranks were %.2f times as fast as one process\n",
      100 * alone.accuracy, 1e3 * alone.time.count(), 100 * together.accuracy, 1e3 * together.time.count(),
      100 * together.communication, ranks, alone.time / together.time);
}
