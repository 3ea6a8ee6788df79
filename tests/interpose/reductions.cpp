// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every reduction of MPI with every predefined operation on every type that supports it, and with user-defined
// operations, compared with a loop over the ranks. With the argument `strict`, also cases that MPIs get wrong: Open MPI
// 4.1 saturates small integers; MPICH 4.0 compares unsigned ones as signed, and crashes in place at a root above 0.
// ranks: 1 2 3 7
// on tutti: MPI_Allreduce MPI_Exscan MPI_Reduce MPI_Reduce_scatter MPI_Reduce_scatter_block MPI_Scan
#include <algorithm>
#include <complex>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mpi.h>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

bool strict = false;

template <class T>
struct indexed {
  T value;
  int index;
  bool operator==(indexed const&) const = default;
};
template <class>
inline constexpr bool is_indexed = false;
template <class T>
inline constexpr bool is_indexed<indexed<T>> = true;

// x -> a * x + b: the composition depends on the order.
struct affine {
  std::uint32_t a, b;
  bool operator==(affine const&) const = default;
};
affine compose(affine const& f, affine const& g) { return {f.a * g.a, g.a * f.b + g.b}; }

template <class T>
T value(int rank, std::size_t i) {
  int const n = static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5);
  if constexpr (is_indexed<T>) return {static_cast<decltype(T::value)>(n % 3), static_cast<int>(i % 4) + rank};
  else if constexpr (std::same_as<T, affine>)
    return {static_cast<std::uint32_t>(n + 1), static_cast<std::uint32_t>(rank)};
  else if constexpr (std::same_as<T, bool>) return n == 0;
  else if constexpr (requires { typename T::value_type; }) return T(static_cast<typename T::value_type>(n % 3), 1);
  else if constexpr (std::integral<T>)
    return static_cast<T>(strict ? std::numeric_limits<T>::max() - static_cast<T>(n % 2 * 9) : static_cast<T>(n));
  else return static_cast<T>(n) / 2;
}

template <class T>
using binary = std::function<T(T const&, T const&)>;

// The combination of ranks 0 to `last` of the communicator.
template <class T>
std::vector<T> combined(int last, std::size_t begin, std::size_t count, binary<T> const& op) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    T all = value<T>(0, begin + i);
    for (int q = 1; q <= last; ++q) all = op(all, value<T>(q, begin + i));
    out[i] = all;
  }
  return out;
}

// std::vector<bool> is not an array of bools.
template <class T>
class array {
 public:
  explicit array(std::size_t n) : data_(new T[n + 1]()) {}
  T* data() { return data_.get(); }
  std::vector<T> first(std::size_t n) const { return std::vector<T>(data_.get(), data_.get() + n); }

 private:
  std::unique_ptr<T[]> data_;
};

