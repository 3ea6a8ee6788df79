// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner loop on its own: how fast one core combines arrays, compared with a memcpy of as many bytes. The two take turns.
#include <algorithm>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "median.hpp"
#include "tutti/reduce/combine.hpp"
#include "tutti/reduce/ops.hpp"

namespace {

constexpr int max_sources = 8;

struct options {
  int rounds = 7;
  double turn_ms = 1;  // calls are repeated for this long and timed together
  bool stream = false;
  bool narrow = false;
};

struct summary {
  double total = 0;
  float least = 0, greatest = 0;
};
struct summarise {
  [[maybe_unused]] static constexpr bool commutative = true;
  summary operator()(summary const& a, summary const& b) const {
    return {a.total + b.total, std::min(a.least, b.least), std::max(a.greatest, b.greatest)};
  }
};
// The loop that a user would write without the library.
struct by_hand {};

// Array k starts k * 576 bytes after the start of a page. If the lower 12 bits of two addresses were the same, loads would wait for
// unrelated stores.
template <class T>
class array {
 public:
  array(std::size_t n, std::size_t k) : memory_(n * sizeof(T) + 2 * page) {
    auto const begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    data_ = reinterpret_cast<T*>(memory_.data() + (page - begin % page) + k * 576 % page);
  }
  T* data() const { return data_; }

 private:
  static constexpr std::size_t page = 4096;
  std::vector<std::byte> memory_;
  T* data_;
};

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// Nanoseconds per call. The compiler must assume that other code reads and writes the memory between calls.
template <class F>
double turn(double min_ms, F const& f) {
  for (std::size_t calls = 1;; calls *= 2) {
    auto const begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < calls; ++i) {
      f();
      asm volatile("" ::: "memory");
    }
    if (double const took = milliseconds_since(begin); took >= min_ms) return took * 1e6 / static_cast<double>(calls);
  }
}

template <class T, class Op>
void measure(std::string_view name, Op const& op, std::size_t bytes, int fan_in, options const& how) {
  std::size_t const n = bytes / sizeof(T);
  std::vector<array<T>> from;
  T const* sources[max_sources];
  for (std::size_t k = 0; k < static_cast<std::size_t>(fan_in); ++k) sources[k] = from.emplace_back(n, k).data();
  array<T> const to{n, max_sources};
  T* const destination = to.data();
  auto const ours = [&] {
    if constexpr (std::is_same_v<Op, by_hand>)
      for (std::size_t i = 0; i < n; ++i) destination[i] += sources[0][i];
    else
      tutti::detail::combine(tutti::detail::one_thread{}, sources, fan_in, &destination, 1, n, op,
                             {.stream = how.stream});
  };
  // a += b also reads two arrays and writes one of them.
  std::size_t const arrays = std::is_same_v<Op, by_hand> ? 3 : static_cast<std::size_t>(fan_in) + 1;
  std::size_t const moved = arrays * n * sizeof(T);
  array<char> const copy_from{moved / 2, 0}, copy_to{moved / 2, 1};
  auto const copy = [&] { std::memcpy(copy_to.data(), copy_from.data(), moved / 2); };

  std::vector<double> speeds, ratios;
  for (int round = 0; round < how.rounds; ++round) {
    double const mine = turn(how.turn_ms, ours), limit = turn(how.turn_ms, copy);
    speeds.push_back(static_cast<double>(moved) / mine);
    ratios.push_back(limit / mine);
  }
  auto const [least, greatest] = std::minmax_element(ratios.begin(), ratios.end());
  fmt::print("| {} | {} | {} KiB | {:.1f} | **{:.2f}** | {:.2f}..{:.2f} |\n", name, fan_in, bytes >> 10, median(speeds),
             median(ratios), *least, *greatest);
}

}  // namespace

int main(int argc, char** argv) {
  options how;
  CLI::App app{"How fast one core combines arrays."};
  app.add_option("--rounds", how.rounds, "turns of each, of which the median counts")->check(CLI::PositiveNumber);
  app.add_option("--turn", how.turn_ms, "milliseconds of a turn at least")->check(CLI::PositiveNumber);
  app.add_flag("--stream", how.stream, "write past the caches");
  app.add_flag("--narrow", how.narrow, "without the instructions that only newer CPUs have");
  std::vector<std::size_t> sizes{4096, 256 << 10, 64 << 20};
  app.add_option("--bytes", sizes, "bytes of an array")->delimiter(',')->transform(CLI::AsSizeValue(false));
  std::vector<int> fan_ins{1, 2, 4, 8};
  app.add_option("--fan-in", fan_ins, "arrays that are combined")->delimiter(',')->check(CLI::Range(1, max_sources));
  CLI11_PARSE(app, argc, argv);
#if defined(__x86_64__)
  if (how.narrow) tutti::detail::use_widest = false;
#endif

  fmt::print("GB/s: bytes read and written. ratio: time of a memcpy that moves as many, over ours.\n\n");
  fmt::print("| elements | arrays | bytes of each | GB/s | ratio | min..max |\n|---|---:|---:|---:|---:|:---:|\n");
  for (std::size_t const bytes : sizes) {
    measure<float>("float, a += b by hand", by_hand{}, bytes, 1, how);
    for (int const fan_in : fan_ins) {
      measure<float>("float", tutti::sum{}, bytes, fan_in, how);
      measure<double>("double", tutti::sum{}, bytes, fan_in, how);
      measure<std::int32_t>("int32", tutti::sum{}, bytes, fan_in, how);
      measure<std::int8_t>("int8, max", tutti::max{}, bytes, fan_in, how);
      measure<tutti::half>("half", tutti::sum{}, bytes, fan_in, how);
      measure<tutti::bfloat16>("bfloat16", tutti::sum{}, bytes, fan_in, how);
      measure<std::complex<float>>("complex<float>", tutti::sum{}, bytes, fan_in, how);
      measure<summary>("a struct of the user's", summarise{}, bytes, fan_in, how);
      measure<float>("float, a lambda", [](float a, float b) { return a * 0.5f + b; }, bytes, fan_in, how);
    }
  }
}
