// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions that go to the MPI on some ranks only, because their arguments differ. With the library only, because MPIs wait for ever or
// do not notice: all ranks get an error that tells the calls.
// ranks: 2 3
// on tutti: MPI_Barrier
#include <mpi.h>
#include <string>
#include <string_view>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

constexpr int few = 10, many = 200'000;

void keep_right(void*, void*, int*, MPI_Datatype*) {}

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

// reduce(comm) fails on all ranks, of which some wait for nobody, with a text that contains these.
template <class Reduce>
void expect_error(Reduce&& reduce, std::string_view here, std::string_view there) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_name(comm, "c");  // an MPI cuts texts after 255 characters
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  int code = reduce(comm);
  if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
  std::string const text = text_of(code);
  for (std::string_view const part : {std::string_view("ranks disagree"), here, there})
    expect(text.find(part) != text.npos, true, "the text \"" + text + "\", which should contain " + std::string(part));
  MPI_Comm_free(&comm);
}

void check_lengths(MPI_Op op) {
  std::vector<int> const in(many);
  std::vector<int> out(many);
  for (bool const first_is_long : {false, true}) {
    int const count = (world_rank == 0) == first_is_long ? many : few;
    expect_error([&](MPI_Comm comm) { return MPI_Allreduce(in.data(), out.data(), count, MPI_INT, op, comm); },
                 "calls all_gather of 40 bytes", "of 800000 bytes with the MPI's MPI_Allreduce");
    expect_error([&](MPI_Comm comm) { return MPI_Reduce(in.data(), out.data(), count, MPI_INT, op, 0, comm); },
                 "calls gather of 40 bytes", "of 800000 bytes with the MPI's MPI_Reduce");
    expect_error([&](MPI_Comm comm) { return MPI_Scan(in.data(), out.data(), count, MPI_INT, op, comm); },
                 "calls all_gather of 40 bytes", "of 800000 bytes with the MPI's MPI_Scan");
    expect_error([&](MPI_Comm comm) { return MPI_Exscan(in.data(), out.data(), count, MPI_INT, op, comm); },
                 "calls all_gather of 40 bytes", "of 800000 bytes with the MPI's MPI_Exscan");
  }
  // Both lengths go to the MPI.
  expect_error(
      [&](MPI_Comm comm) {
        return MPI_Allreduce(in.data(), out.data(), world_rank == 0 ? many : many - 1, MPI_INT, op, comm);
      },
      "of 800000 bytes with the MPI's MPI_Allreduce", "of 799996 bytes with");
}

void check_functions(MPI_Op op) {
  std::vector<int> const in(many);
  std::vector<int> out(many);
  expect_error(
      [&](MPI_Comm comm) {
        if (world_rank == 0) return MPI_Allreduce(in.data(), out.data(), many, MPI_INT, op, comm);
        return MPI_Scan(in.data(), out.data(), many, MPI_INT, op, comm);
      },
      "with the MPI's MPI_Allreduce", "with the MPI's MPI_Scan");
}

void check_types(MPI_Op op) {
  long double const in = 1;
  long double out = 0;
  MPI_Datatype const served = world_rank == 0 ? MPI_LONG_DOUBLE : MPI_DOUBLE;
  expect_error([&](MPI_Comm comm) { return MPI_Allreduce(&in, &out, 1, served, MPI_SUM, comm); },
               "with the MPI's MPI_Allreduce", "with MPI_SUM of float64");
  expect_error([&](MPI_Comm comm) { return MPI_Reduce_scatter_block(&in, &out, 1, served, MPI_SUM, comm); },
               "calls all_reduce of 16 bytes", "calls reduce_scatter of 1 ");
  MPI_Datatype gapped = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gapped);
  MPI_Type_commit(&gapped);
  std::vector<int> const from(8);
  std::vector<int> to(8);
  expect_error(
      [&](MPI_Comm comm) {
        return MPI_Allreduce(from.data(), to.data(), 1, world_rank == 0 ? gapped : MPI_INT, op, comm);
      },
      "with the MPI's MPI_Allreduce", "calls all_gather of 4 bytes");
  MPI_Type_free(&gapped);
}

// What ranks make alike goes on, on tutti and by the MPI in turn.
void check_right_calls(MPI_Op op) {
  std::vector<int> const in(many, world_rank);
  std::vector<int> out(many);
  long double const one = 1;
  for (int i = 0; i < 5; ++i) {
    long double sum = 0;
    for (int const count : {few, many, few}) {
      out.assign(out.size(), -1);
      MPI_Allreduce(in.data(), out.data(), count, MPI_INT, op, MPI_COMM_WORLD);
      expect(out[static_cast<std::size_t>(count) - 1], size_of(MPI_COMM_WORLD) - 1, "a reduction");
    }
    MPI_Allreduce(&one, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect(static_cast<int>(sum), size_of(MPI_COMM_WORLD), "a sum of long doubles");
  }
}

}  // namespace

int main(int argc, char**) {
  bool const with_library = argc > 1;
  return run(MPI_THREAD_SINGLE, [&](int) {
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(&keep_right, 0, &op);
    MPI_Barrier(MPI_COMM_WORLD);
    check_right_calls(op);
    if (with_library) {
      check_lengths(op);
      check_functions(op);
      check_types(op);
    }
    MPI_Op_free(&op);
  });
}
