// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The types of Fortran and C++ that name their size or have a form in C run on tutti: each function below is called with these only.
// ranks: 1 2 3
// on tutti: MPI_Scan MPI_Reduce MPI_Reduce_scatter_block MPI_Exscan
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

template <class T>
T number(int small) {
  return static_cast<T>(static_cast<short>(small));
}

template <class T>
void check_type(MPI_Comm comm, MPI_Datatype type, std::string const& name) {
  int const ranks = size_of(comm), rank = rank_of(comm);
  std::vector<T> const in(static_cast<std::size_t>(ranks), number<T>(rank + 1));
  std::vector<T> out(in.size());
  auto const sum_to = [](int last) { return number<T>((last + 1) * (last + 2) / 2); };
  MPI_Scan(in.data(), out.data(), ranks, type, MPI_SUM, comm);
  expect(out, std::vector<T>(in.size(), sum_to(rank)), "MPI_Scan of " + name);
  MPI_Exscan(in.data(), out.data(), ranks, type, MPI_SUM, comm);
  if (rank > 0) expect(out, std::vector<T>(in.size(), sum_to(rank - 1)), "MPI_Exscan of " + name);
  MPI_Reduce_scatter_block(in.data(), out.data(), 1, type, MPI_SUM, comm);
  expect(out[0], sum_to(ranks - 1), "MPI_Reduce_scatter_block of " + name);
  MPI_Reduce(in.data(), out.data(), ranks, type, MPI_SUM, ranks - 1, comm);
  if (rank == ranks - 1) expect(out, std::vector<T>(in.size(), sum_to(ranks - 1)), "MPI_Reduce of " + name);
}

// Types that Fortran programs name by their precision have no names in C, and nobody may free them.
void check_precisions(MPI_Comm comm) {
  MPI_Datatype real = MPI_DATATYPE_NULL, three = MPI_DATATYPE_NULL;
  MPI_Type_create_f90_real(6, 30, &real);
  MPI_Type_contiguous(3, real, &three);
  MPI_Type_commit(&three);
  std::vector<float> data(6, static_cast<float>(world_rank));
  for (int turn = 0; turn < 3; ++turn) MPI_Bcast(data.data(), 2, three, 0, comm);
  expect(data, std::vector<float>(6, 0.0f), "MPI_Bcast of three MPI_Type_create_f90_real");
  MPI_Type_free(&three);
}

int copies = 0;
int count_copy(MPI_Datatype, int, void*, void* from, void* to, int* flag) {
  ++copies;
  *static_cast<void**>(to) = from;
  *flag = 1;
  return MPI_SUCCESS;
}

// A program that duplicates no type sees no copies of their attributes.
void check_attributes(MPI_Comm comm) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Type_create_keyval(count_copy, MPI_TYPE_NULL_DELETE_FN, &key, nullptr);
  MPI_Datatype column = MPI_DATATYPE_NULL;
  MPI_Type_vector(4, 1, 2, MPI_INT, &column);
  MPI_Type_commit(&column);
  MPI_Type_set_attr(column, key, &key);
  std::vector<int> data(8, world_rank + 1);
  MPI_Bcast(data.data(), 1, column, 0, comm);
  int const gap = world_rank + 1;
  expect(data, std::vector<int>{1, gap, 1, gap, 1, gap, 1, gap}, "MPI_Bcast of a column");
  expect(copies, 0, "copies of an attribute");
  MPI_Type_free(&column);
  MPI_Type_free_keyval(&key);
}

#if MPI_VERSION >= 4
// A type that only the functions with large counts can describe.
void check_large_counts(MPI_Comm comm) {
  MPI_Datatype block = MPI_DATATYPE_NULL;
  MPI_Type_contiguous_c(1000, MPI_INT, &block);
  MPI_Type_commit(&block);
  std::vector<int> data(1000, world_rank == 0 ? 7 : 0);
  MPI_Bcast(data.data(), 1, block, 0, comm);
  expect(data[999], 7, "MPI_Bcast of a type made by MPI_Type_contiguous_c");
  MPI_Type_free(&block);
}
#endif

}  // namespace

int main() {
  return run(MPI_THREAD_SINGLE, [](int) {
    MPI_Comm const comm = MPI_COMM_WORLD;
    check_type<std::int32_t>(comm, MPI_INTEGER4, "MPI_INTEGER4");
    check_type<std::int64_t>(comm, MPI_INTEGER8, "MPI_INTEGER8");
    check_type<float>(comm, MPI_REAL4, "MPI_REAL4");
    check_type<double>(comm, MPI_REAL8, "MPI_REAL8");
    check_type<std::complex<float>>(comm, MPI_COMPLEX8, "MPI_COMPLEX8");
    check_type<std::complex<double>>(comm, MPI_COMPLEX16, "MPI_COMPLEX16");
    check_type<std::complex<double>>(comm, MPI_CXX_DOUBLE_COMPLEX, "MPI_CXX_DOUBLE_COMPLEX");
    char word[8] = "";
    if (world_rank == 0) std::snprintf(word, sizeof word, "%s", "seven l");
    MPI_Bcast(word, 8, MPI_CHARACTER, 0, comm);
    expect(std::string(word), std::string("seven l"), "MPI_Bcast of MPI_CHARACTER");
    check_precisions(comm);
#if MPI_VERSION >= 4
    check_large_counts(comm);
#endif
    check_attributes(comm);
  });
}
