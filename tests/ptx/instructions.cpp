// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The instructions of the machine: for each mnemonic, the function that executes it for its types.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ptx/machine.hpp"
#include "tutti/reduce/half.hpp"

namespace tutti::testing::ptx {

namespace {

template <class T>
T from_bits(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  else return static_cast<T>(bits);
}
template <class T>
std::uint64_t to_bits(T value) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<std::uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<std::uint64_t>(value);
  else if constexpr (std::is_signed_v<T>) return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  else return static_cast<std::uint64_t>(value);
}
template <class T>
T in(thread& t, instruction const& i, std::size_t k) {
  return from_bits<T>(t.value(i.in[k], sizeof(T)));
}
template <class T>
void out(thread& t, instruction const& i, T value) {
  t.set(i.to[0], to_bits(value));
}

template <class T>
using unsigned_of =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
template <class T>
using wide_of = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
                                   std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

// Wraps around, as PTX does.
template <class T, class F>
T wrapped(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::common_type_t<unsigned_of<T>, unsigned>;
    return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return f(a, b);
  }
}

// -- An instruction is a class whose run<T> executes it for elements T.

struct add {
  template <class T>
  static void run(thread& t, instruction const& i) {
    out(t, i, wrapped(in<T>(t, i, 0), in<T>(t, i, 1), [](auto a, auto b) { return a + b; }));
  }
};
struct sub {
  template <class T>
  static void run(thread& t, instruction const& i) {
    out(t, i, wrapped(in<T>(t, i, 0), in<T>(t, i, 1), [](auto a, auto b) { return a - b; }));
  }
};
struct mul {
  template <class T>
  static void run(thread& t, instruction const& i) {
    out(t, i, wrapped(in<T>(t, i, 0), in<T>(t, i, 1), [](auto a, auto b) { return a * b; }));
  }
};
struct mul_wide {
  template <class T>
  static void run(thread& t, instruction const& i) {
    using W = wide_of<T>;
    out(t, i, static_cast<W>(static_cast<W>(in<T>(t, i, 0)) * static_cast<W>(in<T>(t, i, 1))));
  }
};
__extension__ using signed_128 = __int128;
__extension__ using unsigned_128 = unsigned __int128;
struct mul_hi {
  template <class T>
  static void run(thread& t, instruction const& i) {
    using W = std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, signed_128, unsigned_128>,
                                 wide_of<T>>;
    out(t, i, static_cast<T>(static_cast<W>(in<T>(t, i, 0)) * static_cast<W>(in<T>(t, i, 1)) >> (8 * sizeof(T))));
  }
};
struct mad {
  template <class T>
  static void run(thread& t, instruction const& i) {
    T const product = wrapped(in<T>(t, i, 0), in<T>(t, i, 1), [](auto a, auto b) { return a * b; });
    out(t, i, wrapped(product, in<T>(t, i, 2), [](auto a, auto b) { return a + b; }));
  }
};
struct mad_wide {
  template <class T>
  static void run(thread& t, instruction const& i) {
    using W = wide_of<T>;
    out(t, i, static_cast<W>(static_cast<W>(in<T>(t, i, 0)) * static_cast<W>(in<T>(t, i, 1)) + in<W>(t, i, 2)));
  }
};
struct fma {
  template <class T>
  static void run(thread& t, instruction const& i) {
    out(t, i, std::fma(in<T>(t, i, 0), in<T>(t, i, 1), in<T>(t, i, 2)));
  }
};
struct div {
  template <class T>
  static void run(thread& t, instruction const& i) {
    T const a = in<T>(t, i, 0), b = in<T>(t, i, 1);
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) t.fail(fault::illegal_instruction, "divides by zero");
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return out(t, i, wrapped(T{0}, a, [](auto x, auto y) { return x - y; }));
    }
    out(t, i, static_cast<T>(a / b));
  }
};
struct rem {
  template <class T>
  static void run(thread& t, instruction const& i) {
    T const a = in<T>(t, i, 0), b = in<T>(t, i, 1);
    if (b == 0) t.fail(fault::illegal_instruction, "divides by zero");
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return out(t, i, T{0});
    out(t, i, static_cast<T>(a % b));
  }
};
struct min {
  template <class T>
  static void run(thread& t, instruction const& i) {
    T const a = in<T>(t, i, 0), b = in<T>(t, i, 1);
    if constexpr (std::is_floating_point_v<T>) out(t, i, std::fmin(a, b));
    else out(t, i, b < a ? b : a);
  }
};
struct max {
  template <class T>
  static void run(thread& t, instruction const& i) {
    T const a = in<T>(t, i, 0), b = in<T>(t, i, 1);
    if constexpr (std::is_floating_point_v<T>) out(t, i, std::fmax(a, b));
    else out(t, i, a < b ? b : a);
  }
};
struct neg {
  template <class T>
  static void run(thread& t, instruction const& i) {
    if constexpr (std::is_floating_point_v<T>) out(t, i, -in<T>(t, i, 0));
    else out(t, i, wrapped(T{0}, in<T>(t, i, 0), [](auto a, auto b) { return a - b; }));
  }
};
struct abs {
  template <class T>
  static void run(thread& t, instruction const& i) {
    T const a = in<T>(t, i, 0);
    if constexpr (std::is_floating_point_v<T>) out(t, i, std::fabs(a));
    else if constexpr (std::is_signed_v<T>)
      out(t, i, a < 0 ? wrapped(T{0}, a, [](auto x, auto y) { return x - y; }) : a);
    else out(t, i, a);
  }
};
struct sqrt {
  template <class T>
  static void run(thread& t, instruction const& i) {
    out(t, i, std::sqrt(in<T>(t, i, 0)));
  }
};
struct rcp {
  template <class T>
  static void run(thread& t, instruction const& i) {
    out(t, i, T(1) / in<T>(t, i, 0));
  }
};
// Of each byte of the result, whether it is known depends on the same byte of the operands.
template <class T, class F>
void by_bytes(thread& t, instruction const& i, F f, std::uint8_t (*unwritten)(word const&, word const&)) {
  word const a = t.word_of(i.in[0]), b = t.word_of(i.in[1]);
  auto const of_type = static_cast<std::uint8_t>((1u << sizeof(T)) - 1);
  t.set(i.to[0], word{to_bits(static_cast<T>(f(from_bits<T>(a.value), from_bits<T>(b.value)))),
                      static_cast<std::uint8_t>(unwritten(a, b) & of_type)});
}
std::uint8_t unwritten_in_either(word const& a, word const& b) {
  return static_cast<std::uint8_t>(a.unwritten | b.unwritten);
}
// A byte that is zero in one operand is zero whatever the other is.
std::uint8_t unwritten_unless_zero(word const& a, word const& b) {
  std::uint8_t out = 0;
  for (int k = 0; k < 8; ++k) {
    bool const known_a = (a.unwritten >> k & 1) == 0, known_b = (b.unwritten >> k & 1) == 0;
    bool const zero = (known_a && (a.value >> (8 * k) & 0xff) == 0) || (known_b && (b.value >> (8 * k) & 0xff) == 0);
    if (!(known_a && known_b) && !zero) out |= static_cast<std::uint8_t>(1u << k);
  }
  return out;
}
struct bit_and {
  template <class T>
  static void run(thread& t, instruction const& i) {
    by_bytes<T>(t, i, [](T a, T b) { return a & b; }, unwritten_unless_zero);
  }
};
struct bit_or {
  template <class T>
  static void run(thread& t, instruction const& i) {
    by_bytes<T>(t, i, [](T a, T b) { return a | b; }, unwritten_in_either);
  }
};
struct bit_xor {
  template <class T>
  static void run(thread& t, instruction const& i) {
    by_bytes<T>(t, i, [](T a, T b) { return a ^ b; }, unwritten_in_either);
  }
};
struct bit_not {
  template <class T>
  static void run(thread& t, instruction const& i) {
    if constexpr (std::is_same_v<T, bool>) out(t, i, !in<T>(t, i, 0));
    else out(t, i, static_cast<T>(~in<T>(t, i, 0)));
  }
};
// Shifts by the width or more give zeros, or copies of the sign. By whole bytes, bytes stay what they are.
struct shl {
  template <class T>
  static void run(thread& t, instruction const& i) {
    auto const by = in<std::uint32_t>(t, i, 1);
    if (by >= 8 * sizeof(T)) return out(t, i, T{0});
    if (by % 8 != 0) return out(t, i, static_cast<T>(static_cast<std::uint64_t>(in<T>(t, i, 0)) << by));
    word const a = t.word_of(i.in[0]);
    auto const of_type = static_cast<std::uint8_t>((1u << sizeof(T)) - 1);
    t.set(i.to[0],
          word{to_bits(static_cast<T>(a.value << by)), static_cast<std::uint8_t>(a.unwritten << (by / 8) & of_type)});
  }
};
struct shr {
  template <class T>
  static void run(thread& t, instruction const& i) {
    auto const by = std::min(in<std::uint32_t>(t, i, 1), static_cast<std::uint32_t>(8 * sizeof(T)));
    T const a = in<T>(t, i, 0);
    if (by < 8 * sizeof(T)) return out(t, i, static_cast<T>(a >> by));
    out(t, i, std::is_signed_v<T> && a < T{0} ? static_cast<T>(~T{0}) : T{0});
  }
};
// The low word of two words that are shifted right as one, by up to 31 bits. By whole bytes, bytes stay what they are.
struct shift_both_right {
  template <class T>
  static void run(thread& t, instruction const& i) {
    static_assert(sizeof(T) == 4);
    word const low = t.word_of(i.in[0]), high = t.word_of(i.in[1]);
    std::uint32_t const by = in<std::uint32_t>(t, i, 2) & 31;
    auto const both = [](std::uint64_t a, std::uint64_t b, int width) {
      return (a & ((1ull << width) - 1)) | b << width;
    };
    std::uint64_t const unwritten = both(low.unwritten, high.unwritten & 0xfu, 4);
    bool const used = by % 8 == 0 ? false : (unwritten >> (by / 8) & 0x1f) != 0;
    t.set(i.to[0], word{both(low.value, high.value, 32) >> by & 0xffff'ffff,
                        used ? std::uint8_t{0xf} : static_cast<std::uint8_t>(unwritten >> (by / 8) & 0xf)});
  }
};
struct selp {
  template <class T>
  static void run(thread& t, instruction const& i) {
    word const which = t.word_of(i.in[2]);
    word chosen = t.word_of(i.in[which.value != 0 ? 0 : 1]);
    if (which.unwritten != 0) chosen.unwritten = 0xff;
    t.set(i.to[0], chosen);
  }
};
struct popc {
  template <class T>
  static void run(thread& t, instruction const& i) {
    out(t, i, static_cast<std::uint32_t>(std::popcount(static_cast<unsigned_of<T>>(in<T>(t, i, 0)))));
  }
};
struct clz {
  template <class T>
  static void run(thread& t, instruction const& i) {
    out(t, i, static_cast<std::uint32_t>(std::countl_zero(static_cast<unsigned_of<T>>(in<T>(t, i, 0)))));
  }
};
// Inserts the low bits of the first operand into the second.
struct bfi {
  template <class T>
  static void run(thread& t, instruction const& i) {
    std::uint32_t const width = 8 * sizeof(T), at = in<std::uint32_t>(t, i, 2) & 0xff;
    std::uint32_t const length = std::min(in<std::uint32_t>(t, i, 3) & 0xff, width);
    std::uint64_t mask = length == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << length) - 1;
    mask = at >= width ? 0 : mask << at;
    std::uint64_t const low = in<T>(t, i, 0), into = in<T>(t, i, 1);
    out(t, i, static_cast<T>((into & ~mask) | (at >= width ? 0 : (low << at) & mask)));
  }
};
struct bfe {
  template <class T>
  static void run(thread& t, instruction const& i) {
    std::uint32_t const width = 8 * sizeof(T), at = in<std::uint32_t>(t, i, 1) & 0xff;
    std::uint32_t const length = in<std::uint32_t>(t, i, 2) & 0xff;
    auto const a = static_cast<std::uint64_t>(static_cast<unsigned_of<T>>(in<T>(t, i, 0)));
    std::uint32_t const last = std::min(at + length - 1, width - 1);
    bool const sign = std::is_signed_v<T> && length > 0 && (a >> last & 1) != 0;
    std::uint64_t bits = sign ? ~std::uint64_t{0} : 0;
    for (std::uint32_t k = 0; k < length && k < width; ++k) {
      std::uint64_t const bit = at + k < width ? a >> (at + k) & 1 : sign;
      bits = (bits & ~(std::uint64_t{1} << k)) | bit << k;
    }
    out(t, i, static_cast<T>(bits));
  }
};
// Four bytes of the eight of two words; the sign of a byte may be replicated.
struct prmt {
  template <class T>
  static void run(thread& t, instruction const& i) {
    word const low = t.word_of(i.in[0]), high = t.word_of(i.in[1]);
    std::uint64_t const bytes = (low.value & 0xffff'ffff) | high.value << 32;
    unsigned const unwritten = (low.unwritten & 0xfu) | (high.unwritten & 0xfu) << 4;
    auto const selectors = in<std::uint32_t>(t, i, 2);
    word result;
    for (unsigned k = 0; k < 4; ++k) {
      unsigned const selector = selectors >> (4 * k) & 0xf;
      std::uint64_t byte = bytes >> (8 * (selector & 7)) & 0xff;
      if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
      result.value |= byte << (8 * k);
      result.unwritten |= static_cast<std::uint8_t>((unwritten >> (selector & 7) & 1) << k);
    }
    t.set(i.to[0], result);
  }
};

// -- Comparisons.

struct eq {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct ne {
  template <class T>
  static bool of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a < b || a > b;  // ordered
    else return a != b;
  }
};
struct lt {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct le {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct gt {
  template <class T>
  static bool of(T a, T b) {
    return a > b;
  }
};
struct ge {
  template <class T>
  static bool of(T a, T b) {
    return a >= b;
  }
};
struct nan {
  template <class T>
  static bool of(T a, T b) {
    return a != a || b != b;
  }
};
// True also where an operand is not a number.
template <class Compare>
struct unordered_or {
  template <class T>
  static bool of(T a, T b) {
    return nan::of(a, b) || Compare::of(a, b);
  }
};
template <class Compare>
struct negated {
  template <class T>
  static bool of(T a, T b) {
    return !Compare::of(a, b);
  }
};
template <class Compare>
struct setp {
  template <class T>
  static void run(thread& t, instruction const& i) {
    t.set(i.to[0], Compare::of(in<T>(t, i, 0), in<T>(t, i, 1)));
  }
};

// -- Moves and conversions.

// Also packs the elements of a vector into a word, and unpacks them.
std::size_t count(std::array<operand, 4> const& operands) {
  return static_cast<std::size_t>(std::ranges::find(operands, operand::none, &operand::kind) - operands.begin());
}
void move(thread& t, instruction const& i) { t.set(i.to[0], t.word_of(i.in[0])); }
struct mov {
  template <class T>
  static void run(thread& t, instruction const& i) {
    if (std::size_t const parts = count(i.in); parts > 1) {
      std::size_t const bytes = sizeof(T) / parts;
      word whole;
      for (std::size_t k = 0; k < parts; ++k) {
        word const part = t.word_of(i.in[k]);
        whole.value |= (part.value & ((std::uint64_t{1} << (8 * bytes)) - 1)) << (8 * bytes * k);
        whole.unwritten |= static_cast<std::uint8_t>((part.unwritten & ((1u << bytes) - 1)) << (bytes * k));
      }
      t.set(i.to[0], whole);
    } else if (std::size_t const pieces = count(i.to); pieces > 1) {
      std::size_t const bytes = sizeof(T) / pieces;
      word const whole = t.word_of(i.in[0]);
      for (std::size_t k = 0; k < pieces; ++k)
        t.set(i.to[k], word{whole.value >> (8 * bytes * k) & ((std::uint64_t{1} << (8 * bytes)) - 1),
                            static_cast<std::uint8_t>(whole.unwritten >> (bytes * k) & ((1u << bytes) - 1))});
    } else {
      move(t, i);
    }
  }
};
// Addresses of shared memory may be held in 32 bits, without their window.
std::uint64_t in_space(space where, std::uint64_t address) {
  return where == space::shared ? shared_window | (address & 0xffff'ffff) : address;
}
// From an address in a space to a generic one, and back.
void cvta(thread& t, instruction const& i) { t.set(i.to[0], in_space(i.space, t.value(i.in[0]))); }

enum class rounding { none, to_nearest, to_zero, to_integer, down, up };
template <class To, class From, rounding How>
void convert(thread& t, instruction const& i) {
  From const a = in<From>(t, i, 0);
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    From const whole = How == rounding::to_zero ? std::trunc(a)
                       : How == rounding::down  ? std::floor(a)
                       : How == rounding::up    ? std::ceil(a)
                                                : std::nearbyint(a);
    if (whole != whole) return out(t, i, To{0});
    if (whole <= static_cast<From>(std::numeric_limits<To>::min())) return out(t, i, std::numeric_limits<To>::min());
    if (whole >= static_cast<From>(std::numeric_limits<To>::max())) return out(t, i, std::numeric_limits<To>::max());
    out(t, i, static_cast<To>(whole));
  } else {
    out(t, i, static_cast<To>(a));
  }
}
// Between integers, bytes stay what they are, and those that are added are copies of the sign or zeros.
template <class To, class From>
void resize(thread& t, instruction const& i) {
  word const a = t.word_of(i.in[0]);
  std::uint8_t unwritten = a.unwritten & ((1u << sizeof(From)) - 1);
  if (std::is_signed_v<From> && (unwritten >> (sizeof(From) - 1) & 1) != 0)
    unwritten |= static_cast<std::uint8_t>(0xff << sizeof(From));
  t.set(i.to[0], word{to_bits(static_cast<To>(from_bits<From>(a.value))), unwritten});
}
void half_to_float(thread& t, instruction const& i) {
  t.set(i.to[0], to_bits(static_cast<float>(std::bit_cast<half>(static_cast<std::uint16_t>(t.value(i.in[0]))))));
}
void float_to_half(thread& t, instruction const& i) {
  t.set(i.to[0], std::bit_cast<std::uint16_t>(half(from_bits<float>(t.value(i.in[0])))));
}

// Types that only conversions name: bfloat16, and the two of 8 bits, whose values without a sign are in order of their codes.
void float_to_bfloat16(thread& t, instruction const& i) {
  std::uint64_t const bits = t.value(i.in[0]);
  bool const is_nan = std::isnan(from_bits<float>(bits));
  t.set(i.to[0], is_nan ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16 & 0xffff);
}
template <int MantissaBits, int Finite>
struct float8 {
  static std::array<float, Finite> const& values() {
    static std::array<float, Finite> const all = [] {
      constexpr int bias = (1 << (6 - MantissaBits)) - 1;
      std::array<float, Finite> out;
      for (int code = 0; code < Finite; ++code) {
        int const exponent = code >> MantissaBits, mantissa = code & ((1 << MantissaBits) - 1);
        int const whole = exponent == 0 ? mantissa : mantissa + (1 << MantissaBits);
        out[static_cast<std::size_t>(code)] =
            std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - bias - MantissaBits);
      }
      return out;
    }();
    return all;
  }
  // The nearest that is finite; of two, the one whose code is even.
  static std::uint64_t code(float x) {
    if (std::isnan(x)) return 0x7f;
    std::uint64_t const sign = std::signbit(x) ? 0x80 : 0;
    double const size = std::abs(x);
    auto const& all = values();
    auto const above = static_cast<std::size_t>(std::ranges::lower_bound(all, size) - all.begin());
    if (above == all.size()) return sign | (above - 1);
    if (above == 0) return sign;
    double const up = all[above] - size, down = size - all[above - 1];
    return sign | (up < down || (up == down && above % 2 == 0) ? above : above - 1);
  }
  static std::uint64_t half_of(std::uint64_t code) {
    std::size_t const size = code & 0x7f;
    if (size >= Finite) return 0x7fff;
    return std::bit_cast<std::uint16_t>(half((code & 0x80) != 0 ? -values()[size] : values()[size]));
  }
  static void from_floats(thread& t, instruction const& i) {
    t.set(i.to[0], code(in<float>(t, i, 0)) << 8 | code(in<float>(t, i, 1)));
  }
  static void to_halves(thread& t, instruction const& i) {
    std::uint64_t const codes = t.value(i.in[0], 2);
    t.set(i.to[0], half_of(codes >> 8 & 0xff) << 16 | half_of(codes & 0xff));
  }
};
using float8_e4m3 = float8<3, 0x7f>;
using float8_e5m2 = float8<2, 0x7c>;

// -- Memory.

void ld(thread& t, instruction const& i) {
  std::size_t const bytes = bytes_of(i.of);
  std::uint64_t const at = in_space(i.space, t.address(i.in[0]));
  t.expect_aligned(at, bytes * i.lanes);
  for (std::size_t k = 0; k < i.lanes; ++k) {
    word loaded = t.load(i, at + k * bytes, bytes);
    bool const has_sign = i.of >= type::s8 && i.of <= type::s64;
    if (bytes < 8 && has_sign && (loaded.value >> (8 * bytes - 1) & 1) != 0)
      loaded.value |= ~((std::uint64_t{1} << (8 * bytes)) - 1);
    t.set(i.to[k], loaded);
  }
}
void st(thread& t, instruction const& i) {
  std::size_t const bytes = bytes_of(i.of);
  std::uint64_t const at = in_space(i.space, t.address(i.to[0]));
  t.expect_aligned(at, bytes * i.lanes);
  for (std::size_t k = 0; k < i.lanes; ++k) t.store(i, at + k * bytes, bytes, t.word_of(i.in[k]));
}
// Weak ones of one size, of which there are most.
template <std::size_t Bytes, bool Sign>
void load_weakly(thread& t, instruction const& i) {
  std::uint64_t const at = in_space(i.space, t.address(i.in[0]));
  t.expect_aligned(at, Bytes * i.lanes);
  for (std::size_t k = 0; k < i.lanes; ++k) {
    word loaded = t.load_weakly<Bytes>(i, at + k * Bytes);
    if constexpr (Sign && Bytes < 8)
      if ((loaded.value >> (8 * Bytes - 1) & 1) != 0) loaded.value |= ~((std::uint64_t{1} << (8 * Bytes)) - 1);
    t.set(i.to[k], loaded);
  }
}
template <std::size_t Bytes>
void store_weakly(thread& t, instruction const& i) {
  std::uint64_t const at = in_space(i.space, t.address(i.to[0]));
  t.expect_aligned(at, Bytes * i.lanes);
  for (std::size_t k = 0; k < i.lanes; ++k) t.store_weakly<Bytes>(i, at + k * Bytes, t.word_of(i.in[k]));
}
struct atom_add {
  template <class T>
  static void run(thread& t, instruction const& i) {
    T const by = in<T>(t, i, 1);
    out(t, i, from_bits<T>(t.exchange(i, in_space(i.space, t.address(i.in[0])), sizeof(T), [by](std::uint64_t old) {
          return to_bits(wrapped(from_bits<T>(old), by, [](auto a, auto b) { return a + b; }));
        })));
  }
};
struct atom_exch {
  template <class T>
  static void run(thread& t, instruction const& i) {
    T const by = in<T>(t, i, 1);
    out(t, i, from_bits<T>(t.exchange(i, in_space(i.space, t.address(i.in[0])), sizeof(T), [by](std::uint64_t) {
          return to_bits(by);
        })));
  }
};
struct atom_cas {
  template <class T>
  static void run(thread& t, instruction const& i) {
    T const expected = in<T>(t, i, 1), by = in<T>(t, i, 2);
    out(t, i, from_bits<T>(t.exchange(i, in_space(i.space, t.address(i.in[0])), sizeof(T), [=](std::uint64_t old) {
          return from_bits<T>(old) == expected ? to_bits(by) : old;
        })));
  }
};

// By an address that stands for several. A switch adds in an order of its own, here from the last member to the first.
template <class T>
std::uint64_t sum_of(std::vector<word> const& members, std::size_t at) {
  auto const element = [&](word const& w) {
    std::uint64_t const bits = w.value >> (8 * at);
    if constexpr (sizeof(T) == 4) return from_bits<float>(bits);
    else return static_cast<float>(std::bit_cast<T>(static_cast<std::uint16_t>(bits)));
  };
  float sum = element(members.back());
  for (std::size_t k = members.size() - 1; k-- > 0;) sum += element(members[k]);
  if constexpr (sizeof(T) == 4) return to_bits(sum);
  else return std::uint64_t{std::bit_cast<std::uint16_t>(T(sum))} << (8 * at);
}
template <class T>
void load_sums(thread& t, instruction const& i) {
  std::uint64_t const address = t.address(i.in[0]);
  t.expect_aligned(address, 4 * i.lanes);
  for (std::size_t k = 0; k < i.lanes; ++k) {
    std::vector<word> const members = t.load_members(i, address + 4 * k, 4);
    word sum;
    for (word const& w : members) sum.unwritten |= w.unwritten != 0 ? 0xf : 0;
    for (std::size_t at = 0; at < 4; at += sizeof(T)) sum.value |= sum_of<T>(members, at);
    t.set(i.to[k], sum);
  }
}
void store_everywhere(thread& t, instruction const& i) {
  std::uint64_t const address = t.address(i.to[0]);
  t.expect_aligned(address, 4 * i.lanes);
  for (std::size_t k = 0; k < i.lanes; ++k) t.store_members(i, address + 4 * k, 4, t.word_of(i.in[k]));
}
void fence_aliases(thread& t, instruction const&) { t.fence_aliases(); }

// -- Control.

void bra(thread& t, instruction const& i) { t.jump(i.target); }
void call(thread& t, instruction const& i) { t.call(i); }
void ret(thread& t, instruction const&) { t.end_function(); }
void end_thread(thread& t, instruction const&) { t.exit(); }
void trap(thread& t, instruction const&) { t.fail(fault::trap, "executes a trap"); }
void barrier(thread& t, instruction const&) { t.wait_at_barrier(); }
void vote_at_barrier(thread& t, instruction const& i) { t.vote_at_barrier(i, t.deciding_value(i.in[1]) != 0); }
void swap_lanes(thread& t, instruction const& i) { t.swap_with_lane(i); }
void fence(thread& t, instruction const& i) { t.fence(i.scope); }
void nothing(thread&, instruction const&) {}
void unknown(thread& t, instruction const&) {
  t.fail(fault::illegal_instruction, "executes an instruction that the machine does not have");
}

// -- From a mnemonic to a handler.

template <class T>
struct of {};
// Calls f(of<T>{}) with the type of the host that has these bits.
template <class F>
handler for_type(type t, F f) {
  switch (t) {
    case type::pred: return f(of<bool>{});
    case type::b8:
    case type::u8: return f(of<std::uint8_t>{});
    case type::s8: return f(of<std::int8_t>{});
    case type::b16:
    case type::u16: return f(of<std::uint16_t>{});
    case type::s16: return f(of<std::int16_t>{});
    case type::b32:
    case type::u32: return f(of<std::uint32_t>{});
    case type::s32: return f(of<std::int32_t>{});
    case type::b64:
    case type::u64: return f(of<std::uint64_t>{});
    case type::s64: return f(of<std::int64_t>{});
    case type::f32: return f(of<float>{});
    case type::f64: return f(of<double>{});
    case type::f16:
    case type::none: break;
  }
  return unknown;
}
template <class What>
handler numbers(type t) {
  return for_type(t, []<class T>(of<T>) -> handler {
    if constexpr (std::is_same_v<T, bool>) return unknown;
    else return What::template run<T>;
  });
}
template <class What>
handler integers(type t) {
  return for_type(t, []<class T>(of<T>) -> handler {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return What::template run<T>;
    else return unknown;
  });
}
template <class What>
handler narrow_integers(type t) {  // of which there is one twice as wide
  return for_type(t, []<class T>(of<T>) -> handler {
    if constexpr (std::is_integral_v<T> && (sizeof(T) == 2 || sizeof(T) == 4)) return What::template run<T>;
    else return unknown;
  });
}
template <class What>
handler floats(type t) {
  return for_type(t, []<class T>(of<T>) -> handler {
    if constexpr (std::is_floating_point_v<T>) return What::template run<T>;
    else return unknown;
  });
}
template <class What>
handler bits(type t) {
  return for_type(t, []<class T>(of<T>) -> handler {
    if constexpr (std::is_integral_v<T>) return What::template run<T>;
    else return unknown;
  });
}
template <class What>
handler anything(type t) {
  return for_type(t, []<class T>(of<T>) -> handler { return What::template run<T>; });
}
template <class What>
handler words(type t) {
  return for_type(t, []<class T>(of<T>) -> handler {
    if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) return What::template run<T>;
    else return unknown;
  });
}

handler comparison(std::string_view how, type t) {
  if (how == "eq") return anything<setp<eq>>(t);
  if (how == "ne") return anything<setp<ne>>(t);
  if (how == "lt" || how == "lo") return numbers<setp<lt>>(t);
  if (how == "le" || how == "ls") return numbers<setp<le>>(t);
  if (how == "gt" || how == "hi") return numbers<setp<gt>>(t);
  if (how == "ge" || how == "hs") return numbers<setp<ge>>(t);
  if (how == "equ") return floats<setp<unordered_or<eq>>>(t);
  if (how == "neu") return floats<setp<unordered_or<ne>>>(t);
  if (how == "ltu") return floats<setp<unordered_or<lt>>>(t);
  if (how == "leu") return floats<setp<unordered_or<le>>>(t);
  if (how == "gtu") return floats<setp<unordered_or<gt>>>(t);
  if (how == "geu") return floats<setp<unordered_or<ge>>>(t);
  if (how == "nan") return floats<setp<nan>>(t);
  if (how == "num") return floats<setp<negated<nan>>>(t);
  return unknown;
}

handler conversion(type to, type from, rounding how) {
  if (to == type::f32 && from == type::f16) return half_to_float;
  if (to == type::f16 && from == type::f32) return how == rounding::to_nearest ? float_to_half : unknown;
  return for_type(to, [&]<class To>(of<To>) -> handler {
    return for_type(from, [&]<class From>(of<From>) -> handler {
      if constexpr (std::is_same_v<To, bool> || std::is_same_v<From, bool>) return unknown;
      else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        switch (how) {
          case rounding::to_zero: return convert<To, From, rounding::to_zero>;
          case rounding::to_integer: return convert<To, From, rounding::to_integer>;
          case rounding::down: return convert<To, From, rounding::down>;
          case rounding::up: return convert<To, From, rounding::up>;
          case rounding::none:
          case rounding::to_nearest: return unknown;
        }
        return unknown;
      } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        return resize<To, From>;
      } else {
        return how == rounding::none || how == rounding::to_nearest ? convert<To, From, rounding::to_nearest> : unknown;
      }
    });
  });
}

