// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data path, compared with a reference that handles one element at a time: all tails, fan-ins, fan-outs, alignments
// and aliases.
// labels: optimised
#include "tutti/reduce/combine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/all_cpus.hpp"
#include "support/sanitized.hpp"
#include "support/types_and_ops.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// All types with g++; with clang, one of each kind and size.
#if defined(__clang__)
using combined_types = type_list<std::int8_t, std::uint16_t, std::int32_t, std::uint64_t, float, long double, half,
                                 bfloat16, float8_e4m3, std::complex<double>, bool, located<float>, affine, summary>;
#else
using combined_types = element_types;
#endif
using small_floats = type_list<half, bfloat16, float8_e4m3, float8_e5m2>;

constexpr std::size_t margin = 9;

// Elements between margins that must not be written, starting `offset` elements past the start of the allocation.
template <class T>
class buffer {
 public:
  buffer(std::size_t count, std::size_t offset, int seed)
      : count_{count}, begin_{margin + offset}, memory_{new T[count + 2 * margin + offset]} {
    for (std::size_t i = 0; i < size(); ++i) memory_[i] = make_value<T>(seed, i);
  }
  T* data() const { return memory_.get() + begin_; }
  std::size_t size() const { return count_ + margin + begin_; }

  // The number of elements that differ from `expected`, or in the margins from their initial values.
  template <class Values>
  int differ(Values const& expected, int seed) const {
    int out = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      bool const inside = i >= begin_ && i < begin_ + count_;
      T const want = inside ? T(expected[i - begin_]) : make_value<T>(seed, i);
      out += !same_bits<T>(memory_[i], want);
    }
    return out;
  }

 private:
  std::size_t count_, begin_;
  std::unique_ptr<T[]> memory_;
};

// Element by element and in order, as the contract demands.
template <class T, class Op>
T reference_element(T const* const* sources, int count, std::size_t i, Op const& op, stage at) {
  using A = accumulator_for<Op, T>;
  auto const contribution = [&](int k) {
    A x = static_cast<A>(sources[k][i]);
    if constexpr (has_prepare<Op, A>) {
      if (k == at.prepare) x = static_cast<A>(static_cast<T>(op.prepare(x)));
    }
    return x;
  };
  A all = contribution(0);
  for (int k = 1; k < count; ++k) all = static_cast<A>(op(all, contribution(k)));
  if constexpr (has_finish<Op, A>) {
    if (at.finish > 0) all = static_cast<A>(op.finish(all, at.finish));
  }
  return static_cast<T>(all);
}

// `in_place` destinations are the last sources.
template <class T, class Op>
int wrong_elements(std::size_t n, int fan_in, int fan_out, int in_place, std::size_t offset, Op const& op,
                   stage at = {}) {
  std::vector<buffer<T>> from, to;
  std::vector<T const*> sources;
  std::vector<T*> destinations;
  for (int k = 0; k < fan_in; ++k) {
    from.emplace_back(n, (offset * static_cast<std::size_t>(k + 1)) % 7, k);
    sources.push_back(from.back().data());
  }
  for (int k = 0; k < fan_out - in_place; ++k) {
    to.emplace_back(n, (offset * static_cast<std::size_t>(k + 3)) % 5, 100 + k);
    destinations.push_back(to.back().data());
  }
  for (int k = 0; k < in_place; ++k) destinations.push_back(from[static_cast<std::size_t>(fan_in - 1 - k)].data());

  std::vector<std::conditional_t<std::same_as<T, bool>, char, T>> expected(n);
  for (std::size_t i = 0; i < n; ++i) expected[i] = reference_element(sources.data(), fan_in, i, op, at);
  combine(one_thread{}, sources.data(), fan_in, destinations.data(), fan_out, n, op, at);

  int wrong = 0;
  for (std::size_t k = 0; k < to.size(); ++k) wrong += to[k].differ(expected, 100 + static_cast<int>(k));
  for (int k = 0; k < fan_in; ++k) {
    bool const overwritten = k >= fan_in - in_place;
    std::vector<std::conditional_t<std::same_as<T, bool>, char, T>> before(n);
    for (std::size_t i = 0; i < n; ++i)
      before[i] = make_value<T>(k, i + margin + (offset * static_cast<std::size_t>(k + 1)) % 7);
    wrong += from[static_cast<std::size_t>(k)].differ(overwritten ? expected : before, k);
  }
  return wrong;
}

