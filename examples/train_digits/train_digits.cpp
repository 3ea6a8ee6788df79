// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data-parallel training of a network on handwritten digits. Every rank computes gradients for its share of each batch;
// tutti::training averages the gradients of a layer while the rank computes those of the layers before it (docs/training.md).
// The steps are those that one process takes with whole batches. With --stage 1, 2 or 3 the ranks divide the optimiser's
// state, the gradients and the parameters among themselves; with --hook they send compressed gradients.
// ranks: 4
// args: --ranks 4 --hidden 64
// labels: computes
// timeout: 300
#define EIGEN_DONT_PARALLELIZE  // ranks are the parallelism; threads of their own would fight for the cores
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
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
#include "hooks.hpp"
#include "network.hpp"
#include "on_ranks.hpp"
#include "record.hpp"
#include "tutti/training.hpp"
#include "whole_model.hpp"

namespace {

struct settings : training_options {
  int ranks = 4;
  int hidden = 512;
  int stage = 0;  // of sharding
  std::string hook = "none";
  std::string record{};  // a folder

  settings() : training_options{.epochs = 20, .batch = 128, .rate = 0.1} {}

  // Small batches are noisy and take smaller steps.
  tutti::training::momentum rule() const { return {.rate = rate * std::min(batch, 128) / 128}; }

  // Refuses options that do not work together.
  void check() const {
    if (stage == 0) return;
    std::string const sharded = " with --stage " + std::to_string(stage);
    if (hook != "none") throw usage_error("--hook " + hook + sharded + ": hooks need stage 0; omit one of the two");
    if (!record.empty()) throw usage_error("--record" + sharded + ": only stage 0 is recorded; omit one of the two");
  }
};

// What the result is checked for. Two runs add the same numbers in a different order, so they differ by rounding (6e-8 per
// float addition), which hundreds of steps amplify. Hooks that round gradients or leave some out change the weights, but the
// loss must be nearly the same.
constexpr double min_accuracy = 0.95, max_difference = 1e-4, max_loss = 0.02;

// The gradients of the third layer are sent while those of the second are computed, which are the most and fill a bucket.
constexpr tutti::training::bucket_sizes buckets{.bytes = 1 << 20, .first_bytes = 64 << 10};

using std::chrono::steady_clock;

struct trained : outcome {
  Eigen::VectorXf weights;
  double loss = 0;     // of the last epoch
  seconds learning{};  // the time without the evaluation of held-out images
};

double kib(std::size_t bytes) { return static_cast<double>(bytes) / 1024; }

// The time in which a rank communicated and did nothing else.
seconds communication_of(tutti::training::training_statistics const& all) { return all.waited + all.driven; }
seconds communication_of(tutti::training::sharding_statistics const& all) {
  return all.waited + all.driven + all.gather_waited;
}

// One training of a network by the ranks of a communicator.
template <class Communicator>
class training_run {
 public:
  training_run(Communicator& comm, split const& data, settings const& with, bool verbose)
      : comm_(comm),
        data_(data),
        with_(with),
        verbose_(verbose),
        net_(with.hidden),
        order_(data.training.labels.size()),
        random_(with.seed + 1),  // the same at all ranks, hence the same order
        file_(verbose ? with.record : "") {
    std::iota(order_.begin(), order_.end(), 0);
  }

  trained train() {
    Eigen::VectorXf weights = net_.draw_weights(with_.seed);
    file_.weights(weights);
    return with_.stage == 0 ? train_whole(weights) : train_sharded(weights);
  }

 private:
  trained train_whole(Eigen::VectorXf& weights) {
    whole_model model(comm_, net_.parameters(weights), with_.rule(), {.buckets = buckets}, with_.hook);
    trained const out = all_epochs(model);
    auto const& seen = model.statistics();
    std::size_t const bytes = seen.message_bytes / seen.steps;
    if (verbose_)
      std::printf("\n%zu bytes per step from each rank, %.1f %% of its gradients (hook %s)\n", bytes,
                  100 * static_cast<double>(seen.message_bytes) / static_cast<double>(seen.bytes), with_.hook.c_str());
    if (!with_.record.empty()) {
      double const steps = static_cast<double>(seen.steps);
      file_.step(1e6 * out.learning.count() / steps, 1e6 * epoch_alone(model).count() * with_.epochs / steps, bytes);
    }
    return out;
  }

