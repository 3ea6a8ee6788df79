// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An attribute ties the binding to the life of the communicator, and gives its duplicates their identity.
#include "binding.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "environment.hpp"
#include "errors.hpp"
#include "machine.hpp"
#include "notice.hpp"
#include "requests.hpp"
#include "tutti/core/background.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/started/tick_clock.hpp"

namespace interpose {
namespace {

struct process {
  MPI_Comm self = MPI_COMM_NULL;         // for polling the MPI, and packing
  MPI_Request never = MPI_REQUEST_NULL;  // a receive on it that never completes
  std::mutex looking;
  int keyval = MPI_KEYVAL_INVALID;
  bool threads = false;           // threads may call the MPI concurrently
  std::uint64_t first_calls = 0;  // of a communicator, which the MPI makes
  std::unique_ptr<machine> here;
  std::mutex bindings_change;
  std::map<binding*, std::unique_ptr<binding>> bindings;
  std::atomic<std::uint64_t> generation{1};  // incremented when cached bindings of threads become invalid
};
process* running = nullptr;

// How many calls on tutti have ended, and for how many of them the MPI has progressed.
std::atomic<std::uint64_t> ended_calls{0}, repaid_calls{0};
std::atomic<std::uint64_t> last_progress{0};  // in ticks
// About 0.1 ms (with the counter of x86). Open MPI yields whenever it finds no message and ranks share cores, so this may cost a change
// of threads.
constexpr std::uint64_t longest_without_progress = 1 << 18;
constexpr std::uint64_t most_owed = 16;

std::uint64_t ticks_now() { return static_cast<std::uint64_t>(tutti::detail::tick_clock::now()); }

constexpr std::uint64_t identity_of_world = 1;
constexpr std::uint64_t first_calls_by_default = 100;  // taking over takes as long as 300 small ones

// Spreads the hash over all bits, because directories take some of them.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

std::uint64_t identity_of_next(binding& parent) {
  if (parent.identity == 0) return 0;
  return mixed(tutti::detail::hash_of(std::initializer_list<std::uint64_t>{parent.identity, ++parent.derived}));
}

// Communicators of one identity have no rank in common, so the members tell them apart.
std::uint64_t identity_among(std::uint64_t identity, std::vector<int> const& members) {
  std::vector<std::uint64_t> all{identity};
  all.insert(all.end(), members.begin(), members.end());
  return mixed(tutti::detail::hash_of(all));
}

binding* add_binding(std::uint64_t identity) {
  auto made = std::make_unique<binding>();
  made->identity = identity;
  binding* const out = made.get();
  std::lock_guard const lock(running->bindings_change);
  running->bindings[out] = std::move(made);
  return out;
}

// Null if it has none yet; nothing for an invalid handle.
std::optional<binding*> binding_of(MPI_Comm comm) {
  void* value = nullptr;
  int found = 0;
  if (PMPI_Comm_get_attr(comm, running->keyval, &value, &found) != MPI_SUCCESS) return {};
  return found != 0 ? static_cast<binding*>(value) : nullptr;
}

binding* bind(MPI_Comm comm, std::uint64_t identity) {
  binding* const out = add_binding(identity);
  PMPI_Comm_set_attr(comm, running->keyval, out);
  return out;
}

thread_local bool inherits = true;

// Called in MPI_Comm_dup and its like.
extern "C" int inherit(MPI_Comm, int, void*, void* value, void* copy, int* copied) {
  bool const wanted = running != nullptr && inherits;
  std::uint64_t const identity = wanted ? identity_of_next(*static_cast<binding*>(value)) : 0;
  *copied = identity != 0;
  if (identity != 0) *static_cast<void**>(copy) = add_binding(identity);
  return MPI_SUCCESS;
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

// Joins the ranks of `comm` if they are on this machine. Waits for nobody.
void join(MPI_Comm comm, binding& b) {
  std::vector<int> const members = running->here->places_of(comm);
  if (members.empty()) {
    b.why = reason::several_machines;
    return;
  }
  if (comm == MPI_COMM_WORLD) {
    b.ranks = &running->here->ranks();
  } else {
    if (members.size() > 1) b.place = running->here->join(identity_among(b.identity, members), members);
    if (members.size() > 1 && !b.place) {
      b.why = reason::no_memory;
      return;
    }
    b.ranks = &b.own.emplace(running->here->enter(b.place, members));
  }
  b.why = reason::none;
}

// Counts a call (see uncount), and takes the communicator over when its first calls are past.
void decide(MPI_Comm comm, binding& b, bool may_wait) {
  if (++b.calls <= running->first_calls) return;
  int between = 0;
  PMPI_Comm_test_inter(comm, &between);
  if (between != 0) {
    b.why = reason::intercommunicator;
  } else if (b.identity == 0 && !may_wait) {
    b.why = reason::first_use;
    return;  // until a blocking call
  } else {
    if (b.identity == 0) b.identity = agreed_identity(comm);
    try {
      join(comm, b);
    } catch (std::exception const& e) {
      b.why = reason::broken;
      b.failed->report(describe_call("joining the ranks", MPI_DATATYPE_NULL, comm), e, ends_the_program(comm));
    }
  }
  b.decided = true;
}

std::uint64_t first_calls_wanted() {
  std::uint64_t out = number_from_environment("TUTTI_MPI_FIRST_CALLS", first_calls_by_default);
  PMPI_Bcast(&out, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  return out;
}

}  // namespace

// Testing a request that has not completed progresses all messages with every MPI; MPICH's MPI_Iprobe does not.
void let_the_mpi_work() noexcept {
  if (tutti::detail::in_progress_thread) return;  // this thread calls no MPI
  long_wait::look();
  std::unique_lock const alone(running->looking, std::try_to_lock);  // one thread at a time may test the request
  if (!alone) return;
  std::uint64_t const before = ended_calls.load(std::memory_order_relaxed);
  last_progress.store(ticks_now(), std::memory_order_relaxed);
  int ended = 0;
  PMPI_Test(&running->never, &ended, MPI_STATUS_IGNORE);
  // One of the calls before it is repaid, of which no more than most_owed count.
  std::uint64_t const repaid = repaid_calls.load(std::memory_order_relaxed);
  if (repaid < before) repaid_calls.store(before - std::min(before - repaid, most_owed) + 1, std::memory_order_relaxed);
}

void owe_progress() noexcept {
  if (!threads_call_at_once())  // a locked instruction would wait for all stores
    ended_calls.store(ended_calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  else ended_calls.fetch_add(1, std::memory_order_relaxed);
  // A counter that has jumped back seems far ahead, too.
  if (ticks_now() - last_progress.load(std::memory_order_relaxed) > longest_without_progress) let_the_mpi_work();
}

int progress_owed() noexcept {
  std::uint64_t const owed = ended_calls.load(std::memory_order_relaxed) - repaid_calls.load(std::memory_order_relaxed);
  return static_cast<int>(std::min(owed, most_owed));
}

void start() {
  auto made = std::make_unique<process>();
  int level = 0;
  PMPI_Query_thread(&level);
  made->threads = level == MPI_THREAD_MULTIPLE;
  PMPI_Comm_dup(MPI_COMM_SELF, &made->self);
  PMPI_Comm_set_errhandler(made->self, MPI_ERRORS_RETURN);
  PMPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, made->self, &made->never);
  PMPI_Comm_create_keyval(&inherit, &forget, &made->keyval, nullptr);
  running = made.release();
  running->first_calls = first_calls_wanted();
  long_start const noticed;
  running->here = machine::join_by_all(&let_the_mpi_work);
  if (!running->here) return stop();
  binding& world = *bind(MPI_COMM_WORLD, identity_of_world);
  bind(MPI_COMM_SELF, identity_of_world);  // no other rank looks for its duplicates
  world.calls = running->first_calls;
  decide(MPI_COMM_WORLD, world, true);
}

void stop() {
  if (running == nullptr) return;
  end_requests();
  repaid_calls = ended_calls.load();
  running->bindings.clear();
  running->here.reset();
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
  if (last.comm != comm || last.generation != now) {
    auto const found = binding_of(comm);
    if (!found) return nullptr;
    last = {comm, *found != nullptr ? *found : bind(comm, 0), now};
  }
  if (!last.found->decided) [[unlikely]]
    decide(comm, *last.found, may_wait);
  return last.found;
}

void uncount(binding& b, int code, bool others_end) {
  int kind = MPI_SUCCESS;
  PMPI_Error_class(code, &kind);
  bool is_refusal = kind == MPI_ERR_COMM || kind == MPI_ERR_ROOT;
  for (int const one : {MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_OP, MPI_ERR_REQUEST, MPI_ERR_TYPE})
    is_refusal |= kind == one && !others_end;
  if (is_refusal && !b.decided) --b.calls;
}

std::uint64_t identity_of_next(MPI_Comm parent) {
  if (running == nullptr || parent == MPI_COMM_NULL) return 0;
  binding* const known = binding_of(parent).value_or(nullptr);
  return known != nullptr ? identity_of_next(*known) : 0;
}

void reuse_identity(MPI_Comm parent) {
  if (running == nullptr || parent == MPI_COMM_NULL) return;
  if (binding* const known = binding_of(parent).value_or(nullptr); known != nullptr && known->derived > 0)
    --known->derived;
}

without_inheritance::without_inheritance() { inherits = false; }
without_inheritance::~without_inheritance() { inherits = true; }

std::uint64_t agreed_identity(MPI_Comm made) {
  if (running == nullptr || made == MPI_COMM_NULL || running->here->places_of(made).empty()) return 0;
  std::uint64_t const mine = running->here->new_number();
  std::uint64_t out = 0;
  PMPI_Allreduce(&mine, &out, 1, MPI_UINT64_T, MPI_MAX, made);
  return mixed(~out);
}

void identify(MPI_Comm made, std::uint64_t identity) {
  if (running != nullptr && made != MPI_COMM_NULL && identity != 0) bind(made, identity);
}

bool is_first_report(int kind) { return running == nullptr || !running->here || running->here->is_first_report(kind); }

bool is_first_notice() { return running != nullptr && running->here->is_first_notice(); }

MPI_Comm quiet_communicator() { return running != nullptr ? running->self : MPI_COMM_SELF; }

bool threads_call_at_once() { return running != nullptr && running->threads; }

}  // namespace interpose
