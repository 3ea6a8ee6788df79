// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rank did before a collective that synchronises is visible to its peers right after it, without another wait:
// many programs rely on that, although the standard does not promise it.
// ranks: 2
// on tutti: MPI_Barrier MPI_Allreduce MPI_Ibarrier
#include <mpi.h>

#include <chrono>
#include <string>
#include <thread>

#include "program.hpp"

using namespace program;

namespace {

// The collectives after which a message must be visible.
void barrier(MPI_Comm comm) { MPI_Barrier(comm); }
void sum(MPI_Comm comm) {
  int const one = 1;
  int all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
}
void barrier_by_request(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void check_messages(void (*meet)(MPI_Comm), std::string const& name) {
  constexpr int messages = 3;
  int const next = 1 - world_rank;
  for (int round = 0; round < 200; ++round) {
    MPI_Request last = MPI_REQUEST_NULL;
    int value = -1, found = 0, ended = 0;
    MPI_Irecv(&value, 1, MPI_INT, next, messages - 1, MPI_COMM_WORLD, &last);
    for (int tag = 0; tag < messages; ++tag) MPI_Send(&tag, 1, MPI_INT, next, tag, MPI_COMM_WORLD);
    // Each question comes right after as many collectives as there are messages. In some rounds the MPI progresses by itself meanwhile,
    // because it has not for long.
    for (int k = 0; k < messages; ++k) {
      if (round % 10 == 0 && k == messages - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      meet(MPI_COMM_WORLD);
    }
    MPI_Iprobe(next, messages - 2, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    expect(found, 1, "a message that MPI_Iprobe looks for after " + name);
    for (int tag = 0; tag < 2; ++tag) MPI_Recv(&found, 1, MPI_INT, next, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&last, MPI_STATUS_IGNORE);
    expect(value, messages - 1, "the message received after " + name);

    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Send(&round, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
    meet(MPI_COMM_WORLD);
    MPI_Improbe(next, 0, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE);
    expect(found, 1, "a message that MPI_Improbe looks for after " + name);
    if (found != 0) MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    else MPI_Recv(&value, 1, MPI_INT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    MPI_Irecv(&value, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &last);
    MPI_Send(&round, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
    meet(MPI_COMM_WORLD);
    MPI_Test(&last, &ended, MPI_STATUS_IGNORE);
    expect(ended, 1, "a receive that MPI_Test looks at after " + name);
    MPI_Wait(&last, MPI_STATUS_IGNORE);
  }
}

void check_windows() {
  int memory = 0;
  MPI_Win window = MPI_WIN_NULL;
  MPI_Group all = MPI_GROUP_NULL, peer = MPI_GROUP_NULL;
  int const other = 1 - world_rank;
  MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &other, &peer);
  for (int round = 0; round < 50; ++round) {
    int ended = 0;
    MPI_Win_post(peer, 0, window);
    MPI_Win_start(peer, 0, window);
    MPI_Win_complete(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_test(window, &ended);
    expect(ended, 1, "a window whose accesses ended before a barrier");
    if (ended == 0) MPI_Win_wait(window);
  }
  MPI_Group_free(&peer);
  MPI_Group_free(&all);
  MPI_Win_free(&window);
}

}  // namespace

int main() {
  return run(MPI_THREAD_SINGLE, [](int) {
    check_messages(&barrier, "MPI_Barrier");
    check_messages(&sum, "MPI_Allreduce");
    check_messages(&barrier_by_request, "MPI_Ibarrier");
    check_windows();
  });
}
