// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of operations.
#include "operations.hpp"

#include <array>
#include <complex>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "named.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/reduce/ops.hpp"

namespace interpose {
namespace {

// A value and its index, as MPI lays them out.
template <class T>
struct pair {
  T value;
  int index;
};
struct greater_first {
  template <class T>
  pair<T> operator()(pair<T> const& a, pair<T> const& b) const {
    return a.value < b.value || (a.value == b.value && b.index < a.index) ? b : a;
  }
};
struct lesser_first {
  template <class T>
  pair<T> operator()(pair<T> const& a, pair<T> const& b) const {
    return b.value < a.value || (a.value == b.value && b.index < a.index) ? b : a;
  }
};

template <class T, class Op>
void run(void const* const* sources, int source_count, void* const* destinations, int destination_count, std::size_t n,
         tutti::detail::stage at) {
  tutti::detail::combine(tutti::detail::one_thread{}, reinterpret_cast<T const* const*>(sources), source_count,
                         reinterpret_cast<T* const*>(destinations), destination_count, n, Op{}, at);
}
template <class T, class Op>
constexpr combination with{&run<T, Op>, sizeof(T), alignof(T)};

template <class T>
combination arithmetic(operation op) {
  if (op == operation::sum) return with<T, tutti::sum>;
  if (op == operation::product) return with<T, tutti::product>;
  return {};
}
template <class T>
combination ordered(operation op) {
  if (op == operation::min) return with<T, tutti::min>;
  if (op == operation::max) return with<T, tutti::max>;
  return {};
}
template <class T>
combination logical(operation op) {
  if (op == operation::land) return with<T, tutti::logical_and>;
  if (op == operation::lor) return with<T, tutti::logical_or>;
  if (op == operation::lxor) return with<T, tutti::logical_xor>;
  return {};
}
combination bitwise(operation op) {
  if (op == operation::band) return with<std::uint8_t, tutti::bit_and>;
  if (op == operation::bor) return with<std::uint8_t, tutti::bit_or>;
  if (op == operation::bxor) return with<std::uint8_t, tutti::bit_xor>;
  return {};
}
template <class T>
combination located(operation op) {
  if (op == operation::maxloc) return with<pair<T>, greater_first>;
  if (op == operation::minloc) return with<pair<T>, lesser_first>;
  return {};
}

combination either(combination a, combination b) { return a.run != nullptr ? a : b; }

// Sums and products wrap, so they use the unsigned type.
template <std::integral T>
combination integer(operation op) {
  using U = std::make_unsigned_t<T>;
  return either(either(arithmetic<U>(op), ordered<T>(op)), either(logical<U>(op), bitwise(op)));
}
template <std::floating_point T>
combination floating(operation op) {
  return either(arithmetic<T>(op), ordered<T>(op));
}

// See MPI-4.1, 6.9.2 and 6.9.4.
combination defined(operation op, element e) {
  switch (e) {
    case element::none: return {};
    case element::int8: return integer<std::int8_t>(op);
    case element::uint8: return integer<std::uint8_t>(op);
    case element::int16: return integer<std::int16_t>(op);
    case element::uint16: return integer<std::uint16_t>(op);
    case element::int32: return integer<std::int32_t>(op);
    case element::uint32: return integer<std::uint32_t>(op);
    case element::int64: return integer<std::int64_t>(op);
    case element::uint64: return integer<std::uint64_t>(op);
    case element::float32: return floating<float>(op);
    case element::float64: return floating<double>(op);
    case element::complex64: return arithmetic<std::complex<float>>(op);
    case element::complex128: return arithmetic<std::complex<double>>(op);
    case element::byte: return bitwise(op);
    case element::boolean: return logical<std::uint8_t>(op);
    case element::float_int: return located<float>(op);
    case element::double_int: return located<double>(op);
    case element::long_int: return located<long>(op);
    case element::short_int: return located<short>(op);
    case element::two_int: return located<int>(op);
  }
  return {};
}

constexpr names operation_names(std::to_array<named<operation>>({
    {operation::sum, "MPI_SUM"},
    {operation::product, "MPI_PROD"},
    {operation::min, "MPI_MIN"},
    {operation::max, "MPI_MAX"},
    {operation::land, "MPI_LAND"},
    {operation::lor, "MPI_LOR"},
    {operation::lxor, "MPI_LXOR"},
    {operation::band, "MPI_BAND"},
    {operation::bor, "MPI_BOR"},
    {operation::bxor, "MPI_BXOR"},
    {operation::maxloc, "MPI_MAXLOC"},
    {operation::minloc, "MPI_MINLOC"},
}));
constexpr names element_names(std::to_array<named<element>>({
    {element::none, "none"},
    {element::int8, "int8"},
    {element::uint8, "uint8"},
    {element::int16, "int16"},
    {element::uint16, "uint16"},
    {element::int32, "int32"},
    {element::uint32, "uint32"},
    {element::int64, "int64"},
    {element::uint64, "uint64"},
    {element::float32, "float32"},
    {element::float64, "float64"},
    {element::complex64, "complex64"},
    {element::complex128, "complex128"},
    {element::byte, "byte"},
    {element::boolean, "bool"},
    {element::float_int, "float and int"},
    {element::double_int, "double and int"},
    {element::long_int, "long and int"},
    {element::short_int, "short and int"},
    {element::two_int, "int and int"},
}));

class operation_table {
 public:
  operation_table() {
    for (std::size_t o = 0; o < operation_names.size(); ++o)
      for (std::size_t e = 0; e < element_names.size(); ++e) {
        auto const op = static_cast<operation>(o);
        auto const type = static_cast<element>(e);
        operation_on_type& one = rows_[o][e];
        one.elements = tutti::detail::join({"elements of ", defined(op, type).unit, " bytes"});
        one.text = tutti::detail::join({operation_names[op], " of ", element_names[type]});
        one.names = {one.elements, one.text};
        one.id = tutti::detail::name_id(one.text);
      }
  }
  operation_table(operation_table const&) = delete;
  operation_table& operator=(operation_table const&) = delete;

  operation_on_type const& at(operation op, element type) const {
    return rows_[static_cast<std::size_t>(op)][static_cast<std::size_t>(type)];
  }

 private:
  operation_on_type rows_[operation_names.size()][element_names.size()];
};

}  // namespace

combination find(operation op, element e) {
  combination out = defined(op, e);
  static operation_table const& all = *new operation_table;  // calls may be made until the process is gone
  out.what = &all.at(op, e);
  return out;
}

}  // namespace interpose
