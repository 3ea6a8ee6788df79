// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training of the network of train_digits: a rank kills itself, the others go on, and tutti-run starts another in its
// place, which joins them. The weights are those of one process that nobody has disturbed, bit for bit (docs/training.md).
//
//   tutti-run --elastic 2:4 train_elastic --kill 2 --at 30
//
// Each batch is divided into a fixed number of shards. The gradient of a shard depends on the shard alone, and gradients are
// added in tutti::binned, so the sum depends neither on their order nor on which rank has which shard.
// args: --steps 60
// labels: computes
// timeout: 300
#define EIGEN_DONT_PARALLELIZE  // ranks are the parallelism; threads of their own would fight for the cores
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "../digits/digits.hpp"
#include "../digits/training.hpp"
#include "../train_digits/network.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace {

struct settings {
  std::uint64_t steps = 300;
  int ranks = 4;  // without a launcher
  int kill = 2;   // the member that kills itself, or -1
  std::uint64_t at = 30;
  int pause = 0;  // milliseconds in each step
  std::string folder{};
  std::uint64_t every = 50;
};

constexpr std::size_t batch = 128, shards = 16;
constexpr float rate = 0.1f, decay = 0.9f;
constexpr Eigen::Index hidden = 64;

// What network::learn asks of a model: the weights, and room for the gradients of one shard.
struct shard_model {
  struct always_here {
    ~always_here() {}  // so that an object of it counts as used
  };

  std::vector<tutti::training::parameter<float>> const parameters, gradients;
  std::span<float const> parameter(std::size_t i) const { return parameters[i].values; }
  std::span<float> gradient(std::size_t i) const { return gradients[i].values; }
  always_here gather(std::size_t) const { return {}; }
  void ready(std::size_t) const {}
};

class course {
 public:
  explicit course(split const& data)
      : data_(data),
        net_(hidden),
        weights_(net_.draw_weights(1)),
        gradient_(Eigen::VectorXf::Zero(net_.size())),
        model_{net_.parameters(weights_), net_.parameters(gradient_)},
        order_(data.training.labels.size()) {
    std::iota(order_.begin(), order_.end(), 0);
  }
  course(course const&) = delete;
  course& operator=(course const&) = delete;

  // All on which a step depends.
  template <class Comm>
  std::vector<tutti::training::saved_array> state(Comm& comm) {
    using namespace tutti::training;
    mine_ = tutti::part(static_cast<std::size_t>(net_.size()), comm.size(), comm.rank());
    momentum_.resize(mine_.count);
    return {replicated("weights", std::span(weights_.data(), static_cast<std::size_t>(weights_.size()))),
            replicated("order", order_), replicated("position", position_), replicated("random", random_),
            divided("momentum", momentum_)};
  }

  template <class Comm>
  void step(Comm& comm) {
    if (position_ == 0) std::shuffle(order_.begin(), order_.end(), random_);
    std::size_t const images = std::min(batch, order_.size() - position_);
    std::vector<tutti::binned<float>> sums(static_cast<std::size_t>(net_.size()));
    tutti::extent const own = tutti::part(shards, comm.size(), comm.rank());
    for (std::size_t s = own.begin; s < own.begin + own.count; ++s) {
      tutti::extent const part = tutti::part(images, static_cast<int>(shards), static_cast<int>(s));
      net_.learn(data_.training, std::span(order_).subspan(position_ + part.begin, part.count),
                 1 / static_cast<float>(images), model_);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gradient_[static_cast<Eigen::Index>(i)];
    }
    tutti::all_reduce(comm, sums);
    std::vector<float> changed(mine_.count);
    for (std::size_t i = 0; i < mine_.count; ++i) {
      momentum_[i] = decay * momentum_[i] + sums[mine_.begin + i].value();
      changed[i] = weights_[static_cast<Eigen::Index>(mine_.begin + i)] - rate * momentum_[i];
    }
    std::vector<std::size_t> counts;
    for (int r = 0; r < comm.size(); ++r) counts.push_back(tutti::part(sums.size(), comm.size(), r).count);
    tutti::all_gather_v(comm, changed, std::span(weights_.data(), sums.size()), counts);
    position_ = position_ + images == order_.size() ? 0 : position_ + images;
  }

  double accuracy() {
    auto const count = static_cast<Eigen::Index>(data_.held_out.labels.size());
    return net_.evaluate(data_.held_out, 0, count, model_).right / static_cast<double>(count);
  }
  Eigen::VectorXf const& weights() const { return weights_; }

