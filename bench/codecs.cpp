// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Codecs of gradients on their own: how long one core takes to encode and to decode a value, in the fastest of many messages, because
// other programs on the machine can only make it slower.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <random>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tutti/training/hooks/codecs.hpp"

namespace {

template <class F>
double nanoseconds(F&& f) {
  auto const start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

template <class Codec>
void measure(std::string_view name, Codec const& codec, std::vector<float> const& values, int rounds) {
  std::vector<std::byte> message(codec.message_bytes(values.size()));
  std::vector<float> out(values.size());
  std::vector<double> encode, decode;
  for (int round = 0; round < rounds; ++round) {
    encode.push_back(nanoseconds([&] { codec.encode(values, message.data()); }));
    decode.push_back(nanoseconds([&] { codec.decode(message.data(), out); }));
  }
  auto const n = static_cast<double>(values.size());
  fmt::print("| `{}` | {:.2f} | {:.2f} |\n", name, std::ranges::min(encode) / n, std::ranges::min(decode) / n);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tutti::training;
  std::size_t count = 300'000;
  int rounds = 101;
  CLI::App app("Measures how long one core takes to encode and to decode gradients.", "bench_codecs");
  app.add_option("--values", count, "values of a message")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--rounds", rounds, "messages")->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.01f);
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  fmt::print("| codec | encode, ns a value | decode, ns a value |\n|---|---:|---:|\n");
  measure("top_k{.share = 0.05}", top_k{.share = 0.05}, values, rounds);
  measure("top_k{.share = 0.01}", top_k{.share = 0.01}, values, rounds);
  measure("eight_bit_blocks", eight_bit_blocks{}, values, rounds);
  measure("one_bit_signs", one_bit_signs{}, values, rounds);
}
