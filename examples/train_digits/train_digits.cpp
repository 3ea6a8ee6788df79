// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data-parallel training of a network on handwritten digits. Every rank has the weights and computes the gradients of
// its share of each batch; tutti::training averages those of a layer while the rank computes those of the layers before
// (docs/training.md). The steps are those that one process takes with whole batches. With --stage 1, 2 or 3 the ranks
// divide the optimiser's state, the gradients and the parameters among themselves.
// ranks: 4
// args: --ranks 4 --hidden 64
// timeout: 300
#define EIGEN_DONT_PARALLELIZE  // ranks are the parallelism; threads of their own would fight for the cores
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "digits.hpp"
#include "network.hpp"
#include "on_ranks.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/training.hpp"

namespace {

struct settings {
  int ranks = 4;
  int epochs = 20;
  int batch = 128;
  int hidden = 512;
  unsigned seed = 1;
  int stage = 0;  // of sharding

  // Small batches are noisy and take smaller steps.
  tutti::training::momentum rule() const { return {.rate = 0.1 * std::min(batch, 128) / 128}; }
};

// The requirements at the end. Two runs add the same numbers in a different order, so they differ by rounding (6e-8 per
// float addition), which a thousand steps of training amplify.
constexpr double min_accuracy = 0.95, max_difference = 1e-4;

// The third layer's gradients are sent while those of the second are computed, the largest, which fill a bucket.
constexpr tutti::training::bucket_sizes buckets{.bytes = 1 << 20, .first_bytes = 64 << 10};

using seconds = std::chrono::duration<double>;
using std::chrono::steady_clock;

struct outcome {
  Eigen::VectorXf weights;
  double accuracy = 0;
  seconds time{};
  double communication = 0;  // its share of the time
};

double kib(std::size_t bytes) { return static_cast<double>(bytes) / 1024; }

// The time during which a rank communicated and did nothing else.
seconds talked(tutti::training::training_statistics const& all) { return all.waited + all.driven; }
seconds talked(tutti::training::sharding_statistics const& all) { return all.waited + all.driven + all.gather_waited; }

// A model that every rank holds as a whole, with the functions of sharded_data_parallel.
template <class Communicator>
class whole_model {
 public:
  whole_model(Communicator& comm, std::vector<tutti::training::parameter<float>> const& parameters,
              tutti::training::momentum const& rule, std::size_t numbers)
      : parameters_(parameters), gradients_(comm, parameters, {.buckets = buckets}), descent_(numbers, rule) {}

  struct always_here {
    ~always_here() {}  // so that an object of it counts as used
  };
  always_here gather(std::size_t) const { return {}; }
  std::span<float const> parameter(std::size_t i) const { return parameters_[i].values; }
  std::span<float> gradient(std::size_t i) { return gradients_.gradient(i); }
  void ready(std::size_t i) { gradients_.ready(i); }
  void step() {
    gradients_.finish();
    descent_.step(parameters_, gradients_);
  }
  tutti::training::training_statistics const& statistics() const { return gradients_.statistics(); }

