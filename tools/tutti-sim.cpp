// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Studies algorithms without running them: verifies them, predicts their cost, simulates them on many ranks, and draws them.
#include <CLI/CLI.hpp>

#include "command_line.hpp"
#include "sim/draw.hpp"
#include "sim/pipeline.hpp"
#include "sim/schedules.hpp"
#include "sim/simulate.hpp"
#include "sim/verify.hpp"

using namespace simulator;

int main(int argc, char** argv) {
  CLI::App app{"Verifies, costs, simulates and draws tutti's algorithms."};
  app.require_subcommand(1);

  app.add_subcommand("list", "print which algorithm implements which collective");

  verify_arguments verifying;
  CLI::App& verify = *app.add_subcommand("verify", "prove schedules correct by executing them symbolically");
  verify_options(verify, verifying);

  machine_arguments pricing, simulating;
  CLI::App& cost = *app.add_subcommand("cost", "print the terms of the alpha-beta-gamma cost model");
  machine_options(cost, pricing);
  CLI::App& simulate = *app.add_subcommand("simulate", "predict the time on any number of ranks");
  machine_options(simulate, simulating);
  simulate
      .add_option("--nodes", simulating.nodes, "for two_level: the ranks on each node, instead of numbers of ranks")
      ->delimiter(',')
      ->excludes(simulate.get_option("--ranks"));

  draw_arguments drawing;
  CLI::App& draw = *app.add_subcommand("draw", "draw what each rank does at each step");
  draw_options(draw, drawing);

  pipeline_arguments piping;
  CLI::App& pipeline = *app.add_subcommand("pipeline", "compare schedules of pipeline parallelism, or draw one");
  pipeline_options(pipeline, piping);

  return run_tool(app, "tutti-sim", argc, argv, [&] {
    if (verify.parsed()) return verify_command(verifying);
    if (simulate.parsed()) return simulate_command(simulating);
    if (cost.parsed()) cost_command(pricing);
    else if (draw.parsed()) draw_command(drawing);
    else if (pipeline.parsed()) pipeline_command(piping);
    else list_command();
    return 0;
  });
}
