// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One buffer for input and output is refused where the MPI refuses it. With the library only, because an MPI does not
// notice: ranks that make different calls get an error that names its call. If it was the same call on all ranks, the MPI
// makes the later ones; if not, these return the same error, and a duplicate of the communicator works.
// ranks: 2 3
// on tutti: MPI_Barrier MPI_Allreduce
#include <mpi.h>
#include <string>
#include <string_view>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

bool contains(std::string const& text, std::string_view part) { return text.find(part) != text.npos; }

void check_disagreement() {
  MPI_Comm comm = MPI_COMM_NULL, copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_name(comm, "solver");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);

  double in[4] = {}, out[4] = {};
  int first = MPI_SUCCESS;
  if (world_rank == 0) MPI_Bcast(in, 4, MPI_DOUBLE, 0, comm);  // a root need not wait for the others
  else first = MPI_Allreduce(in, out, 4, MPI_DOUBLE, MPI_SUM, comm);
  int const second = MPI_Allreduce(in, out, 4, MPI_DOUBLE, MPI_SUM, comm);
  if (first == MPI_SUCCESS) first = second;

  int kind = MPI_SUCCESS;
  MPI_Error_class(second, &kind);
  expect(kind != MPI_SUCCESS && kind != MPI_ERR_INTERN, true, "the class of an error");
  expect(second, first, "an error after the first one");
  std::string const text = text_of(second);
  for (std::string_view const part : {"MPI_", "MPI_DOUBLE", "solver", "ranks disagree"})
    expect(contains(text, part), true, "the text \"" + text + "\", which should contain " + std::string(part));
  for (std::string_view const part : {"std::byte", "interpose", " at :0"})
    expect(contains(text, part), false, "the text \"" + text + "\", which should not contain " + std::string(part));

  MPI_Comm_dup(comm, &copy);
  int const one = 1;
  int sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
  expect(sum, size_of(copy), "a sum on a duplicate of a communicator that failed");
  MPI_Comm_free(&copy);
  MPI_Comm_free(&comm);
}

// Ranks disagree on the count in one call.
void check_handing_back() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  double in[4] = {1, 1, 1, 1}, out[4] = {};
  int const code = MPI_Allreduce(in, out, world_rank == 0 ? 4 : 3, MPI_DOUBLE, MPI_SUM, comm);
  std::string const text = text_of(code);
  expect(code != MPI_SUCCESS && contains(text, "ranks disagree"), true,
         "the error \"" + text + "\" of different counts");
  for (int i = 0; i < 10; ++i) {
    expect(MPI_Allreduce(in, out, 4, MPI_DOUBLE, MPI_SUM, comm), int{MPI_SUCCESS}, "the code of a sum after an error");
    expect(out[3], 1.0 * size_of(comm), "a sum on a communicator after an error");
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(comm, &request);
    expect(MPI_Wait(&request, MPI_STATUS_IGNORE), int{MPI_SUCCESS}, "the code of a barrier after an error");
  }
  MPI_Comm_free(&comm);
}

// Ranks disagree on the operation in one call, and on the type in another, of the same size.
void check_different_reductions() {
  auto const refused = [](auto const& reduce, MPI_Datatype type, MPI_Op op, std::string_view here,
                          std::string_view there) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "c");  // an MPI cuts long texts
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
    int code = reduce(type, op, comm);
    if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
    std::string const text = text_of(code);
    for (std::string_view const part : {here, there})
      expect(contains(text, part), true, "the text \"" + text + "\", which should contain " + std::string(part));
    MPI_Comm_free(&comm);
  };
  bool const is_first = world_rank == 0;
  auto const all_reduce = [](MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    int const in = 1;
    int out = 0;
    return MPI_Allreduce(&in, &out, 1, type, op, comm);
  };
  refused(all_reduce, MPI_INT, is_first ? MPI_MAX : MPI_SUM, "of 1 elements of 4 bytes with MPI_MAX of int32",
          "with MPI_SUM of int32");
  refused(all_reduce, is_first ? MPI_FLOAT : MPI_INT, MPI_SUM, "with MPI_SUM of float32", "with MPI_SUM of int32");
  auto const reduce_scatter = [](MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    std::vector<int> counts(static_cast<std::size_t>(size_of(comm)), 1);
    counts[0] = 2;
    std::vector<int> const in(counts.size() + 1, 1);
    int out[2] = {};
    return MPI_Reduce_scatter(in.data(), out, counts.data(), type, op, comm);
  };
  for (MPI_Datatype const type : {MPI_INT, is_first ? MPI_FLOAT : MPI_INT})
    refused(reduce_scatter, type, is_first && type == MPI_INT ? MPI_MAX : MPI_SUM, "ranks disagree",
            "calls reduce_scatter_v of elements of 4 bytes, in parts (hash of their sizes: ");
}

// A collective of one rank, while the others are done with the communicator. An MPI would wait for ever.
void check_lone_call() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_name(comm, "deserted");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  MPI_Barrier(comm);
  if (world_rank == 0) {
    int const one = 1;
    int sum = 0;
    for (int i = 0; i < 3; ++i) {
      std::string const text = text_of(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
      for (std::string_view const part : {"MPI_Allreduce of MPI_INT", "deserted", "closed its communicator"})
        expect(contains(text, part), true, "the text \"" + text + "\", which should contain " + std::string(part));
    }
  }
  MPI_Comm_free(&comm);
  MPI_Barrier(MPI_COMM_WORLD);
}

