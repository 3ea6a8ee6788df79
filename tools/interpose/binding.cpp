// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ranks of one machine are known from the start. An MPI communicator among them gets a tutti group when it is first
// used; an attribute ties the group to the lifetime of the communicator.
#include "binding.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <sys/random.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "requests.hpp"
#include "tutti/algorithm/concept.hpp"
#include "tutti/launch/agree.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"

namespace interpose {
namespace {

struct process {
  MPI_Comm self = MPI_COMM_NULL;         // for polling the MPI
  MPI_Request never = MPI_REQUEST_NULL;  // a receive on it that never completes
  std::mutex looking;
  int keyval = MPI_KEYVAL_INVALID;
  bool threads = false;                 // threads may call the MPI concurrently
  std::vector<int> machines;            // of each rank of MPI_COMM_WORLD: the lowest rank on its machine
  std::vector<int> places;              // and its rank on that machine
  std::optional<communicator> machine;  // all ranks of this machine; none if shared memory could not be created
  std::atomic<std::uint64_t> groups{0};
  std::mutex bindings_change;
  std::map<binding*, std::unique_ptr<binding>> bindings;
  std::atomic<std::uint64_t> generation{1};  // incremented when cached bindings of threads become invalid
};
process* running = nullptr;

communicator while_the_mpi_works(std::unique_ptr<tutti::shm> transport) {
  communicator out(std::move(transport));
  out.engine().transport().while_waiting(&let_the_mpi_work);
  return out;
}

bool all_agree(bool mine, MPI_Comm comm) {
  int const ours = mine ? 1 : 0;
  int all = 0;
  PMPI_Allreduce(&ours, &all, 1, MPI_INT, MPI_MIN, comm);
  return all == 1;
}

// Creates a communicator at all ranks of `comm` by `make`, or none if it throws at any.
template <class Make>
std::optional<communicator> made_by_all(MPI_Comm comm, Make&& make) {
  std::optional<communicator> out;
  try {
    out.emplace(make());
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s; the calls of an MPI communicator are passed to the MPI\n", e.what());
  }
  if (!all_agree(out.has_value(), comm)) out.reset();
  return out;
}

// The deadline for ranks that are known to have begun the same meeting.
tutti::detail::deadline meetings_end() {
  return tutti::detail::deadline::after(std::min<std::chrono::nanoseconds>(longest_wait(), std::chrono::minutes(1)));
}

communicator join_machine(int rank, int ranks, std::uint64_t job) {
  if (ranks == 1) return while_the_mpi_works(std::make_unique<tutti::shm>());
  auto const until = meetings_end();
  tutti::detail::rendezvous meeting("mpi-" + std::to_string(job), rank, ranks, until);
  tutti::detail::descriptor const file =
      meeting.meet([&] { return tutti::shm::create(ranks, tutti::detail::all_tracks); });
  communicator out =
      while_the_mpi_works(std::make_unique<tutti::shm>(file, rank, ranks, tutti::detail::all_tracks, until));
  tutti::detail::agree_on_tuning(out.engine());
  return out;
}

std::vector<int> world_ranks(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  int size = 0;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_size(group, &size);
  std::vector<int> own(static_cast<std::size_t>(size)), out(own);
  for (int r = 0; r < size; ++r) own[static_cast<std::size_t>(r)] = r;
  PMPI_Group_translate_ranks(group, size, own.data(), world, out.data());
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  return out;
}

// The ranks on this machine that correspond to these ranks of the world; none if one is on another machine or of
// another job.
std::vector<int> places_of(std::vector<int> const& members) {
  std::vector<int> out;
  for (int const member : members) {
    if (member == MPI_UNDEFINED || running->machines[static_cast<std::size_t>(member)] !=
                                       running->machines[static_cast<std::size_t>(members.front())])
      return {};
    out.push_back(running->places[static_cast<std::size_t>(member)]);
  }
  return out;
}

// All ranks of `comm` get the same answer, and wait for each other only in the MPI or when known to be here.
void bind(MPI_Comm comm, binding& made) {
  int between = 0;
  PMPI_Comm_test_inter(comm, &between);
  if (between != 0) {
    made.why = reason::intercommunicator;
    return;
  }
  std::vector<int> const members = places_of(world_ranks(comm));
  if (members.empty()) {
    made.why = reason::several_machines;
    return;
  }
  if (comm == MPI_COMM_WORLD) {
    made.ranks = &*running->machine;
    return;
  }
  std::uint64_t const mine = members.front() == running->machine->rank() ? ++running->groups : 0;
  std::uint64_t number = 0;
  PMPI_Allreduce(&mine, &number, 1, MPI_UINT64_T, MPI_MAX, comm);
  made.own = made_by_all(comm, [&] {
    auto& machine = running->machine->engine();
    communicator out = while_the_mpi_works(machine.transport().subgroup(members, meetings_end(), number));
    out.engine().tuned = machine.tuned;
    return out;
  });
  if (made.own) made.ranks = &*made.own;
  else made.why = reason::failed;
}

extern "C" int forget(MPI_Comm, int, void* value, void*) {
  if (running == nullptr) return MPI_SUCCESS;
  // destroyed outside the lock, because its calls may still be in progress
  decltype(running->bindings)::node_type gone;
  std::lock_guard const lock(running->bindings_change);
  gone = running->bindings.extract(static_cast<binding*>(value));
  ++running->generation;
  return MPI_SUCCESS;
}

binding* make_binding(MPI_Comm comm) {
  auto made = std::make_unique<binding>();
  bind(comm, *made);
  binding* const out = made.get();
  {
    std::lock_guard const lock(running->bindings_change);
    running->bindings[out] = std::move(made);
  }
  PMPI_Comm_set_attr(comm, running->keyval, out);
  return out;
}

}  // namespace

// Testing a request that has not completed progresses all messages with every MPI; MPICH's MPI_Iprobe does not.
void let_the_mpi_work() noexcept {
  if (tutti::detail::in_progress_thread) return;                     // this thread calls no MPI
  std::unique_lock const alone(running->looking, std::try_to_lock);  // one thread at a time may test the request
  int ended = 0;
  if (alone) PMPI_Test(&running->never, &ended, MPI_STATUS_IGNORE);
}

void start() {
  auto made = std::make_unique<process>();
  int level = 0, rank = 0, size = 0, place = 0, size_here = 0;
  PMPI_Query_thread(&level);
  made->threads = level == MPI_THREAD_MULTIPLE;
  PMPI_Comm_dup(MPI_COMM_SELF, &made->self);
  PMPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, made->self, &made->never);
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &forget, &made->keyval, nullptr);
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);

  MPI_Comm machine = MPI_COMM_NULL;
  PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
  PMPI_Comm_rank(machine, &place);
  PMPI_Comm_size(machine, &size_here);
  auto job = static_cast<std::uint64_t>(::getpid());
  // if it fails, there is still a number that no other process here has
  static_cast<void>(::getrandom(&job, sizeof job, 0));
  int first = rank;
  PMPI_Bcast(&job, 1, MPI_UINT64_T, 0, machine);
  PMPI_Bcast(&first, 1, MPI_INT, 0, machine);
  made->machines.resize(static_cast<std::size_t>(size));
  made->places.resize(static_cast<std::size_t>(size));
  PMPI_Allgather(&first, 1, MPI_INT, made->machines.data(), 1, MPI_INT, MPI_COMM_WORLD);
  PMPI_Allgather(&place, 1, MPI_INT, made->places.data(), 1, MPI_INT, MPI_COMM_WORLD);

  running = made.release();
  running->machine = made_by_all(MPI_COMM_WORLD, [&] { return join_machine(place, size_here, job); });
  PMPI_Comm_free(&machine);
  if (!running->machine) stop();
}

