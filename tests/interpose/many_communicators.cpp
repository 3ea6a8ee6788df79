// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// More communicators than there is shared memory for, of which only a few live at a time: tutti takes all of them over, because
// it frees the memory of those that have ended, in whatever order they end, and it prints nothing.
// ranks: 2 3
// on tutti: MPI_Allreduce
#include <cstddef>
#include <cstdlib>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "program.hpp"

using namespace program;

namespace {

// What is printed to stderr meanwhile.
class silence {
 public:
  silence() : usual_(::dup(STDERR_FILENO)), text_(::memfd_create("stderr", 0)) { ::dup2(text_, STDERR_FILENO); }
  silence(silence const&) = delete;
  silence& operator=(silence const&) = delete;
  ~silence() {
    ::dup2(usual_, STDERR_FILENO);
    ::close(usual_);
    ::close(text_);
  }
  long bytes() const { return static_cast<long>(::lseek(text_, 0, SEEK_END)); }

 private:
  int usual_, text_;
};

void use(MPI_Comm comm) {
  int const one = 1;
  for (int k = 0; k < 3; ++k) {
    int sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum, size_of(comm), "a sum on one of many communicators");
  }
}

}  // namespace

int main() {
  ::setenv("TUTTI_HEAP", "1000000000", 1);
  return run(MPI_THREAD_SINGLE, [](int) {
    long printed = 0;
    {
      silence const here;
      for (int i = 0; i < 500; ++i) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        use(comm);
        MPI_Comm_free(&comm);
      }
      std::vector<MPI_Comm> alive(10);
      for (std::size_t round = 0; round < 25; ++round) {
        for (MPI_Comm& comm : alive) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (MPI_Comm const comm : alive) use(comm);
        for (std::size_t i = 0; i < alive.size(); ++i) MPI_Comm_free(&alive[(7 * i + round) % alive.size()]);
      }
      printed = here.bytes();
    }
    expect(printed, 0L, "the number of bytes that were printed");
  });
}
