// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training on a mesh: a loss is known on one axis, while ranks wait on the other, and in calls of a model.
// labels: processes waits
#include <doctest/doctest.h>

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "training/elastic/toy_job.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// Steps of a model whose parameters the ranks of one axis divide, and of which each layer ends with a sum over the other axis.
class steps_on_mesh {
 public:
  // The rank kills itself after so many of its sums; 0: never.
  explicit steps_on_mesh(int killed_after) : left_(killed_after) {}

  void run() {
    training::elastic_loop loop;
    loop.run(6, [&](auto& comm) { return make(comm); }, [&](auto&, std::uint64_t) { with_mesh([&] { take_step(); }); });
    expect(loop.comm().size() == 3, "a rank is lost that was alive");
  }

 private:
  // As docs/training.md says.
  template <class F>
  void with_mesh(F&& f) {
    try {
      f();
    } catch (error const& e) {
      mesh_->revoke(e);
      model_.reset();
      throw;
    }
  }
  std::vector<training::saved_array> make(communicator<shm>& comm) {
    model_.reset();
    int const across = comm.size() % 2 == 0 ? 2 : 1;
    mesh_.emplace(comm, std::vector<mesh_axis>{{"data", comm.size() / across}, {"tensor", across}});
    with_mesh([&] {
      model_.emplace(mesh_->along("data"), layers_, training::sgd{}, training::sharding_options{.stage = 3});
    });
    return {training::replicated("sum", sum_)};
  }
  void take_step() {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      auto const here = model_->gather(i);
      all_reduce(mesh_->along("tensor"), sum_, mean{});
      if (--left_ == 0) ::raise(SIGKILL);
    }
    for (std::size_t i = layers_.size(); i-- > 0;) {
      auto const here = model_->gather(i);
      std::ranges::fill(model_->gradient(i), 1.0f);
      model_->ready(i);
    }
    model_->step();
  }

  int left_;
  std::vector<double> sum_{1};
  std::vector<std::vector<float>> layers_{4, std::vector<float>(500)};
  std::optional<tutti::mesh<shm>> mesh_;
  std::optional<training::sharded_data_parallel<float, shm, training::sgd>> model_;
};

}  // namespace

TEST_CASE("a loss that is known on one axis of a mesh ends the calls on the other, and those of a model") {
  for (int const victim : {0, 1, 2, 3})
    for (int const after : {1, 7, 12}) {
      CAPTURE(victim);
      CAPTURE(after);
      std::string const name = toy_job::new_name();
      std::vector<pid_t> processes;
      for (int r = 0; r < 4; ++r)
        processes.push_back(fork_rank(name, r, 4, "60", [&] { steps_on_mesh(r == victim ? after : 0).run(); }));
      std::string const wrong = end_of_ranks(processes, std::chrono::seconds(100), [&](int r, int status) {
        return r == victim ? was_killed(status) : status == 0;
      });
      CHECK_MESSAGE(wrong.empty(), wrong);
    }
}