 private:
  split const& data_;
  network net_;
  Eigen::VectorXf weights_, gradient_;
  shard_model const model_;
  std::vector<Eigen::Index> order_;  // of the images of an epoch
  std::uint64_t position_ = 0;       // in it
  std::mt19937 random_{2};
  tutti::extent mine_{};  // this rank's part of the momentum
  std::vector<float> momentum_;
};

// Prints what the members report, once: the lowest member that lives does.
class printer {
 public:
  printer(int number, int members) : number_(number) {
    for (int m = 0; m < members; ++m) live_.insert(m);
  }
  void operator()(tutti::training::transition const& seen) {
    using tutti::training::member_state;
    if (seen.who.state == member_state::failed) live_.erase(seen.who.number);
    if (!live_.empty() && *live_.begin() == number_) {
      std::printf("%s\n", seen.text().c_str());
      std::fflush(stdout);
    }
    // Only now: a process that has just joined does not know what has happened before.
    if (seen.who.state == member_state::healthy) live_.insert(seen.who.number);
  }

 private:
  int number_;
  std::set<int> live_;
};

template <class Loop>
void train(Loop& loop, split const& data, settings const& with, int number, bool replaces) {
  course all(data);
  loop.run(
      with.steps, [&](auto& comm) { return all.state(comm); },
      [&](auto& comm, std::uint64_t step) {
        std::this_thread::sleep_for(std::chrono::milliseconds(with.pause));
        if (number == with.kill && step == with.at && !replaces) {
          std::printf("member %d kills itself in step %llu\n", number, static_cast<unsigned long long>(step));
          std::fflush(stdout);
          ::raise(SIGKILL);
        }
        all.step(comm);
      });
  if (!loop.comm().is_main()) return;
  std::printf("%d ranks have completed %llu steps; held-out accuracy %.2f %%\n", loop.comm().size(),
              static_cast<unsigned long long>(loop.step()), 100 * all.accuracy());
  course alone(data);
  tutti::communicator<tutti::shm> single(std::make_unique<tutti::shm>());
  alone.state(single);
  for (std::uint64_t step = 0; step < with.steps; ++step) alone.step(single);
  if (alone.weights() != all.weights()) throw std::runtime_error("one process alone has other weights");
  std::printf("one process alone has the same weights, bit for bit\n");
}

tutti::training::elastic_options options_of(settings const& with, int number, int members) {
  return {.checkpoint_every = with.folder.empty() ? 0 : with.every,
          .folder = with.folder,
          .suspect_after = std::chrono::seconds(2),
          .report = printer(number, members)};
}

}  // namespace

int main(int argc, char** argv) {
  settings with;
  std::string path = TUTTI_EXAMPLE_DATA "/digits.csv.gz";
  CLI::App app("Trains a network on handwritten digits on ranks of which one is lost.", "train_elastic");
  app.add_option("--steps", with.steps, "steps of the training")->capture_default_str();
  app.add_option("--ranks", with.ranks, "processes to start, unless a launcher did")
      ->check(CLI::Range(1, tutti::max_ranks))
      ->capture_default_str();
  app.add_option("--kill", with.kill, "the member that kills itself; -1: none")->capture_default_str();
  app.add_option("--at", with.at, "the step in which it does")->capture_default_str();
  app.add_option("--pause", with.pause, "milliseconds that each step takes longer, so that there is time to watch")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  app.add_option("--folder", with.folder, "a folder for checkpoints, from which another run goes on");
  app.add_option("--every", with.every, "steps between checkpoints")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--file", path, "lines of 64 pixels and a label, compressed or not")->capture_default_str();
  return run_program(app, argc, argv, [&] {
    split const data = read_digits(path);
    tutti::place const here = tutti::find_place();
    if (!here.launcher.empty()) {
      tutti::training::elastic_loop loop(options_of(with, here.rank, here.size));
      train(loop, data, with, here.rank, std::getenv("TUTTI_ELASTIC_JOIN") != nullptr);
    } else {
      try {
        tutti::run_local(with.ranks, [&](auto& comm) {
          int const number = comm.rank();
          tutti::training::elastic_loop loop(std::move(comm), options_of(with, number, with.ranks));
          train(loop, data, with, number, false);
        });
      } catch (tutti::error const& e) {  // names every rank that has failed, and so the one that was killed
        if (with.ranks == 1 || e.peer() != with.kill || e.happened().find('\n') != std::string::npos) throw;
      }
    }
  });
}
