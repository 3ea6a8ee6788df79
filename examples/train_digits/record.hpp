// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files by which another program can repeat the training with the same numbers: tools/compare-torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>

// weights.f32   the initial weights: the matrix of each layer, input by input, then its offsets
// order.i32     the order of images in each epoch
// epochs.csv    the results of each epoch
// step.csv      microseconds of a step, and of one without communication; bytes that a rank sends in a step
class record {
 public:
  // Without a folder, nothing is written.
  explicit record(std::string folder) : folder_(std::move(folder)) {
    if (!on()) return;
    std::filesystem::create_directories(folder_);
    epochs_ = open("epochs.csv");
    epochs_ << "epoch,loss,held_out,images_per_second\n" << std::setprecision(9);
    order_ = open("order.i32");
  }
  bool on() const { return !folder_.empty(); }

  void weights(Eigen::VectorXf const& first) {
    if (!on()) return;
    std::ofstream out = open("weights.f32");
    out.write(reinterpret_cast<char const*>(first.data()), first.size() * 4);
    expect_written(out);
  }
  void order(std::span<Eigen::Index const> images) {
    if (!on()) return;
    std::vector<std::int32_t> const numbers(images.begin(), images.end());
    order_.write(reinterpret_cast<char const*>(numbers.data()), static_cast<std::streamsize>(numbers.size() * 4));
  }
  void epoch(int number, double loss, double held_out, double images_per_second) {
    if (on()) epochs_ << number << ',' << loss << ',' << held_out << ',' << images_per_second << '\n';
  }
  // Called last.
  void step(double microseconds, double alone, std::size_t bytes) {
    if (!on()) return;
    expect_written(epochs_);
    expect_written(order_);
    std::ofstream out = open("step.csv");
    out << "step_us,alone_us,bytes\n" << microseconds << ',' << alone << ',' << bytes << '\n';
    expect_written(out);
  }

 private:
  std::ofstream open(char const* name) const {
    std::ofstream out(std::filesystem::path(folder_) / name, std::ios::binary);
    if (!out) throw std::runtime_error("cannot write to " + folder_ + "/" + name);
    return out;
  }
  void expect_written(std::ofstream& out) const {
    if (!out.flush()) throw std::runtime_error("cannot write to " + folder_);
  }

  std::string folder_;
  std::ofstream epochs_, order_;
};
