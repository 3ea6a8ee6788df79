// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The laws that an operation declares, for every operation on every type, and its results.
#include "tutti/reduce/ops.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "support/types_and_ops.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// Logical operations yield 0 or 1, so their identity holds for operands that are 0 or 1.
template <class Op>
constexpr bool is_logical =
    std::same_as<Op, logical_and> || std::same_as<Op, logical_or> || std::same_as<Op, logical_xor>;

struct subtract_says_nothing {
  int operator()(int a, int b) const { return a - b; }
};
struct twelve {};
template <class T>
struct plus {  // not the standard library's
  T operator()(T const& a, T const&) const { return a; }
};

static_assert(is_commutative<std::plus<>> && is_commutative<std::plus<int>> && is_commutative<std::multiplies<float>>);
static_assert(is_commutative<std::bit_xor<>> && is_commutative<std::logical_or<bool>>);
static_assert(!is_commutative<std::minus<>> && !is_commutative<plus<int>> && !is_commutative<std::plus<affine>>);
static_assert(!is_commutative<subtract_says_nothing> && !is_commutative<compose> &&
              is_commutative<premultiplied_sum<float>>);

static_assert(operation<sum, float> && operation<sum, half> && operation<bit_and, int>);
static_assert(!operation<sum, twelve> && !operation<bit_and, float> && !operation<max, std::complex<float>>);
static_assert(!operation<max_location, float> && !operation<log_sum_exp, int> && !operation<mean, bool>);

// The accumulator of a functor of the storage type is that type; that of a functor of float is float.
struct of_bfloat16 {
  bfloat16 operator()(bfloat16 a, bfloat16 b) const { return float{a} < float{b} ? b : a; }
};
static_assert(std::same_as<accumulator_for<sum, bfloat16>, float>);
static_assert(std::same_as<accumulator_for<of_bfloat16, bfloat16>, bfloat16> && operation<of_bfloat16, bfloat16>);
static_assert(std::same_as<accumulator_for<sum, double>, double>);

static_assert(has_finish<mean, float> && !has_finish<sum, float>);
static_assert(has_prepare<premultiplied_sum<float>, float> && !has_prepare<sum, float>);
static_assert(has_identity<sum, int> && !has_identity<subtract_says_nothing, int>);
struct longest {  // an identity of one type
  static constexpr long identity() { return -1; }
  long operator()(long a, long b) const { return a < b ? b : a; }
};
static_assert(has_identity<longest, long> && identity_of<longest, long>() == -1);
struct greatest_of_bfloat16 {  // whose accumulator is float
  static constexpr bfloat16 identity() { return bfloat16(-1.0f); }
  float operator()(float a, float b) const { return a < b ? b : a; }
};
static_assert(has_identity<greatest_of_bfloat16, accumulator_for<greatest_of_bfloat16, bfloat16>>);

struct with_own_members {
  std::string name;
  double commutative, at_once;
  float operator()(float a, float b) const { return a + b; }
};
static_assert(!is_commutative<with_own_members> && !combines_at_once<with_own_members> &&
              name_of<with_own_members>().ends_with("with_own_members"));
struct with_enumerators {
  enum { commutative = 1, at_once = 1 };
  static constexpr char const* name = "with_enumerators";
  float operator()(float a, float b) const { return a + b; }
};
static_assert(is_commutative<with_enumerators> && combines_at_once<with_enumerators> &&
              name_of<with_enumerators>() == "with_enumerators");

template <class T>
constexpr T nan_of = std::numeric_limits<T>::quiet_NaN();

}  // namespace

