// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains a small vision transformer on handwritten digits, on any mesh of ranks: --data ranks share each batch, --tensor
// ranks share each layer, --pipeline ranks have different layers (docs/training.md). At the end one process repeats the
// training, which must give the same losses.
// With TUTTI_TRACE=trace in the environment, each rank writes a timeline of what was sent when (docs/faults.md).
// ranks: 8
// args: --data 2 --tensor 2 --pipeline 2 --epochs 1 --images 64 --features 16 --depth 2
// timeout: 300
#define EIGEN_DONT_PARALLELIZE  // ranks are the parallelism; threads of their own would fight for the cores
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "../digits/digits.hpp"
#include "../digits/training.hpp"
#include "on_ranks.hpp"
#include "trainer.hpp"

namespace {

struct settings : training_options {
  architecture model{};
  division by{.data = 2, .tensor = 2, .microbatches = 0};
  std::size_t images = 0;  // all

  // Sets what depends on other options, and refuses options that do not work together.
  void complete() {
    if (by.microbatches == 0) by.microbatches = by.pipeline > 1 ? 4 * by.pipeline : 1;
    model.hidden = 4 * model.features;
    model.seed = seed;
    if (model.features % model.heads != 0)
      throw usage_error("--features " + std::to_string(model.features) + " is not a multiple of --heads " +
                        std::to_string(model.heads));
    std::string const mesh = "--data " + std::to_string(by.data) + " --tensor " + std::to_string(by.tensor) +
                             " --pipeline " + std::to_string(by.pipeline);
    if (std::int64_t{by.data} * by.tensor * by.pipeline > tutti::max_ranks)
      throw usage_error(mesh + " take more than " + std::to_string(tutti::max_ranks) + " ranks");
    if (by.adapt && by.stage > 0)
      throw usage_error("--adapt with --stage " + std::to_string(by.stage) +
                        ": shards keep their buckets; omit one of the two");
    expect_started(by.ranks(), mesh + " take " + std::to_string(by.ranks()) + " ranks",
                   "start as many, or choose another mesh");
  }
};

// Two runs add the same numbers in a different order, so they differ by rounding (6e-8 per float addition), which training
// amplifies.
constexpr double max_difference = 1e-3;

using std::chrono::steady_clock;

struct trained : outcome {
  std::vector<double> losses;  // of each epoch, a mean over images
};

template <class Communicator>
trained train(Communicator& comm, split const& data, settings const& with, division const& by, bool verbose) {
  trainer<float, typename Communicator::transport_type> model(comm, with.model, by,
                                                              static_cast<std::size_t>(with.batch), with.rate);
  std::size_t const images = data.training.labels.size();
  std::vector<Eigen::Index> order(images);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(with.seed + 1);             // the same at all ranks, hence the same order
  double const copies = by.tensor * by.pipeline;  // ranks that report the same images

  trained out;
  auto const start = steady_clock::now();
  if (verbose) print_heading();
  for (int epoch = 1; epoch <= with.epochs; ++epoch) {
    auto const begin = steady_clock::now();
    seconds const before = model.communication();
    std::shuffle(order.begin(), order.end(), random);
    double loss = 0;
    for (std::size_t at = 0; at < images; at += static_cast<std::size_t>(with.batch)) {
      std::size_t const batch = std::min(images - at, static_cast<std::size_t>(with.batch));
      std::vector<Eigen::Index> const chosen(order.begin() + static_cast<std::ptrdiff_t>(at),
                                             order.begin() + static_cast<std::ptrdiff_t>(at + batch));
      std::vector<int> labels;
      for (Eigen::Index const i : chosen) labels.push_back(data.training.labels[size_of(i)]);
      auto const& pixels = data.training.images;
      loss += model.learn(Eigen::MatrixXf(pixels(Eigen::seq(0, pixels.rows() - 1), chosen)), labels);
    }
    seconds const time = steady_clock::now() - begin, communication = model.communication() - before;
    auto const seen = model.evaluate(data.held_out.images, data.held_out.labels);
    std::array sums{loss / copies, communication / time};
    tutti::all_reduce(comm, sums);
    out.losses.push_back(sums[0] / static_cast<double>(images));
    out.accuracy = seen.right / static_cast<double>(data.held_out.labels.size());
    if (verbose)
      print_epoch(epoch, out.losses.back(), out.accuracy, static_cast<double>(images) / time.count(),
                  sums[1] / comm.size());
  }
  out.time = steady_clock::now() - start;
  out.communication = model.communication() / out.time;
  return out;
}

// Rank 0 trains once more, alone.
void compare_with_one_process(split const& data, settings const& with, trained const& together) {
  tutti::communicator<tutti::shm> alone(std::make_unique<tutti::shm>());
  trained const reference = train(alone, data, with, {}, false);
  std::printf("\n");
  print_comparison(reference, together, with.by.ranks());
  double difference = 0;  // relative
  for (std::size_t i = 0; i < reference.losses.size(); ++i) {
    if (!std::isfinite(reference.losses[i]))
      throw std::runtime_error("training diverges, also on one process; pass a smaller --rate");
    double const here = std::abs(together.losses[i] / reference.losses[i] - 1);
    if (!(here <= max_difference))
      throw std::runtime_error(
          "the losses of epoch " + std::to_string(i + 1) + " differ by " + std::to_string(100 * here) +
          " %; rounding explains 0.1 %, and more only if training is unstable: then pass a smaller "
          "--rate");
    difference = std::max(difference, here);
  }
  std::printf(
      "the relative difference between their losses is %.1e at most: the gradients are the same, but were added up in\n"
      "another order (up to %.0e is accepted)\n",
      difference, max_difference);
}

template <class Communicator>
void program(Communicator& comm, split const& data, settings const& with) {
  if (comm.is_main())
    std::printf(
        "%zu images to train on, %zu held out; %zu blocks, %zu features, %zu heads; batches of %d images\n"
        "a mesh of %d ranks: data %d%s x tensor %d%s x pipeline %d%s\n\n",
        data.training.labels.size(), data.held_out.labels.size(), with.model.depth, with.model.features,
        with.model.heads, with.batch, comm.size(), with.by.data,
        with.by.stage > 0 ? (" (shards of stage " + std::to_string(with.by.stage) + ")").c_str() : "", with.by.tensor,
        with.by.sequence ? " (and sequence)" : "", with.by.pipeline,
        with.by.pipeline > 1 ? (" (" + with.by.schedule + ")").c_str() : "");
  trained const result = train(comm, data, with, with.by, comm.is_main());
  if (comm.is_main()) compare_with_one_process(data, with, result);
}

digits first_of(digits const& all, std::size_t count) {
  return {all.images.leftCols(index_of(count)),
          {all.labels.begin(), all.labels.begin() + static_cast<std::ptrdiff_t>(count)}};
}

}  // namespace