handler handler_of(std::string_view name, std::span<std::string_view const> rest, instruction& i) {
  rounding how = rounding::none;
  std::string_view variant, compare, narrow;
  for (std::string_view const word : rest) {
    if (type const t = type_named(word); t != type::none) {
      (i.of == type::none ? i.of : i.from) = t;
    } else if (word == "global") {
      i.space = space::global;
    } else if (word == "shared") {
      i.space = space::shared;
    } else if (word == "local") {
      i.space = space::local;
    } else if (word == "param") {
      i.space = space::param;
    } else if (word == "v2") {
      i.lanes = 2;
    } else if (word == "v4") {
      i.lanes = 4;
    } else if (word == "relaxed" || word == "volatile") {
      i.order = order::relaxed;
      if (word == "volatile") i.scope = scope::system;
    } else if (word == "acquire") {
      i.order = order::acquire;
    } else if (word == "release") {
      i.order = order::release;
    } else if (word == "acq_rel") {
      i.order = order::acquire_release;
    } else if (word == "cta") {
      i.scope = scope::block;
    } else if (word == "gpu" || word == "gl") {
      i.scope = scope::device;
    } else if (word == "sys") {
      i.scope = scope::system;
    } else if (word == "rn") {
      how = rounding::to_nearest;
    } else if (word == "rzi") {
      how = rounding::to_zero;
    } else if (word == "rni") {
      how = rounding::to_integer;
    } else if (word == "rmi") {
      how = rounding::down;
    } else if (word == "rpi") {
      how = rounding::up;
    } else if (word == "lo" || word == "hi" || word == "wide" || word == "add" || word == "exch" || word == "cas" ||
               word == "bfly" || word == "or") {
      variant = word;
    } else if (name == "shf" && (word == "r" || word == "wrap")) {
    } else if (word == "down") {
      i.down = true;
    } else if (name == "cvt" && (word == "bf16" || word == "e4m3x2" || word == "e5m2x2")) {
      narrow = word;
    } else if (name == "multimem" && (word == "f16x2" || word == "bf16x2")) {
      narrow = word;
    } else if ((name == "multimem" && (word == "ld_reduce" || word == "st" || word == "acc::f32")) ||
               (name == "fence" && (word == "proxy" || word == "alias"))) {
    } else if (name == "setp" && compare.empty()) {
      compare = word;
    } else if (word != "to" && word != "L1" && word != "L1::no_allocate" && word != "L2" && word != "uni" &&
               word != "sync" && word != "sc" && word != "nc" && word != "aligned" && word != "red" &&
               word != "satfinite" && word != "f16x2") {
      return unknown;
    }
  }
  if (name == "atom" && i.order == order::weak) i.order = order::relaxed;
  if (name == "setp") return comparison(compare.empty() ? variant : compare, i.of);
  if (name == "add") return numbers<add>(i.of);
  if (name == "sub") return numbers<sub>(i.of);
  if (name == "mul" || name == "mad") {
    bool const adds = name == "mad";
    if (variant == "wide") return adds ? narrow_integers<mad_wide>(i.of) : narrow_integers<mul_wide>(i.of);
    if (variant == "hi") return adds ? unknown : integers<mul_hi>(i.of);
    return adds ? integers<mad>(i.of) : numbers<mul>(i.of);
  }
  if (name == "fma") return floats<fma>(i.of);
  if (name == "div") return numbers<div>(i.of);
  if (name == "rem") return integers<rem>(i.of);
  if (name == "min") return numbers<min>(i.of);
  if (name == "max") return numbers<max>(i.of);
  if (name == "neg") return numbers<neg>(i.of);
  if (name == "abs") return numbers<abs>(i.of);
  if (name == "sqrt") return floats<sqrt>(i.of);
  if (name == "rcp") return floats<rcp>(i.of);
  if (name == "and") return bits<bit_and>(i.of);
  if (name == "or") return bits<bit_or>(i.of);
  if (name == "xor") return bits<bit_xor>(i.of);
  if (name == "not") return bits<bit_not>(i.of);
  if (name == "shl") return integers<shl>(i.of);
  if (name == "shr") return integers<shr>(i.of);
  if (name == "shf" && i.of == type::b32) return shift_both_right::run<std::uint32_t>;
  if (name == "selp") return anything<selp>(i.of);
  if (name == "popc") return words<popc>(i.of);
  if (name == "clz") return words<clz>(i.of);
  if (name == "bfi") return words<bfi>(i.of);
  if (name == "bfe") return words<bfe>(i.of);
  if (name == "prmt") return words<prmt>(i.of);
  if (name == "mov") return anything<mov>(i.of);
  if (name == "cvta") return cvta;
  if (name == "cvt" && !narrow.empty()) {
    if (narrow == "e4m3x2" && rest[1] == "f16x2") return float8_e4m3::to_halves;
    if (i.of != type::f32 || how != rounding::to_nearest) return unknown;
    return narrow == "bf16"     ? float_to_bfloat16
           : narrow == "e4m3x2" ? float8_e4m3::from_floats
                                : float8_e5m2::from_floats;
  }
  if (name == "cvt") return conversion(i.of, i.from, how);
  if (name == "ld") return ld;
  if (name == "st") return st;
  if (name == "multimem" && rest[0] == "st") return i.of == type::f32 ? store_everywhere : unknown;
  if (name == "multimem" && variant == "add") {
    if (i.of == type::f32) return load_sums<float>;
    return narrow == "f16x2" ? load_sums<half> : narrow == "bf16x2" ? load_sums<bfloat16> : unknown;
  }
  if (name == "atom" && variant == "add") return words<atom_add>(i.of);
  if (name == "atom" && variant == "exch") return words<atom_exch>(i.of);
  if (name == "atom" && variant == "cas") return words<atom_cas>(i.of);
  if (name == "prefetch") return nothing;
  if (name == "bra") return bra;
  if (name == "call") return call;
  if (name == "ret") return ret;
  if (name == "exit") return end_thread;
  if (name == "trap") return trap;
  if (name == "shfl" && (variant == "bfly" || i.down)) return swap_lanes;
  if (name == "bar" || name == "barrier") return variant == "or" ? vote_at_barrier : barrier;
  if (name == "fence" && rest[0] == "proxy") return rest[1] == "alias" ? fence_aliases : unknown;
  if (name == "fence" || name == "membar") return fence;
  return unknown;
}

}  // namespace

void decode(std::span<std::string_view const> mnemonic, instruction& out) {
  out.run = handler_of(mnemonic[0], mnemonic.subspan(1), out);
}

void choose_quicker(instruction& i) {
  bool const has_sign = i.of >= type::s8 && i.of <= type::s64;
  if (i.run == anything<mov>(i.of) && count(i.in) == 1 && count(i.to) == 1) {
    i.run = move;
  } else if (i.run == ld && i.order == order::weak) {
    switch (bytes_of(i.of)) {
      case 1: i.run = has_sign ? load_weakly<1, true> : load_weakly<1, false>; break;
      case 2: i.run = has_sign ? load_weakly<2, true> : load_weakly<2, false>; break;
      case 4: i.run = has_sign ? load_weakly<4, true> : load_weakly<4, false>; break;
      case 8: i.run = load_weakly<8, false>; break;
    }
  } else if (i.run == st && i.order == order::weak) {
    switch (bytes_of(i.of)) {
      case 1: i.run = store_weakly<1>; break;
      case 2: i.run = store_weakly<2>; break;
      case 4: i.run = store_weakly<4>; break;
      case 8: i.run = store_weakly<8>; break;
    }
  }
}

}  // namespace tutti::testing::ptx