template <class T>
void check(MPI_Comm comm, MPI_Datatype type, MPI_Op mpi_op, std::string const& name, binary<T> const& op) {
  int const rank = rank_of(comm), ranks = size_of(comm), last = ranks - 1;
  auto const p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
  for (std::size_t const count : {0U, 1U, 1000U})
    for (bool const in_place : {false, true}) {
      int const n = static_cast<int>(count);
      int const root = in_place && !(strict && std::same_as<T, int>) ? 0 : ranks / 2;
      std::string const what = name + " of " + std::to_string(n) + (in_place ? " in place" : "");
      array<T> in(count * p), out(count * p);
      auto const prepare = [&](std::size_t elements) {
        for (std::size_t i = 0; i < elements; ++i) (in_place ? out : in).data()[i] = value<T>(rank, i);
      };
      void const* const from = in_place ? MPI_IN_PLACE : static_cast<void*>(in.data());

      prepare(count);
      MPI_Allreduce(from, out.data(), n, type, mpi_op, comm);
      expect(out.first(count), combined(last, 0, count, op), "MPI_Allreduce " + what);

      bool const root_in_place = in_place && rank == root;
      if (in_place && !root_in_place)
        for (std::size_t i = 0; i < count; ++i) in.data()[i] = value<T>(rank, i);
      prepare(count);
      MPI_Reduce(root_in_place ? MPI_IN_PLACE : in.data(), out.data(), n, type, mpi_op, root, comm);
      if (rank == root) expect(out.first(count), combined(last, 0, count, op), "MPI_Reduce " + what);

      prepare(count);
      MPI_Scan(from, out.data(), n, type, mpi_op, comm);
      expect(out.first(count), combined(rank, 0, count, op), "MPI_Scan " + what);

      prepare(count);
#if defined(OPEN_MPI)
      bool const has_output = in_place || rank > 0;  // rank 0 gets nothing
#else
      bool const has_output = true;  // MPICH refuses a null pointer
#endif
      MPI_Exscan(from, has_output ? out.data() : nullptr, n, type, mpi_op, comm);
      if (rank > 0) expect(out.first(count), combined(rank - 1, 0, count, op), "MPI_Exscan " + what);

      prepare(count * p);
      MPI_Reduce_scatter_block(from, out.data(), n, type, mpi_op, comm);
      expect(out.first(count), combined(last, r * count, count, op), "MPI_Reduce_scatter_block " + what);

      std::vector<int> counts;
      for (int q = 0; q < ranks; ++q) counts.push_back(q % 2 == 0 ? n : n / 3);
      auto const begin = static_cast<std::size_t>(std::accumulate(counts.begin(), counts.begin() + rank, 0));
      auto const mine = static_cast<std::size_t>(counts[r]);
      prepare(count * p);
      MPI_Reduce_scatter(from, out.data(), counts.data(), type, mpi_op, comm);
      expect(out.first(mine), combined(last, begin, mine, op), "MPI_Reduce_scatter " + what);
    }
}

// Checks the operations that the standard defines for a type: MPI-4.1, 6.9.2 and 6.9.4.
template <class T>
void check_predefined(MPI_Comm comm, MPI_Datatype type, std::string const& name) {
  auto const with = [&](MPI_Op op, char const* op_name, auto f) { check<T>(comm, type, op, name + " " + op_name, f); };
  if constexpr (is_indexed<T>) {
    with(MPI_MAXLOC, "MAXLOC",
         [](T const& a, T const& b) { return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b; });
    with(MPI_MINLOC, "MINLOC",
         [](T const& a, T const& b) { return a.value < b.value || (a.value == b.value && a.index < b.index) ? a : b; });
  } else {
    constexpr bool integer = std::integral<T> && !std::same_as<T, bool>;
    if constexpr (!std::same_as<T, bool>) {
      with(MPI_SUM, "SUM", [](T const& a, T const& b) {
        if constexpr (integer) return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
        else return a + b;
      });
      with(MPI_PROD, "PROD", [](T const& a, T const& b) {
        if constexpr (integer) return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
        else return a * b;
      });
    }
    if constexpr (integer || std::floating_point<T>) {
      with(MPI_MAX, "MAX", [](T const& a, T const& b) { return std::max(a, b); });
      with(MPI_MIN, "MIN", [](T const& a, T const& b) { return std::min(a, b); });
    }
    if constexpr (std::integral<T>) {
      with(MPI_LAND, "LAND", [](T const& a, T const& b) { return static_cast<T>(a && b); });
      with(MPI_LOR, "LOR", [](T const& a, T const& b) { return static_cast<T>(a || b); });
      with(MPI_LXOR, "LXOR", [](T const& a, T const& b) { return static_cast<T>(!a != !b); });
    }
    if constexpr (integer) {
      with(MPI_BAND, "BAND", [](T const& a, T const& b) { return static_cast<T>(a & b); });
      with(MPI_BOR, "BOR", [](T const& a, T const& b) { return static_cast<T>(a | b); });
      with(MPI_BXOR, "BXOR", [](T const& a, T const& b) { return static_cast<T>(a ^ b); });
    }
  }
}

void compose_all(void* in, void* in_out, int* count, MPI_Datatype*) {
  auto const* const left = static_cast<affine const*>(in);
  auto* const right = static_cast<affine*>(in_out);
  for (int i = 0; i < *count; ++i) right[i] = compose(left[i], right[i]);
}
void greatest_of_all(void* in, void* in_out, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i)
    static_cast<int*>(in_out)[i] = std::max(static_cast<int*>(in)[i], static_cast<int*>(in_out)[i]);
}