// More calls than an MPI has codes for errors, each of which fails because of the first.
void check_many_errors() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  int first = MPI_SUCCESS;
  int const one = 1;
  int sum = 0;
  MPI_Request requests[200];
  for (MPI_Request& r : requests) {
    // From some call on, the error is known at the start, and there is no request.
    int const code =
        world_rank == 0 ? MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &r) : MPI_Ibarrier(comm, &r);
    if (code != MPI_SUCCESS) first = code;
  }
  // An MPI knows no communicator of a generalized request, so its errors go to the handler of MPI_COMM_WORLD.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (MPI_Request& r : requests) {
    bool const started = r != MPI_REQUEST_NULL;
    int const code = MPI_Wait(&r, MPI_STATUS_IGNORE);
    if (first == MPI_SUCCESS) first = code;
    expect(code, started ? first : int{MPI_SUCCESS}, "the error of a request");
    expect(r == MPI_REQUEST_NULL, true, "a request that ended with an error");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  for (int i = 0; i < 20000; ++i) expect(MPI_Barrier(comm), first, "the error of a later call");
  int kind = MPI_SUCCESS;
  MPI_Error_class(first, &kind);
  expect(first != MPI_SUCCESS && kind != MPI_ERR_INTERN, true, "the class of an error of requests");
  expect(contains(text_of(first), "ranks disagree"), true, "the text \"" + text_of(first) + "\"");
  MPI_Comm_free(&comm);
}

#if defined(MPICH_VERSION)
// One buffer as input and as output, which MPICH refuses and Open MPI does not.
void check_same_buffer(bool with_library) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  int data[8] = {};
  int const counts[4] = {1, 1, 1, 1}, begins[4] = {0, 1, 2, 3};
  auto const refused = [&](int code, std::string const& what) {
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    expect(kind, MPI_ERR_BUFFER, "the error of " + what + " with one buffer");
  };
  refused(MPI_Allreduce(data, data, 1, MPI_INT, MPI_SUM, comm), "MPI_Allreduce");
  refused(MPI_Scan(data, data, 1, MPI_INT, MPI_SUM, comm), "MPI_Scan");
  refused(MPI_Exscan(data, data, 1, MPI_INT, MPI_SUM, comm), "MPI_Exscan");
  refused(MPI_Reduce_scatter_block(data, data, 1, MPI_INT, MPI_SUM, comm), "MPI_Reduce_scatter_block");
  refused(MPI_Reduce_scatter(data, data, counts, MPI_INT, MPI_SUM, comm), "MPI_Reduce_scatter");
  if (with_library) {  // MPICH refuses these only on rank 0, whose block is at the start, and the others wait for ever
    refused(MPI_Allgather(data, 1, MPI_INT, data, 1, MPI_INT, comm), "MPI_Allgather");
    refused(MPI_Allgatherv(data, 1, MPI_INT, data, counts, begins, MPI_INT, comm), "MPI_Allgatherv");
  }
  refused(MPI_Alltoall(data, 1, MPI_INT, data, 1, MPI_INT, comm), "MPI_Alltoall");
  int sum = 0;
  MPI_Allreduce(counts, &sum, 1, MPI_INT, MPI_SUM, comm);
  expect(sum, size_of(comm), "a sum after refused calls");
  MPI_Allreduce(data, data, 0, MPI_INT, MPI_SUM, comm);  // nothing overlaps
  MPI_Comm_free(&comm);
}
#endif

// MPI_IN_PLACE where a buffer must be.
void check_in_place() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  int const mine = 1;
  auto const refused = [](int code, std::string const& what) {
    expect(code != MPI_SUCCESS, true, what + " with MPI_IN_PLACE");
  };
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // Open MPI calls its handler for some of these
  refused(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, comm), "MPI_Bcast");
  refused(MPI_Allreduce(&mine, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm), "MPI_Allreduce");
  refused(MPI_Scan(&mine, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm), "MPI_Scan");
  refused(MPI_Allgather(&mine, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm), "MPI_Allgather");
  refused(MPI_Alltoall(&mine, 0, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, comm), "MPI_Alltoall");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  int sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  expect(sum, size_of(comm), "a sum after calls with MPI_IN_PLACE");
  MPI_Comm_free(&comm);
}

// A datatype that is not committed is refused by the MPI, and the communicator goes on.
void check_uncommitted() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Barrier(comm);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  int data[3] = {};
  int const code = MPI_Bcast(data, 1, type, 0, comm);
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  expect(kind, MPI_ERR_TYPE, "the error of a datatype that is not committed");
  MPI_Type_free(&type);
  int const mine = 1;
  int sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  expect(sum, size_of(comm), "a sum after a datatype that is not committed");
  MPI_Comm_free(&comm);
}

// The others learn which call a rank gave up, also if its arguments were refused before it began.
void check_null_buffer() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_name(comm, "here");
  MPI_Barrier(comm);
  int data = 0;
  int code = MPI_Bcast(world_rank == 1 ? nullptr : &data, 1, MPI_INT, 0, comm);
  if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
  std::string const text = text_of(code);
  bool const right = world_rank == 1 ? contains(text, "its pointer is null")
                                     : contains(text, "rank 1 gave up MPI_Bcast of MPI_INT on communicator here");
  expect(right, true, "the text \"" + text + "\"");
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char**) {
  bool const with_library = argc > 1;
  return run(MPI_THREAD_SINGLE, [&](int) {
    MPI_Barrier(MPI_COMM_WORLD);
#if defined(MPICH_VERSION)
    check_same_buffer(with_library);
#endif
    check_uncommitted();
    if (!with_library) return;
    check_in_place();
    check_null_buffer();
    check_disagreement();
    check_handing_back();
    check_different_reductions();
    check_lone_call();
    check_many_errors();
  });
}
