// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predefined types come from a table; a derived type that repeats a dense type is dense.
#include "datatypes.hpp"

#include <atomic>
#include <type_traits>
#include <unordered_map>

#include "binding.hpp"

namespace interpose {
namespace {

template <class T>
constexpr element integer_kind() {
  constexpr element with_sign[] = {element::int8, element::int16, element::int32, element::int64};
  constexpr element without[] = {element::uint8, element::uint16, element::uint32, element::uint64};
  constexpr int i = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return std::is_signed_v<T> ? with_sign[i] : without[i];
}

// The MPI carries out reductions of MPI_LONG_DOUBLE, and of Fortran's logical type, because the value of true depends
// on the compiler. The standard defines none for MPI_CHAR, MPI_WCHAR and MPI_PACKED.
using table = std::unordered_map<MPI_Datatype, datatype>;
table make_table() {
  table out;
  auto const add = [&](MPI_Datatype type, element kind, int expected = 0) {
    int size = 0;
    MPI_Aint lower = 0, extent = 0;
    if (type == MPI_DATATYPE_NULL) return;  // a Fortran type, in an MPI without Fortran
    PMPI_Type_size(type, &size);
    PMPI_Type_get_extent(type, &lower, &extent);
    if (expected != 0 && size != expected)
      kind = element::none;  // Fortran's may be wider, depending on a compiler option
    out[type] = {static_cast<std::size_t>(size), extent, size == extent, kind};
  };
  add(MPI_SIGNED_CHAR, element::int8);
  add(MPI_UNSIGNED_CHAR, element::uint8);
  add(MPI_SHORT, element::int16);
  add(MPI_UNSIGNED_SHORT, element::uint16);
  add(MPI_INT, element::int32);
  add(MPI_UNSIGNED, element::uint32);
  add(MPI_LONG, integer_kind<long>());
  add(MPI_UNSIGNED_LONG, integer_kind<unsigned long>());
  add(MPI_LONG_LONG, element::int64);
  add(MPI_UNSIGNED_LONG_LONG, element::uint64);
  add(MPI_INT8_T, element::int8);
  add(MPI_UINT8_T, element::uint8);
  add(MPI_INT16_T, element::int16);
  add(MPI_UINT16_T, element::uint16);
  add(MPI_INT32_T, element::int32);
  add(MPI_UINT32_T, element::uint32);
  add(MPI_INT64_T, element::int64);
  add(MPI_UINT64_T, element::uint64);
  add(MPI_INTEGER, integer_kind<MPI_Fint>(), sizeof(MPI_Fint));
  add(MPI_INTEGER1, element::int8, 1);
  add(MPI_INTEGER2, element::int16, 2);
  add(MPI_INTEGER4, element::int32, 4);
  add(MPI_INTEGER8, element::int64, 8);
  add(MPI_FLOAT, element::float32);
  add(MPI_DOUBLE, element::float64);
  add(MPI_REAL, element::float32, 4);
  add(MPI_DOUBLE_PRECISION, element::float64, 8);
  add(MPI_REAL4, element::float32, 4);
  add(MPI_REAL8, element::float64, 8);
  add(MPI_C_FLOAT_COMPLEX, element::complex64);
  add(MPI_C_DOUBLE_COMPLEX, element::complex128);
  add(MPI_COMPLEX, element::complex64, 8);
  add(MPI_DOUBLE_COMPLEX, element::complex128, 16);
  add(MPI_COMPLEX8, element::complex64, 8);
  add(MPI_COMPLEX16, element::complex128, 16);
  add(MPI_CXX_FLOAT_COMPLEX, element::complex64, 8);
  add(MPI_CXX_DOUBLE_COMPLEX, element::complex128, 16);
  add(MPI_CXX_BOOL, element::boolean, 1);
  add(MPI_BYTE, element::byte);
  add(MPI_C_BOOL, element::boolean);
  add(MPI_CHAR, element::none);
  add(MPI_WCHAR, element::none);
  add(MPI_PACKED, element::none);
  add(MPI_LONG_DOUBLE, element::none);
  add(MPI_CHARACTER, element::none);
  add(MPI_LOGICAL, element::none);
  add(MPI_AINT, integer_kind<MPI_Aint>());
  add(MPI_OFFSET, integer_kind<MPI_Offset>());
  add(MPI_COUNT, integer_kind<MPI_Count>());
  add(MPI_FLOAT_INT, element::float_int);
  add(MPI_DOUBLE_INT, element::double_int);
  add(MPI_LONG_INT, element::long_int);
  add(MPI_SHORT_INT, element::short_int);
  add(MPI_2INT, element::two_int);
  return out;
}

// Never destroyed, because destructors of the program may call MPI.
table const& predefined() {
  static table const& known = *new table(make_table());
  return known;
}

// How a type was made.
struct envelope {
  explicit envelope(MPI_Datatype type) {
#if MPI_VERSION >= 4
    PMPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &combiner);
#else
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
#endif
  }