void check_own(MPI_Comm comm) {
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype pair = MPI_DATATYPE_NULL, struct_type = MPI_DATATYPE_NULL;
  MPI_Op_create(&compose_all, 0, &op);
  MPI_Type_contiguous(2, MPI_UINT32_T, &pair);
  MPI_Type_commit(&pair);
  int const lengths[] = {1, 1};
  MPI_Aint const places[] = {sizeof(std::uint32_t), 0};
  MPI_Datatype const types[] = {MPI_UINT32_T, MPI_UINT32_T};
  MPI_Type_create_struct(2, lengths, places, types, &struct_type);
  MPI_Type_commit(&struct_type);
  check<affine>(comm, pair, op, "pairs with an operation that does not commute", compose);
  check<affine>(comm, struct_type, op, "structs with an operation that does not commute", compose);
  MPI_Type_free(&pair);
  MPI_Type_free(&struct_type);
  MPI_Op_free(&op);
  MPI_Op_create(&greatest_of_all, 1, &op);
  check<int>(comm, MPI_INT, op, "MPI_INT with an operation that commutes", [](int a, int b) { return std::max(a, b); });
  MPI_Op_free(&op);
}

}  // namespace

int main(int argc, char** argv) {
  strict = argc > 1 && std::string(argv[1]) == "strict";
  return run(MPI_THREAD_SINGLE, [](int) {
    on_communicators([](MPI_Comm comm) {
      check_own(comm);
      check_predefined<int>(comm, MPI_INT, "MPI_INT");
    });
    MPI_Comm const comm = MPI_COMM_WORLD;
    check_predefined<long>(comm, MPI_LONG, "MPI_LONG");
    check_predefined<short>(comm, MPI_SHORT, "MPI_SHORT");
    check_predefined<signed char>(comm, MPI_SIGNED_CHAR, "MPI_SIGNED_CHAR");
    check_predefined<long long>(comm, MPI_LONG_LONG, "MPI_LONG_LONG");
    check_predefined<std::int8_t>(comm, MPI_INT8_T, "MPI_INT8_T");
    check_predefined<std::int64_t>(comm, MPI_INT64_T, "MPI_INT64_T");
    check_predefined<MPI_Aint>(comm, MPI_AINT, "MPI_AINT");
    check_predefined<MPI_Offset>(comm, MPI_OFFSET, "MPI_OFFSET");
    check_predefined<float>(comm, MPI_FLOAT, "MPI_FLOAT");
    check_predefined<double>(comm, MPI_DOUBLE, "MPI_DOUBLE");
    check_predefined<long double>(comm, MPI_LONG_DOUBLE, "MPI_LONG_DOUBLE");
    check_predefined<bool>(comm, MPI_C_BOOL, "MPI_C_BOOL");
    check_predefined<std::complex<float>>(comm, MPI_C_FLOAT_COMPLEX, "MPI_C_FLOAT_COMPLEX");
    check_predefined<std::complex<double>>(comm, MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX");
    check_predefined<indexed<int>>(comm, MPI_2INT, "MPI_2INT");
    check_predefined<indexed<float>>(comm, MPI_FLOAT_INT, "MPI_FLOAT_INT");
    check_predefined<indexed<double>>(comm, MPI_DOUBLE_INT, "MPI_DOUBLE_INT");
    check_predefined<indexed<long>>(comm, MPI_LONG_INT, "MPI_LONG_INT");
    check_predefined<indexed<short>>(comm, MPI_SHORT_INT, "MPI_SHORT_INT");
    check_predefined<unsigned>(comm, MPI_UNSIGNED, "MPI_UNSIGNED");
    check_predefined<unsigned long>(comm, MPI_UNSIGNED_LONG, "MPI_UNSIGNED_LONG");
    check_predefined<unsigned short>(comm, MPI_UNSIGNED_SHORT, "MPI_UNSIGNED_SHORT");
    check_predefined<unsigned char>(comm, MPI_UNSIGNED_CHAR, "MPI_UNSIGNED_CHAR");
    check_predefined<std::uint32_t>(comm, MPI_UINT32_T, "MPI_UINT32_T");
  });
}