  trained train_sharded(Eigen::VectorXf& weights) {
    tutti::training::sharded_data_parallel model(
        comm_, net_.parameters(weights), with_.rule(),
        {.stage = with_.stage, .units = std::vector<std::size_t>(network::layers, 2), .buckets = buckets});
    weights.resize(0);  // the model has copied them
    trained const out = all_epochs(model);
    auto const peak = model.memory().peak;
    if (verbose_)
      std::printf(
          "\nstage %d: a rank held up to %.0f KiB of parameters, %.0f of gathered ones, %.0f of gradients, %.0f of\n"
          "the optimiser's state\n",
          with_.stage, kib(peak.parameters), kib(peak.gathered), kib(peak.gradients), kib(peak.state));
    return out;
  }

  template <class Model>
  trained all_epochs(Model& model) {
    trained out;
    auto const start = steady_clock::now();
    if (verbose_) print_heading();
    for (int epoch = 1; epoch <= with_.epochs; ++epoch) one_epoch(epoch, model, out);
    out.time = steady_clock::now() - start;
    out.communication = communication_of(model.statistics()) / out.time;
    out.weights = weights_of(model);
    return out;
  }

  template <class Model>
  void one_epoch(int epoch, Model& model, trained& out) {
    std::shuffle(order_.begin(), order_.end(), random_);
    file_.order(order_);
    auto const begin = steady_clock::now();
    seconds const before = communication_of(model.statistics());
    network::score const learned = learn_all(model, [&] { model.step(); });
    seconds const took = steady_clock::now() - begin;
    out.learning += took;

    std::size_t const images = order_.size(), held_out = data_.held_out.labels.size();
    tutti::extent const mine = tutti::part(held_out, comm_.size(), comm_.rank());
    auto const seen = net_.evaluate(data_.held_out, static_cast<Eigen::Index>(mine.begin),
                                    static_cast<Eigen::Index>(mine.count), model);
    double const share = (communication_of(model.statistics()) - before) / (steady_clock::now() - begin);
    std::array sums{learned.loss, seen.right, share};
    tutti::all_reduce(comm_, sums);
    out.loss = sums[0] / static_cast<double>(images);
    out.accuracy = sums[1] / static_cast<double>(held_out);
    double const rate = static_cast<double>(images) / took.count();
    file_.epoch(epoch, out.loss, out.accuracy, rate);
    if (verbose_) print_epoch(epoch, out.loss, out.accuracy, rate, sums[2] / comm_.size());
  }

  // Learns from all images, in batches, and calls end_of_step() after each.
  template <class Model, class F>
  network::score learn_all(Model& model, F end_of_step) {
    network::score learned;
    int const ranks = comm_.size();
    std::size_t const images = order_.size();
    for (std::size_t at = 0; at < images; at += static_cast<std::size_t>(with_.batch)) {
      std::size_t const batch = std::min(images - at, static_cast<std::size_t>(with_.batch));
      // Shares differ by one image at most, and may be empty.
      tutti::extent const mine = tutti::part(batch, ranks, comm_.rank());
      // Scaled so that the mean over ranks is the mean over the images of the batch, whatever the shares.
      float const scale = static_cast<float>(ranks) / static_cast<float>(batch);
      auto const chosen = std::span(order_).subspan(at + mine.begin, mine.count);
      learned.loss += net_.learn(data_.training, chosen, scale, model).loss;
      end_of_step();
    }
    return learned;
  }

  // The time of an epoch without communication. The weights are of no use afterwards.
  seconds epoch_alone(whole_model<Communicator>& model) {
    auto const local = model.accumulate();
    tutti::barrier(comm_);
    auto const begin = steady_clock::now();
    learn_all(model, [&] { model.step_alone(); });
    return steady_clock::now() - begin;
  }