 private:
  std::vector<tutti::training::parameter<float>> parameters_;
  decltype(tutti::training::data_parallel(std::declval<Communicator&>(), parameters_)) gradients_;
  tutti::training::optimizer<float, tutti::training::momentum> descent_;
};

template <class Communicator, class Model>
outcome train(Communicator& comm, network& net, Model& model, split const& data, settings const& with, bool talk) {
  int const ranks = comm.size(), rank = comm.rank();
  std::size_t const images = data.training.labels.size(), held_out = data.held_out.labels.size();
  std::vector<Eigen::Index> order(images);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(with.seed + 1);  // the same at all ranks, hence the same order
  double accuracy = 0;

  auto const start = steady_clock::now();
  if (talk) std::printf("epoch     loss   held-out    images/s   communication\n");
  for (int epoch = 1; epoch <= with.epochs; ++epoch) {
    auto const begin = steady_clock::now();
    seconds const before = talked(model.statistics());
    network::score learned;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t at = 0; at < images; at += static_cast<std::size_t>(with.batch)) {
      std::size_t const batch = std::min(images - at, static_cast<std::size_t>(with.batch));
      tutti::extent const mine = tutti::part(batch, ranks, rank);  // shares differ by one image at most; may be empty
      // Scaled so that the mean over ranks is the mean over the images of the batch, whatever the shares.
      float const scale = static_cast<float>(ranks) / static_cast<float>(batch);
      learned.loss +=
          net.learn(data.training, std::span(order).subspan(at + mine.begin, mine.count), scale, model).loss;
      model.step();
    }
    double const rate = static_cast<double>(images) / seconds(steady_clock::now() - begin).count();

    tutti::extent const mine = tutti::part(held_out, ranks, rank);
    auto const seen = net.evaluate(data.held_out, static_cast<Eigen::Index>(mine.begin),
                                   static_cast<Eigen::Index>(mine.count), model);
    double const share = (talked(model.statistics()) - before) / (steady_clock::now() - begin);
    std::array sums{learned.loss, seen.right, share};
    tutti::all_reduce(comm, sums);
    accuracy = sums[1] / static_cast<double>(held_out);
    if (talk) {
      std::printf("%5d %8.4f %9.2f%% %11.0f %14.0f%%\n", epoch, sums[0] / static_cast<double>(images), 100 * accuracy,
                  rate, 100 * sums[2] / ranks);
      std::fflush(stdout);
    }
  }
  seconds const time = steady_clock::now() - start;
  outcome out{Eigen::VectorXf(net.size()), accuracy, time, talked(model.statistics()) / time};
  auto const places = net.parameters(out.weights);
  for (std::size_t l = 0; l < network::layers; ++l) {
    auto const here = model.gather(l);
    for (std::size_t const i : {2 * l, 2 * l + 1}) std::ranges::copy(model.parameter(i), places[i].values.begin());
  }
  return out;
}

template <class Communicator>
outcome train(Communicator& comm, split const& data, settings const& with, bool talk) {
  network net(with.hidden);
  Eigen::VectorXf weights = net.draw_weights(with.seed);
  auto const parameters = net.parameters(weights);
  if (with.stage == 0) {
    whole_model model(comm, parameters, with.rule(), static_cast<std::size_t>(net.size()));
    return train(comm, net, model, data, with, talk);
  }
  tutti::training::sharded_data_parallel model(
      comm, parameters, with.rule(),
      {.stage = with.stage, .units = std::vector<std::size_t>(network::layers, 2), .buckets = buckets});
  weights.resize(0);  // the model has copied them
  outcome const out = train(comm, net, model, data, with, talk);
  if (talk) {
    auto const peak = model.memory().peak;
    std::printf(
        "\nstage %d: a rank held up to %.0f KiB of parameters, %.0f of gathered ones, %.0f of gradients, %.0f of\n"
        "the optimiser's state\n",
        with.stage, kib(peak.parameters), kib(peak.gathered), kib(peak.gradients), kib(peak.state));
  }
  return out;
}

// A number that two vectors share only where all their bits are the same, as good as certainly (FNV-1a).
std::uint64_t hash_of(Eigen::VectorXf const& weights) {
  std::uint64_t hash = 14695981039346656037u;
  for (std::byte const b : std::as_bytes(std::span(weights.data(), static_cast<std::size_t>(weights.size()))))
    hash = (hash ^ static_cast<std::uint64_t>(b)) * 1099511628211u;
  return hash;
}

