// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parameters of some blocks, which the ranks of the data axis train together: every rank has all of them, or they are sharded.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <tutti/training.hpp>

// What the two have in common; sharded_data_parallel describes it. A block is a unit.
template <class T>
class shared_parameters {
 public:
  virtual ~shared_parameters() = default;

  virtual std::shared_ptr<void const> gather(std::size_t block) = 0;
  virtual std::span<T const> parameter(std::size_t i) = 0;
  virtual std::span<T> gradient(std::size_t i) = 0;
  virtual void zero() = 0;
  virtual void ready(std::size_t i) = 0;
  virtual void step() = 0;
  // The time in which this rank communicated and did nothing else.
  virtual std::chrono::nanoseconds communication() const = 0;
};

template <class T, class Transport>
class whole_parameters final : public shared_parameters<T> {
 public:
  // The parameters must stay where they are.
  whole_parameters(tutti::communicator<Transport>& comm, std::vector<tutti::training::parameter<T>> const& parameters,
                   tutti::training::adam const& rule, tutti::training::data_parallel_options const& options)
      : parameters_(parameters), model_(comm, parameters, options, in_rank_order()), descent_(parameters, rule) {}

  std::shared_ptr<void const> gather(std::size_t) override { return {}; }
  std::span<T const> parameter(std::size_t i) override { return parameters_[i].values; }
  std::span<T> gradient(std::size_t i) override { return model_.gradient(i); }
  void zero() override { model_.zero(); }
  void ready(std::size_t i) override { model_.ready(i); }
  void step() override {
    model_.finish();
    descent_.step(model_);
  }
  std::chrono::nanoseconds communication() const override {
    return model_.statistics().waited + model_.statistics().driven;
  }

 private:
  // Ranks of a tensor group have equal gradients of parameters that they do not divide, but not in the same places of their
  // buckets, because parts may differ in size. two_shot adds up in rank order everywhere, so these gradients stay equal.
  static tutti::training::average in_rank_order() { return {{.algorithm = tutti::algorithm_id::two_shot}}; }

  std::vector<tutti::training::parameter<T>> parameters_;
  tutti::training::data_parallel<T, Transport> model_;
  tutti::training::optimizer<T, tutti::training::adam> descent_;
};

template <class T, class Transport>
class sharded_parameters final : public shared_parameters<T> {
 public:
  sharded_parameters(tutti::communicator<Transport>& comm, std::vector<tutti::training::parameter<T>> const& parameters,
                     tutti::training::adam const& rule, tutti::training::sharding_options const& options)
      : model_(comm, parameters, rule, options) {}

  std::shared_ptr<void const> gather(std::size_t block) override {
    using gathered = typename model::gathered_unit;
    return std::shared_ptr<gathered const>(new gathered(model_.gather(block)));
  }
  std::span<T const> parameter(std::size_t i) override { return model_.parameter(i); }
  std::span<T> gradient(std::size_t i) override { return model_.gradient(i); }
  void zero() override { model_.zero(); }
  void ready(std::size_t i) override { model_.ready(i); }
  void step() override { model_.step(); }
  std::chrono::nanoseconds communication() const override {
    auto const& seen = model_.statistics();
    return seen.waited + seen.driven + seen.gather_waited;
  }

 private:
  using model = tutti::training::sharded_data_parallel<T, Transport, tutti::training::adam>;
  model model_;
};