  // Of a duplicate, or of consecutive copies: the type that is repeated.
  MPI_Datatype inner_of(MPI_Datatype type) const {
    int count = 0;
    MPI_Datatype out = MPI_DATATYPE_NULL;
#if MPI_VERSION >= 4
    MPI_Count large = 0;
    PMPI_Type_get_contents_c(type, integers, addresses, counts, types, &count, nullptr, &large, &out);
#else
    PMPI_Type_get_contents(type, integers, addresses, types, &count, nullptr, &out);
#endif
    return out;
  }

#if MPI_VERSION >= 4
  MPI_Count integers = 0, addresses = 0, counts = 0, types = 0;
#else
  int integers = 0, addresses = 0, types = 0;
#endif
  int combiner = MPI_COMBINER_NAMED;
};

bool is_predefined(MPI_Datatype type) {
  int const combiner = envelope(type).combiner;
  // Types of Fortran's precisions have no name, but may not be freed either.
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
         combiner == MPI_COMBINER_F90_INTEGER;
}

// A duplicate of a dense type, or consecutive copies of one.
bool repeats_dense(MPI_Datatype type) {
  envelope const made(type);
  if (made.combiner != MPI_COMBINER_CONTIGUOUS && made.combiner != MPI_COMBINER_DUP) return false;
  MPI_Datatype inner = made.inner_of(type);
  bool const dense = look_up(inner).dense;
  if (!is_predefined(inner)) PMPI_Type_free(&inner);
  return dense;
}

}  // namespace

bool is_usable(MPI_Datatype type) {
  static std::atomic<MPI_Datatype> last = MPI_DATATYPE_NULL;  // predefined: programs use few in a row
  if (type == MPI_DATATYPE_NULL) return false;
  if (type == last.load(std::memory_order_relaxed)) return true;
  if (predefined().contains(type)) {
    last.store(type, std::memory_order_relaxed);
    return true;
  }
  char nothing[1] = {};
  int position = 0;
  return PMPI_Pack(nothing, 0, type, nothing, 0, &position, quiet_communicator()) == MPI_SUCCESS;
}

datatype look_up(MPI_Datatype type) {
  if (auto const found = predefined().find(type); found != predefined().end()) return found->second;
  datatype out;
  MPI_Count size = 0;
  MPI_Aint lower = 0;
  PMPI_Type_size_x(type, &size);
  PMPI_Type_get_extent(type, &lower, &out.extent);
  out.size = static_cast<std::size_t>(size);
  out.dense = repeats_dense(type);
  return out;
}

bool has_no_gaps(MPI_Datatype type, datatype const& known) {
  if (known.dense) return true;
  MPI_Count lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  PMPI_Type_get_extent_x(type, &lower, &extent);
  PMPI_Type_get_true_extent_x(type, &true_lower, &true_extent);
  auto const size = static_cast<MPI_Count>(known.size);
  return lower == 0 && true_lower == 0 && extent == size && true_extent == size;
}

}  // namespace interpose