constexpr std::initializer_list<int> fan_ins = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};

// The operation that represents its type where two of them would take too long.
template <class T>
constexpr auto one_operation = std::get<0>(two_operations_on<T>());

}  // namespace

TEST_CASE("every type: all tails, fan-ins, fan-outs, offsets, and in place") {
  for_each_type(combined_types{}, []<class T>() {
    CAPTURE(std::string{type_name<T>()});
    int wrong = 0;
    for (std::size_t n = 0; n <= 200; n += sanitized ? 7 : 1) {
      // 10 fan-ins, 3 fan-outs and 4 offsets, in place and not, alternate; neighbouring n get different combinations.
      for (int const fan_in : fan_ins) {
        int const turn = static_cast<int>(n) + fan_in, fan_out = 1 + turn % 3;
        int const in_place = std::min({(turn / 3) % 3, fan_in, fan_out});
        wrong += wrong_elements<T>(n, fan_in, fan_out, in_place, static_cast<std::size_t>(turn) % 4, one_operation<T>);
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("several blocks and an odd tail, also past the caches") {
  for_each_type(combined_types{}, []<class T>() {
    CAPTURE(std::string{type_name<T>()});
    std::size_t const n = 2 * one_thread::block_bytes / sizeof(T) + 77;
    for (int const fan_in : {1, 2, 3, 4, 7})
      for (int const fan_out : {1, 2})
        for (int const in_place : {0, 1})
          for (bool const stream : {false, true})
            on_all_cpus([&] {
              CHECK(wrong_elements<T>(n, fan_in, fan_out, in_place, 1, one_operation<T>, {.stream = stream}) == 0);
            });
  });
}

TEST_CASE("past the caches: every begin and end of a line") {
  auto const check = []<class T>() {
    CAPTURE(std::string{type_name<T>()});
    for (std::size_t offset = 0; offset < 40; offset += sanitized ? 3 : 1)
      for (std::size_t const n : {0u, 1u, 5u, 63u, 64u, 100u, 4099u})
        for (int const fan_in : {1, 2, 5}) {
          buffer<T> a{n, 0, 1}, b{n, 1, 2}, to{n, offset, 3};
          T const* const sources[] = {a.data(), b.data(), a.data(), b.data(), a.data()};
          T* const destination = to.data();
          std::vector<T> expected(n);
          for (std::size_t i = 0; i < n; ++i) expected[i] = reference_element(sources, fan_in, i, sum{}, {});
          on_all_cpus([&] {
            combine(one_thread{}, sources, fan_in, &destination, 1, n, sum{}, {.stream = true});
            CHECK(to.differ(expected, 3) == 0);
            std::fill_n(destination, n, T{});
          });
        }
  };
  for_each_type(type_list<std::int8_t, float, bfloat16, std::complex<float>>{}, check);
}

// An element that starts within the last four bytes of a line never ends at the end of a line.
TEST_CASE("past the caches: elements that lie across lines") {
  alignas(64) float memory[2 * 300 + 1] = {};
  auto* const out = reinterpret_cast<std::complex<float>*>(memory + 1);
  std::vector<std::complex<float>> const a(300, {1, 2}), b(300, {3, 4});
  std::complex<float> const* const sources[] = {a.data(), b.data()};
  combine(one_thread{}, sources, 2, &out, 1, 300, sum{}, {.stream = true});
  CHECK(std::all_of(out, out + 300, [](auto const& x) { return x == std::complex<float>{4, 6}; }));
}

#if defined(__x86_64__)
TEST_CASE("the widest instructions give the bits that all CPUs give") {
  if (!detail::use_widest) {
    MESSAGE("skipped: this CPU has no AVX2");
    return;
  }
  // All numbers of the type, with one unchanged operand and with one that changes.
  auto const check = []<class T>(auto const& op) {
    CAPTURE(std::string{type_name<T>()});
    std::size_t const n = 0x10000;
    std::vector<T> a(n), b(n), wide(n), plain(n);
    int different = 0;
    for (unsigned seed = 0; seed < 40; seed += sanitized ? 13 : 1) {
      for (std::size_t i = 0; i < n; ++i) {
        a[i] = T::from_bits(static_cast<decltype(T::bits)>(i));
        b[i] = T::from_bits(static_cast<decltype(T::bits)>(scramble(seed, seed < 20 ? 0 : i)));
      }
      T const* const sources[] = {a.data(), b.data(), b.data(), a.data(), b.data()};
      T *const to_wide = wide.data(), *const to_plain = plain.data();
      int const fan_in = 2 + static_cast<int>(seed % 4);
      combine(one_thread{}, sources, fan_in, &to_wide, 1, n - seed, op, {.finish = 3});
      detail::use_widest = false;
      combine(one_thread{}, sources, fan_in, &to_plain, 1, n - seed, op, {.finish = 3});
      detail::use_widest = true;
      // The compiler decides which of two NaNs a sum returns.
      for (std::size_t i = 0; i < n - seed; ++i) {
        bool const nan = float{wide[i]} != float{wide[i]} && float{plain[i]} != float{plain[i]};
        different += wide[i].bits != plain[i].bits && !nan;
      }
    }
    CHECK(different == 0);
  };
  // A multiplication and an addition that some CPUs might fuse and others not.
  auto const fusible = [](float x, float y) { return x * 0.7f + y; };
  for_each_type(small_floats{}, [&]<class T>() {
    check.template operator()<T>(sum{});
    check.template operator()<T>(mean{});
    check.template operator()<T>(tutti::min{});
    check.template operator()<T>(fusible);
  });
}

#endif

TEST_CASE("conversions of packs have the bits of conversions one by one, for every float class") {
  // One source and an operation with only an epilogue: a conversion to float and back, for all patterns of bits.
  struct scale : sum {
    float finish(float x, int) const { return x; }
  };
  auto const check = [] {
    for_each_type(small_floats{}, []<class T>() {
      std::vector<T> from(0x10000 + 77), to(from.size());
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = T::from_bits(static_cast<decltype(T::bits)>(i));
      T const* const source = from.data();
      T* const destination = to.data();
      combine(one_thread{}, &source, 1, &destination, 1, from.size(), scale{}, {.finish = 1});
      int different = 0;
      for (std::size_t i = 0; i < from.size(); ++i) different += to[i].bits != T(float{from[i]}).bits;
      CHECK(different == 0);
    });
  };
  on_all_cpus(check);
}

TEST_CASE("rounding of packs has the bits of rounding one by one") {
  // Sums of two small floats are floats of every class between their numbers, halves of the least and ties included.
  for_each_type(small_floats{}, []<class T>() {
    for (float const factor : {1.0f, 0.5f, 0.37f, 0.0625f, 300.0f, -1e-3f}) {
      auto const scaled = [factor](float x, float y) { return (x + y) * factor; };
      std::size_t const n = 0x10000 + 77;
      std::vector<T> a(n), b(n), to(n);
      for (std::size_t i = 0; i < n; ++i) {
        a[i] = T::from_bits(static_cast<decltype(T::bits)>(i));
        b[i] = T::from_bits(static_cast<decltype(T::bits)>(i * 40503 >> 8));
      }
      T const* const sources[] = {a.data(), b.data()};
      T* const destination = to.data();
      on_all_cpus([&] {
        combine(one_thread{}, sources, 2, &destination, 1, n, scaled);
        int different = 0;
        for (std::size_t i = 0; i < n; ++i) {
          T const one(scaled(float{a[i]}, float{b[i]}));
          different += to[i].bits != one.bits && !(float{to[i]} != float{to[i]} && float{one} != float{one});
        }
        CHECK(different == 0);
      });
    }
  });
}

TEST_CASE("every operation, raw and complete") {
  for_each_type(combined_types{}, []<class T>() {
    for_two_operations<T>([](auto const& op) {
      CAPTURE(std::string{type_name<T>()});
      CAPTURE(std::string{name_of<std::remove_cvref_t<decltype(op)>>()});
      for (std::size_t const n : {1u, 7u, 16u, 131u}) {
        for (int const fan_in : fan_ins) {
          CHECK(wrong_elements<T>(n, fan_in, 1, 0, 0, op) == 0);
          for (int const prepare : {-1, 0, fan_in - 1})
            for (int const finish : {0, 3})
              CHECK(wrong_elements<T>(n, fan_in, 2, 1, 1, op, {.prepare = prepare, .finish = finish}) == 0);
        }
      }
    });
  });
}

TEST_CASE("bfloat16 is added up in float and rounded once") {
  // 1 + 2^-8 is a tie in bfloat16 and rounds back to 1, so rounding at each step would lose every 2^-8.
  std::vector<bfloat16> const one(37, bfloat16(1.0f)), small(37, bfloat16(0.00390625f));
  std::vector<bfloat16> out(37);
  bfloat16 const* const sources[] = {one.data(),   small.data(), small.data(), small.data(),
                                     small.data(), small.data(), small.data()};
  bfloat16* const to[] = {out.data()};
  combine(one_thread{}, sources, 3, to, 1, out.size(), sum{});
  for (bfloat16 const x : out) CHECK(float{x} == 1.0078125f);
  combine(one_thread{}, sources, 7, to, 1, out.size(), sum{});
  for (bfloat16 const x : out) CHECK(float{x} == 1.0234375f);
  // A functor of the storage type requests the other accumulator, and gets it.
  auto const rounds = [](bfloat16 a, bfloat16 b) { return bfloat16(float{a} + float{b}); };
  combine(one_thread{}, sources, 7, to, 1, out.size(), rounds);
  for (bfloat16 const x : out) CHECK(float{x} == 1.0f);
}

TEST_CASE("the mean is divided before it is rounded") {
  std::vector<half> const a(19, half(2048.0f)), b(19, half(1.0f));
  std::vector<half> out(19);
  half const* const sources[] = {a.data(), b.data()};
  half* const to[] = {out.data()};
  combine(one_thread{}, sources, 2, to, 1, out.size(), mean{}, {.finish = 2});
  for (half const x : out) CHECK(float{x} == 1024.0f);  // 1024.5 is a tie; 2049 would have been rounded to 2048 before
  half const* const large[] = {a.data(), a.data(), b.data()};
  combine(one_thread{}, large, 3, to, 1, out.size(), mean{}, {.finish = 4});
  for (half const x : out) CHECK(float{x} == 1024.0f);
}

TEST_CASE("a contribution that is scaled here has the bits of one that was scaled elsewhere") {
  premultiplied_sum const third{1.0f / 3};
  std::vector<float> mine(83), theirs(83), scaled(83), here(83), elsewhere(83);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    mine[i] = 0.1f * static_cast<float>(i);
    theirs[i] = 1e-3f * static_cast<float>(i * i);
  }
  float const* const raw[] = {mine.data(), theirs.data()};
  float const* const ready[] = {scaled.data(), theirs.data()};
  float *const to_scaled[] = {scaled.data()}, *const to_here[] = {here.data()},
               *const to_elsewhere[] = {elsewhere.data()};
  combine(one_thread{}, raw, 1, to_scaled, 1, mine.size(), third, {.prepare = 0});
  combine(one_thread{}, ready, 2, to_elsewhere, 1, mine.size(), third);
  combine(one_thread{}, raw, 2, to_here, 1, mine.size(), third, {.prepare = 0});
  for (std::size_t i = 0; i < mine.size(); ++i) {
    CHECK(scaled[i] == mine[i] * (1.0f / 3));
    CHECK(same_bits(here[i], elsewhere[i]));
  }
}

TEST_CASE("a result does not depend on where its element stands") {
  auto const op = [](float a, float b) { return a * 0.7f + b; };
  std::vector<float> a(300, 0.1f), b(300, 0.3f), c(300, 0.9f), out(300);
  float const* const sources[] = {a.data(), b.data(), c.data(), a.data(), b.data(), c.data()};
  float* const to[] = {out.data()};
  for (int const fan_in : {2, 3, 4, 6}) {
    combine(one_thread{}, sources, fan_in, to, 1, out.size(), op);
    int different = 0;
    for (float const x : out) different += !same_bits(x, out[0]);
    CHECK(different == 0);
  }
}

TEST_CASE("sources may be the same pointer, and so may destinations") {
  std::vector<int> x(50, 3), y(50, 0);
  int const* const sources[] = {x.data(), x.data(), x.data()};
  int* const to[] = {y.data(), y.data(), x.data()};
  combine(one_thread{}, sources, 3, to, 3, x.size(), sum{});
  CHECK(x == std::vector<int>(50, 9));
  CHECK(y == std::vector<int>(50, 9));
}

TEST_CASE("nothing to do is nothing done") {
  int const x = 1;
  int const* const sources[] = {&x, &x};
  combine(one_thread{}, sources, 2, static_cast<int* const*>(nullptr), 0, 1, sum{});
  int y = 7;
  int* const to[] = {&y};
  combine(one_thread{}, sources, 2, to, 1, 0, sum{});
  CHECK(y == 7);
}

TEST_CASE("copy: to several, to itself, over several blocks") {
  for (std::size_t const n : {0u, 1u, 100u, 5000u}) {
    std::vector<summary> from(n), a(n), b(n);
    for (std::size_t i = 0; i < n; ++i) from[i] = make_value<summary>(1, i);
    std::vector<summary> const expected = from;
    summary* const to[] = {a.data(), from.data(), b.data()};
    copy(one_thread{}, from.data(), to, 3, n);
    CHECK(a == expected);
    CHECK(b == expected);
    CHECK(from == expected);
    summary* const single[] = {a.data()};
    copy(one_thread{}, from.data(), single, 0, n);
    copy(one_thread{}, from.data(), single, 1, n);
    CHECK(a == expected);
  }
}

namespace {

// A team whose members run one at a time: together they must do all of the work, each its own part.
struct member {
  static constexpr std::size_t block_bytes = 16;
  int rank_, size_;
  int rank() const { return rank_; }
  int size() const { return size_; }
};

}  // namespace

TEST_CASE("the members of a group share the work") {
  for (int const size : {1, 2, 5}) {
    for (std::size_t const n : {0u, 3u, 4u, 97u}) {
      std::vector<float> a(n, 2), b(n, 3), sums(n), copies(n);
      float const* const sources[] = {a.data(), b.data(), a.data(), b.data(), a.data()};
      float *const to[] = {sums.data()}, *const to_copy[] = {copies.data()};
      for (int rank = 0; rank < size; ++rank) {
        combine(member{rank, size}, sources, 5, to, 1, n, sum{});
        copy(member{rank, size}, a.data(), to_copy, 1, n);
      }
      CHECK(sums == std::vector<float>(n, 12));
      CHECK(copies == a);
      std::vector<float> part(n);
      float* const to_part[] = {part.data()};
      combine(member{0, 5}, sources, 2, to_part, 1, n, sum{});
      for (std::size_t i = 0; i < n; ++i) CHECK(part[i] == (i / 4 % 5 == 0 ? 5.0f : 0.0f));
    }
  }
}