TEST_CASE("identity, commutativity and associativity hold exactly on exact values") {
  for_each_type(element_types{}, []<class T>() {
    for_each_operation<T>([](auto const& op) {
      using Op = std::remove_cvref_t<decltype(op)>;
      using A = accumulator_for<Op, T>;
      CAPTURE(std::string{type_name<T>()});
      CAPTURE(std::string{name_of<Op>()});
      static_assert(operation<Op, T>);
      int identity = 0, commutes = 0, associates = 0;
      for (std::size_t i = 0; i < 300; ++i) {
        A a = static_cast<A>(make_value<T>(0, i));
        A const b = static_cast<A>(make_value<T>(1, i)), c = static_cast<A>(make_value<T>(2, i));
        commutes += same_bits<A>(op(a, b), op(b, a));
        associates += same_bits<A>(op(op(a, b), c), op(a, op(b, c)));
        if constexpr (is_logical<Op>) a = op(a, Op::template identity<A>());
        A const e = Op::template identity<A>();
        identity += same_bits<A>(op(a, e), a) && same_bits<A>(op(e, a), a);
      }
      CHECK(identity == 300);
      CHECK(associates == 300);
      if (is_commutative<Op>) CHECK(commutes == 300);
      else CHECK(commutes < 10);
    });
  });
}

TEST_CASE("what each operation computes") {
  CHECK(sum{}(2, 3) == 5);
  CHECK(product{}(2.0, 3.0) == 6.0);
  CHECK(tutti::min{}(2, 3) == 2);
  CHECK(tutti::max{}(2, 3) == 3);
  CHECK(bit_and{}(12, 10) == 8);
  CHECK(bit_or{}(12, 10) == 14);
  CHECK(bit_xor{}(12, 10) == 6);
  CHECK(logical_and{}(2.0f, 3.0f) == 1.0f);
  CHECK(logical_and{}(2, 0) == 0);
  CHECK(logical_or{}(0, 7) == 1);
  CHECK(logical_xor{}(5, 7) == 0);
  CHECK(logical_xor{}(5, 0) == 1);
  CHECK(mean{}.finish(mean{}(1.0f, 2.0f), 2) == 1.5f);
  CHECK(mean{}.finish(-7, 2) == -3);
  CHECK(mean{}.finish(std::uint8_t{200}, 300) == 0);
  CHECK(mean{}.finish(~std::uint64_t{0}, 1) == ~std::uint64_t{0});
  CHECK(mean{}.finish(std::complex<double>{2, 4}, 2) == std::complex<double>{1, 2});
  CHECK(premultiplied_sum{0.5f}.prepare(3.0f) == 1.5f);
  CHECK(premultiplied_sum{0.5}.prepare(3) == 1);
  CHECK(premultiplied_sum{2.0f}(1.0f, 2.0f) == 3.0f);
  CHECK(sum{}(true, true) == true);
  CHECK(product{}(true, false) == false);
  CHECK(tutti::max{}(false, true) == true);
}

TEST_CASE("integers wrap") {
  CHECK(sum{}(std::numeric_limits<int>::max(), 1) == std::numeric_limits<int>::min());
  CHECK(sum{}(std::int8_t{127}, std::int8_t{1}) == std::int8_t{-128});
  CHECK(product{}(std::uint16_t{65535}, std::uint16_t{65535}) == std::uint16_t{1});
  CHECK(product{}(std::int64_t{1} << 62, std::int64_t{4}) == 0);
  CHECK(premultiplied_sum{2}.prepare(std::numeric_limits<int>::max()) == -2);
  CHECK(mean{}.finish(mean{}(std::uint8_t{200}, std::uint8_t{200}), 2) == 72);
}

TEST_CASE_TEMPLATE("min and max: a NaN on either side makes the result NaN; of equals the left one stays", T, float,
                   double) {
  CHECK(std::isnan(tutti::min{}(nan_of<T>, T{1})));
  CHECK(std::isnan(tutti::min{}(T{1}, nan_of<T>)));
  CHECK(std::isnan(tutti::max{}(nan_of<T>, T{1})));
  CHECK(std::isnan(tutti::max{}(T{1}, nan_of<T>)));
  CHECK(std::signbit(tutti::max{}(-T{0}, T{0})));
  CHECK(!std::signbit(tutti::min{}(T{0}, -T{0})));
}