template <class Communicator>
void expect_same_bits(Communicator& comm, Eigen::VectorXf const& weights) {
  std::array<std::uint64_t, 1> const mine{hash_of(weights)};
  std::array<std::uint64_t, 1> least{}, greatest{};
  tutti::all_reduce(comm, mine, least, tutti::min{});
  tutti::all_reduce(comm, mine, greatest, tutti::max{});
  if (least != greatest) throw std::runtime_error("the ranks hold different weights");
  if (comm.is_main())
    std::printf("\nall %d ranks hold the same weights, bit for bit (hash %016llx)\n", comm.size(),
                static_cast<unsigned long long>(mine[0]));
}

// Rank 0 trains once more, alone, with whole batches.
void compare_with_one_process(split const& data, settings const& with, outcome const& together, int ranks) {
  tutti::communicator<tutti::shm> alone(std::make_unique<tutti::shm>());
  settings whole = with;
  whole.stage = 0;
  outcome const reference = train(alone, data, whole, false);
  double const difference =
      (reference.weights - together.weights).cwiseAbs().maxCoeff() / reference.weights.cwiseAbs().maxCoeff();
  std::printf("one process alone: held-out %.2f%% in %.0f ms (together: %.2f%% in %.0f ms, %.0f%% in communication)\n",
              100 * reference.accuracy, 1e3 * reference.time.count(), 100 * together.accuracy,
              1e3 * together.time.count(), 100 * together.communication);
  std::printf("%d ranks were %.2f times as fast as one process\n", ranks, reference.time / together.time);
  std::printf(
      "its weights differ by at most %.1e of the greatest weight: the same gradients, added up in another order and\n"
      "rounded to float on the way (up to %.0e is accepted)\n",
      difference, max_difference);
  if (!(difference <= max_difference)) throw std::runtime_error("the weights differ by more than rounding explains");
}

template <class Communicator>
void program(Communicator& comm, split const& data, settings const& with) {
  if (comm.is_main())
    std::printf(
        "%zu images to train on, %zu held out (every fifth); %d ranks, %d images a batch, %d hidden units a layer\n\n",
        data.training.labels.size(), data.held_out.labels.size(), comm.size(), with.batch, with.hidden);
  outcome const result = train(comm, data, with, comm.is_main());
  expect_same_bits(comm, result.weights);
  if (!comm.is_main()) return;
  compare_with_one_process(data, with, result, comm.size());
  if (result.accuracy < min_accuracy)
    throw std::runtime_error("held-out accuracy is below 95 %: train for more --epochs, or with another --seed");
}

}  // namespace

int main(int argc, char** argv) try {
  settings with;
  std::string path = TUTTI_EXAMPLE_DATA "/digits.csv.gz";
  CLI::App app("Trains a network on handwritten digits, on several ranks.");
  auto const* const ranks = app.add_option("--ranks", with.ranks, "processes to start, unless a launcher did")
                                ->check(CLI::Range(1, tutti::max_ranks))
                                ->capture_default_str();
  app.add_option("--epochs", with.epochs, "times that each image is seen")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--batch", with.batch, "images a step, of all ranks together")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--hidden", with.hidden, "units of each hidden layer")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--seed", with.seed, "of the first weights and the order of images")->capture_default_str();
  app.add_option("--stage", with.stage,
                 "what ranks divide. 0: nothing; 1: the optimiser's state; 2: gradients, too; 3: all")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  app.add_option("--data", path, "lines of 64 pixels and a label, compressed or not")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }

  tutti::place const here = tutti::find_place();
  if (!here.launcher.empty() && ranks->count() > 0 && with.ranks != here.size) {
    std::fprintf(stderr, "train_digits: --ranks %d, but %s started %d; leave --ranks away under a launcher\n",
                 with.ranks, here.launcher.c_str(), here.size);
    return 2;
  }
  split const data = read_digits(path);
  on_ranks(with.ranks, [&](auto& comm) { program(comm, data, with); });
} catch (data_error const& e) {
  std::fprintf(stderr, "train_digits: %s\n", e.what());
  return 2;
} catch (std::exception const& e) {
  std::fprintf(stderr, "train_digits: %s\n", e.what());
  return 1;
}
