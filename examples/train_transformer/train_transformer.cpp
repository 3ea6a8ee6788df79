// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains a small vision transformer on handwritten digits, on any mesh of ranks: --data ranks share each batch, --tensor
// ranks share each layer, --pipeline ranks have different layers (docs/training.md). The losses are those of one process,
// which the program computes at the end.
// With TUTTI_TRACE=trace in the environment, each rank writes a timeline of what was sent when (docs/faults.md).
// ranks: 8
// args: --data 2 --tensor 2 --pipeline 2 --epochs 1 --images 64 --features 16 --depth 2
// timeout: 300
#define EIGEN_DONT_PARALLELIZE  // ranks are the parallelism; threads of their own would fight for the cores
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "../train_digits/digits.hpp"
#include "on_ranks.hpp"
#include "trainer.hpp"
#include "tutti/launch/place.hpp"

namespace {

struct settings {
  architecture model;
  division by{.data = 2, .tensor = 2, .microbatches = 0};
  int epochs = 5;
  int batch = 64;
  std::size_t images = 0;  // all
  double rate = 2e-3;
};

// Two runs add the same numbers in a different order, so they differ by rounding (6e-8 per float addition), which training
// amplifies.
constexpr double max_difference = 1e-3;

using seconds = std::chrono::duration<double>;
using std::chrono::steady_clock;

struct outcome {
  std::vector<double> losses;  // of each epoch, a mean over images
  double accuracy = 0;
  seconds time{};
  double communication = 0;  // its share of the time
};

template <class Communicator>
outcome train(Communicator& comm, split const& data, settings const& with, division const& by, bool talk) {
  trainer<float, typename Communicator::transport_type> model(comm, with.model, by,
                                                              static_cast<std::size_t>(with.batch), with.rate);
  std::size_t const images = data.training.labels.size();
  std::vector<Eigen::Index> order(images);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(with.model.seed + 1);       // the same at all ranks, hence the same order
  double const copies = by.tensor * by.pipeline;  // ranks that report the same images

  outcome out;
  auto const start = steady_clock::now();
  if (talk) std::printf("epoch     loss   held-out    images/s   communication\n");
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
      loss += model.learn(Eigen::MatrixXf(data.training.images(Eigen::all, chosen)), labels);
    }
    seconds const time = steady_clock::now() - begin, talked = model.communication() - before;
    auto const seen = model.evaluate(data.held_out.images, data.held_out.labels);
    std::array sums{loss / copies, talked / time};
    tutti::all_reduce(comm, sums);
    out.losses.push_back(sums[0] / static_cast<double>(images));
    out.accuracy = seen.right / static_cast<double>(data.held_out.labels.size());
    if (talk) {
      std::printf("%5d %8.4f %9.2f%% %11.0f %14.0f%%\n", epoch, out.losses.back(), 100 * out.accuracy,
                  static_cast<double>(images) / time.count(), 100 * sums[1] / comm.size());
      std::fflush(stdout);
    }
  }
  out.time = steady_clock::now() - start;
  out.communication = model.communication() / out.time;
  return out;
}

// Rank 0 trains once more, alone.
void compare_with_one_process(split const& data, settings const& with, outcome const& together) {
  tutti::communicator<tutti::shm> alone(std::make_unique<tutti::shm>());
  outcome const reference = train(alone, data, with, {}, false);
  std::printf(
      "\none process alone: held-out %.2f%% in %.2f s (together: %.2f%% in %.2f s, %.0f%% in communication)\n"
      "%d ranks were %.2f times as fast as one process\n",
      100 * reference.accuracy, reference.time.count(), 100 * together.accuracy, together.time.count(),
      100 * together.communication, with.by.ranks(), reference.time / together.time);
  double difference = 0;
  for (std::size_t i = 0; i < reference.losses.size(); ++i)
    difference = std::max(difference, std::abs(together.losses[i] / reference.losses[i] - 1));
  std::printf(
      "its losses differ by at most %.1e of theirs: the same gradients, added up in another order (up to %.0e is "
      "accepted)\n",
      difference, max_difference);
  if (!(difference <= max_difference)) throw std::runtime_error("the losses differ by more than rounding explains");
}

template <class Communicator>
void program(Communicator& comm, split const& data, settings const& with) {
  if (comm.is_main())
    std::printf(
        "%zu images to train on, %zu held out; %zu blocks of %zu features, %zu heads\n"
        "%d ranks: batches of %d are shared by %d, layers by %d%s, and the model has %d stages%s\n\n",
        data.training.labels.size(), data.held_out.labels.size(), with.model.depth, with.model.features,
        with.model.heads, comm.size(), with.batch, with.by.data, with.by.tensor,
        with.by.sequence ? " with the tokens between them" : "", with.by.pipeline,
        with.by.pipeline > 1 ? (" (" + with.by.schedule + ")").c_str() : "");
  outcome const result = train(comm, data, with, with.by, comm.is_main());
  if (comm.is_main()) compare_with_one_process(data, with, result);
}

digits first_of(digits const& all, std::size_t count) {
  return {all.images.leftCols(index_of(count)),
          {all.labels.begin(), all.labels.begin() + static_cast<std::ptrdiff_t>(count)}};
}

}  // namespace

int main(int argc, char** argv) try {
  settings with;
  std::string path = TUTTI_EXAMPLE_DATA "/digits.csv.gz";
  CLI::App app("Trains a small vision transformer on handwritten digits, on a mesh of ranks.");
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
  app.add_flag("--sequence", with.by.sequence, "the ranks that share layers also share the tokens between them");
  app.add_option("--microbatches", with.by.microbatches,
                 "parts of a rank's share of a batch; 0: four for each stage, or one")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--epochs", with.epochs, "times that each image is seen")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--batch", with.batch, "images a step, of all ranks together")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--rate", with.rate, "learning rate of Adam")->capture_default_str();
  app.add_option("--features", with.model.features, "numbers for each token; the hidden layers have four times as many")
      ->check(CLI::Range(4, 4096))
      ->capture_default_str();
  app.add_option("--heads", with.model.heads, "of attention; they divide the features")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--depth", with.model.depth, "blocks")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--seed", with.model.seed, "of the first weights and the order of images")->capture_default_str();
  app.add_option("--images", with.images, "use this many images only; 0: all")->capture_default_str();
  app.add_option("--file", path, "lines of 64 pixels and a label, compressed or not")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (with.by.microbatches == 0) with.by.microbatches = with.by.pipeline > 1 ? 4 * with.by.pipeline : 1;
  with.model.hidden = 4 * with.model.features;
  if (with.model.features % with.model.heads != 0) {
    std::fprintf(stderr, "train_transformer: --features %zu is no multiple of --heads %zu\n", with.model.features,
                 with.model.heads);
    return 2;
  }
  tutti::place const here = tutti::find_place();
  if (!here.launcher.empty() && with.by.ranks() != here.size) {
    std::fprintf(stderr,
                 "train_transformer: --data %d --tensor %d --pipeline %d is a mesh of %d ranks, but %s started %d\n",
                 with.by.data, with.by.tensor, with.by.pipeline, with.by.ranks(), here.launcher.c_str(), here.size);
    return 2;
  }
  split data = read_digits(path);
  if (with.images > 0 && with.images < data.training.labels.size())
    data.training = first_of(data.training, with.images);
  on_ranks(with.by.ranks(), [&](auto& comm) { program(comm, data, with); });
} catch (data_error const& e) {
  std::fprintf(stderr, "train_transformer: %s\n", e.what());
  return 2;
} catch (std::exception const& e) {
  std::fprintf(stderr, "train_transformer: %s\n", e.what());
  return 1;
}