  template <class Model>
  Eigen::VectorXf weights_of(Model& model) const {
    Eigen::VectorXf weights(net_.size());
    auto const places = net_.parameters(weights);
    for (std::size_t l = 0; l < network::layers; ++l) {
      auto const here = model.gather(l);
      for (std::size_t const i : {2 * l, 2 * l + 1}) std::ranges::copy(model.parameter(i), places[i].values.begin());
    }
    return weights;
  }

  Communicator& comm_;
  split const& data_;
  settings const& with_;
  bool verbose_;
  network net_;
  std::vector<Eigen::Index> order_;  // of the images of an epoch
  std::mt19937 random_;
  record file_;
};

// The hash of all bits (FNV-1a).
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

// Rank 0 trains once more, alone, with whole batches and without a hook.
void compare_with_one_process(split const& data, settings const& with, trained const& together, int ranks) {
  tutti::communicator<tutti::shm> alone(std::make_unique<tutti::shm>());
  settings whole = with;
  whole.stage = 0;
  whole.hook = "none";
  whole.record.clear();
  trained const reference = training_run(alone, data, whole, false).train();
  double const difference =
      (reference.weights - together.weights).cwiseAbs().maxCoeff() / reference.weights.cwiseAbs().maxCoeff();
  print_comparison(reference, together, ranks);
  if (with.hook != "none") {
    std::printf("loss in the last epoch: alone %.4f, together with hook %s %.4f (up to %.2f more is accepted)\n",
                reference.loss, with.hook.c_str(), together.loss, max_loss);
    if (!(together.loss <= reference.loss + max_loss))
      throw std::runtime_error("training with this hook does not converge as it does without; pass a smaller --rate");
    return;
  }
  std::printf(
      "the weights of both differ by at most %.1e times the greatest weight: the gradients are the same, but were "
      "added\n"
      "up and rounded in another order (up to %.0e is accepted)\n",
      difference, max_difference);
  if (!(difference <= max_difference)) throw std::runtime_error("the weights differ by more than rounding explains");
}

template <class Communicator>
void program(Communicator& comm, split const& data, settings const& with) {
  if (comm.is_main())
    std::printf(
        "%zu images to train on, %zu held out (every fifth); %d ranks, %d images a batch, %d hidden units a layer\n\n",
        data.training.labels.size(), data.held_out.labels.size(), comm.size(), with.batch, with.hidden);
  trained const result = training_run(comm, data, with, comm.is_main()).train();
  expect_same_bits(comm, result.weights);
  if (!comm.is_main()) return;
  compare_with_one_process(data, with, result, comm.size());
  if (result.accuracy < min_accuracy)
    throw std::runtime_error("held-out accuracy is below 95 %: train for more --epochs, or with another --seed");
}

}  // namespace

int main(int argc, char** argv) {
  settings with;
  CLI::App app("Trains a network on handwritten digits, on several ranks.", "train_digits");
  auto const* const ranks = app.add_option("--ranks", with.ranks, "processes to start, unless a launcher did")
                                ->check(CLI::Range(1, tutti::max_ranks))
                                ->capture_default_str();
  add_training_options(app, with,
                       "the learning rate for batches of 128 images or more; for top_k and one_bit, pass 0.01");
  app.add_option("--hidden", with.hidden, "units of each hidden layer")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--stage", with.stage,
                 "what ranks divide. 0: nothing; 1: the optimiser's state; 2: gradients, too; 3: all")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  app.add_option("--hook", with.hook, "how gradients travel")
      ->check(CLI::IsMember(named_hooks()))
      ->capture_default_str();
  app.add_option("--record", with.record, "a folder for the initial weights, the order of images, and results");
  return run_program(app, argc, argv, [&] {
    with.check();
    if (ranks->count() > 0)
      expect_started(with.ranks, "--ranks " + std::to_string(with.ranks), "omit --ranks under a launcher");
    split const data = read_digits(with.file);
    on_ranks(with.ranks, [&](auto& comm) { program(comm, data, with); });
  });
}
