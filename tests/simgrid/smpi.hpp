// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes a program that uses tutti/mpi.hpp a simulated one: included first, by the program's single source file.
// Simulated time stands still while a rank polls, so a rank without progress waits in the simulator.
#pragma once

#define SMPI_NO_OVERRIDE_MALLOC
#include <smpi/smpi_helpers.h>

#include <algorithm>
#include <cstddef>
#include <mpi.h>
#include <vector>

namespace tutti::testing {

// Also waits, where a request failed so often that all that this rank polls for was looked at: until the first of that has
// come. Where nothing comes, SimGrid finds a deadlock.
class patient_test {
 public:
  int operator()(MPI_Request* request, int* done, MPI_Status* status) {
    if (*request == MPI_REQUEST_NULL) {  // which SimGrid's would never end; it may be what was waited for
      *done = 1;
      if (status != MPI_STATUS_IGNORE) *status = status_;
      return MPI_SUCCESS;
    }
    int const code = PMPI_Test(request, done, status);
    if (*done != 0) failed_.clear();
    else if (failed_.push_back(request); std::ranges::count(failed_, request) == enough) wait();
    return code;
  }
  // After a call that blocks, other requests may have succeeded.
  void begin_anew() { failed_.clear(); }

 private:
  static constexpr int enough = 4;  // a poll looks at a request twice at most, before a call that blocks and after it

  void wait() {
    std::ranges::sort(failed_);
    failed_.erase(std::ranges::unique(failed_).begin(), failed_.end());
    requests_.clear();
    for (MPI_Request* const r : failed_) requests_.push_back(*r);
    int which = 0;
    MPI_Waitany(static_cast<int>(requests_.size()), requests_.data(), &which, &status_);
    *failed_[static_cast<std::size_t>(which)] = MPI_REQUEST_NULL;
    failed_.clear();
  }

  std::vector<MPI_Request*> failed_;
  std::vector<MPI_Request> requests_;
  MPI_Status status_{};
};
inline patient_test test;

// SimGrid cannot wait for one of several barriers, has no MPI_Comm_idup, and its MPI_Iallreduce sends a message from each rank to each
// other: these block, and their requests have ended.
inline int barrier(MPI_Comm ranks, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  test.begin_anew();
  return MPI_Barrier(ranks);
}
inline int reduce_at_all(void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm ranks,
                         MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  test.begin_anew();
  return MPI_Allreduce(in, out, count, type, op, ranks);
}
inline int duplicate(MPI_Comm original, MPI_Comm* made, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  test.begin_anew();
  return MPI_Comm_dup(original, made);
}

}  // namespace tutti::testing

#define MPI_Test tutti::testing::test
#define MPI_Ibarrier tutti::testing::barrier
#define MPI_Iallreduce tutti::testing::reduce_at_all
#define MPI_Comm_idup tutti::testing::duplicate