void stop() {
  if (running == nullptr) return;
  end_requests();
  running->bindings.clear();
  running->machine.reset();
  std::unique_ptr<process> const ended(std::exchange(running, nullptr));
  PMPI_Comm_free_keyval(&ended->keyval);
  PMPI_Cancel(&ended->never);
  PMPI_Wait(&ended->never, MPI_STATUS_IGNORE);
  PMPI_Comm_free(&ended->self);
}

binding* find_binding(MPI_Comm comm, bool may_wait) {
  if (running == nullptr || comm == MPI_COMM_NULL) return nullptr;
  struct memory {
    MPI_Comm comm;
    binding* found;
    std::uint64_t generation;
  };
  static thread_local memory last{MPI_COMM_NULL, nullptr, 0};
  std::uint64_t const now = running->generation.load(std::memory_order_acquire);
  if (last.comm == comm && last.generation == now) return last.found;
  void* value = nullptr;
  int found = 0;
  if (PMPI_Comm_get_attr(comm, running->keyval, &value, &found) != MPI_SUCCESS) return nullptr;
  if (found == 0 && !may_wait && comm != MPI_COMM_WORLD && comm != MPI_COMM_SELF) {
    static binding& unused = *[] {
      auto* const made = new binding;
      made->why = reason::first_use;
      return made;
    }();
    return &unused;
  }
  last = {comm, found != 0 ? static_cast<binding*>(value) : make_binding(comm), now};
  return last.found;
}

bool threads_call_at_once() { return running != nullptr && running->threads; }

}  // namespace interpose