TEST_CASE("max_location and min_location take the least index of equal values") {
  using at = located<float>;
  CHECK(max_location{}(at{2, 7}, at{2, 3}) == at{2, 3});
  CHECK(max_location{}(at{2, 3}, at{2, 7}) == at{2, 3});
  CHECK(max_location{}(at{1, 0}, at{2, 7}) == at{2, 7});
  CHECK(min_location{}(at{2, 7}, at{2, 3}) == at{2, 3});
  CHECK(min_location{}(at{1, 9}, at{2, 0}) == at{1, 9});
}

TEST_CASE_TEMPLATE("max_location and min_location: NaN replaces numbers, in whatever order they are combined", T, float,
                   double, tutti::half) {
  using at = located<T>;
  T const nan{std::numeric_limits<float>::quiet_NaN()};
  at const elements[] = {{T{1}, 4}, {T{2}, 1}, {T{2}, 3}, {nan, 2}, {nan, 5}};
  auto const check = [&](auto const& op) {
    CHECK(op(elements[0], elements[4]).index == 5);
    CHECK(op(elements[4], elements[3]).index == 2);
    for (at const& a : elements)
      for (at const& b : elements) {
        CHECK(op(a, b).index == op(b, a).index);
        for (at const& c : elements) CHECK(op(op(a, b), c).index == op(a, op(b, c)).index);
      }
  };
  check(max_location{});
  check(min_location{});
}

TEST_CASE("premultiplied_sum scales complex numbers by any number, and refuses what it cannot scale") {
  using complex = std::complex<float>;
  CHECK(premultiplied_sum{0.5}.prepare(complex{2, 4}) == complex{1, 2});
  CHECK(premultiplied_sum{2}.prepare(complex{2, 4}) == complex{4, 8});
  static_assert(operation<premultiplied_sum<double>, complex> && operation<premultiplied_sum<complex>, complex>);
  static_assert(!operation<premultiplied_sum<double>, std::pair<float, float>>);
}

TEST_CASE_TEMPLATE("log_sum_exp is stable and has -infinity as its identity", T, float, double) {
  T const infinity = std::numeric_limits<T>::infinity();
  log_sum_exp const op;
  CHECK(op(std::log(T{3}), std::log(T{4})) == doctest::Approx(std::log(7.0)).epsilon(1e-6));
  CHECK(op(T{1000}, T{1000}) == doctest::Approx(1000 + std::log(2.0)));
  CHECK(op(T{-1000}, T{1000}) == T{1000});
  CHECK(op(-infinity, T{5}) == T{5});
  CHECK(op(T{5}, -infinity) == T{5});
  CHECK(op(-infinity, -infinity) == -infinity);
  CHECK(op(infinity, infinity) == infinity);
  CHECK(op(infinity, -infinity) == infinity);
  CHECK(std::isnan(op(nan_of<T>, T{1})));
  CHECK(std::isnan(op(T{1}, nan_of<T>)));
  CHECK(op(op(T{1}, T{2}), T{3}) == doctest::Approx(op(T{1}, op(T{2}, T{3}))).epsilon(1e-6));
  CHECK(op(T{1}, T{2}) == op(T{2}, T{1}));
  CHECK(log_sum_exp::identity<T>() == -infinity);
}

TEST_CASE("a marked lambda commutes and keeps its call; names") {
  auto const op = commutative([](int a, int b) { return a + b; });
  static_assert(is_commutative<std::remove_const_t<decltype(op)>>);
  CHECK(op(2, 3) == 5);
  auto const still_scaled = commutative(premultiplied_sum{2.0f});
  static_assert(has_prepare<std::remove_const_t<decltype(still_scaled)>, float>);
  CHECK(name_of<sum>() == "sum");
  CHECK(name_of<subtract_says_nothing>().ends_with("subtract_says_nothing"));
  CHECK(type_name<float>() == "float");
  CHECK(type_name<tutti::half>() == "tutti::half");
  CHECK(type_id<float>() != type_id<int>());
  CHECK(type_id<float>() == type_id<float>());
}