int main(int argc, char** argv) {
  settings with{{.epochs = 5, .batch = 64, .rate = 2e-3}};
  CLI::App app("Trains a small vision transformer on handwritten digits, on a mesh of ranks.", "train_transformer");
  app.add_option("--data", with.by.data, "ranks that share each batch")
      ->check(CLI::Range(1, tutti::max_ranks))
      ->capture_default_str();
  app.add_option("--tensor", with.by.tensor, "ranks that share each layer")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_option("--pipeline", with.by.pipeline, "ranks that have different layers")
      ->check(CLI::Range(1, tutti::max_ranks))
      ->capture_default_str();
  app.add_option("--schedule", with.by.schedule, "of the pipeline: gpipe, 1f1b or interleaved")
      ->check(CLI::IsMember({"gpipe", "1f1b", "interleaved"}))
      ->capture_default_str();
  app.add_option(
         "--stage", with.by.stage,
         "what the ranks that share each batch divide. 0: nothing; 1: the optimiser's state; 2: gradients, too; 3: all")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  app.add_flag("--sequence", with.by.sequence, "the ranks that share layers also share the tokens between them");
  app.add_option("--microbatches", with.by.microbatches,
                 "parts of a rank's share of a batch; 0: four for each stage, or one without a pipeline")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--bucket-bytes", with.by.bucket_bytes, "gradients that are averaged at once, for example 25MiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_flag("--adapt", with.by.adapt, "begin with --bucket-bytes, and measure which size takes the least time");
  add_training_options(app, with, "the learning rate of Adam");
  app.add_option("--features", with.model.features, "numbers for each token; the hidden layers have four times as many")
      ->check(CLI::Range(4, 4096))
      ->capture_default_str();
  app.add_option("--heads", with.model.heads, "of attention; they divide the features")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--depth", with.model.depth, "blocks")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--images", with.images, "train on this many images only; 0: all")->capture_default_str();
  return run_program(app, argc, argv, [&] {
    with.complete();
    split data = read_digits(with.file);
    if (with.images > 0 && with.images < data.training.labels.size())
      data.training = first_of(data.training, with.images);
    on_ranks(with.by.ranks(), [&](auto& comm) { program(comm, data, with); });
  });
}
