// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tutti communicators of the program's MPI communicators.
#pragma once

#include <cstdint>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <optional>

#include "collectives.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "groups.hpp"

namespace interpose {

// The state that belongs to an MPI communicator for its lifetime, the same at all its ranks.
struct binding {
  communicator* ranks = nullptr;  // null: its calls are passed to the MPI
  reason why = reason::first_calls;
  bool decided = false;        // whether tutti carries out its calls
  std::uint64_t calls = 0;     // of its collectives
  std::uint64_t identity = 0;  // among communicators that share a rank; 0: not known
  std::uint64_t derived = 0;   // communicators that all its ranks have derived from it
  groups::membership place;
  std::optional<communicator> own;  // `ranks` refers to it, except for MPI_COMM_WORLD
  std::mutex serial;                // locked if threads may make calls concurrently
  std::shared_ptr<failure> failed = std::make_shared<failure>();
};

// Called by all ranks right after MPI was initialised.
void start();
// Called right before it is finalized.
void stop();

// The binding of a communicator in one of its collectives; null outside of start and stop, and for MPI_COMM_NULL. tutti
// takes a communicator over at a collective that is not among its first, so that one of a few calls costs nothing. All
// ranks make the same calls, so they take it over at the same one. `may_wait`: the call may wait for the other ranks.
binding* find_binding(MPI_Comm comm, bool may_wait);
// Undoes the count of a call that the MPI refused with `code`, unless the code says that it was carried out. The other ranks have not
// made the call, or wait until this one repeats it. `others_end`: they may have completed it without this root.
void uncount(binding& b, int code, bool others_end);

// An identity for the communicators that all ranks of `parent` are about to derive from it, without communication: a
// function of the parent's identity and of the number of communicators derived before. Several may get the same one if
// no rank is in two of them. 0 if it is not known.
std::uint64_t identity_of_next(MPI_Comm parent);
// After they could not be made: the next one gets that identity.
void reuse_identity(MPI_Comm parent);
// While it lives, communicators that this thread makes inherit nothing: Open MPI copies attributes in MPI_Comm_create_group, too,
// where only some ranks of the parent take part.
class without_inheritance {
 public:
  without_inheritance();
  without_inheritance(without_inheritance const&) = delete;
  without_inheritance& operator=(without_inheritance const&) = delete;
  ~without_inheritance();
};
// The same for a communicator that was made by its ranks only, which agree on it.
std::uint64_t agreed_identity(MPI_Comm made);
// Called right after a communicator was made. 0 and MPI_COMM_NULL have no effect.
void identify(MPI_Comm made, std::uint64_t identity);

bool threads_call_at_once();

// A communicator of this rank alone, whose functions return errors without a word.
MPI_Comm quiet_communicator();

// Whether no rank of this machine has called it before.
bool is_first_notice();
// Whether no rank of this machine has called it with this kind of error within the last seconds.
bool is_first_report(int kind);

// Lets the MPI progress messages, which it does only during calls: a program relies on its collectives for that. Called
// between start and stop.
void let_the_mpi_work() noexcept;

// Called at the end of a call on tutti: the MPI progresses now if it has not for long, and otherwise when the program next asks
// whether something has arrived.
void owe_progress() noexcept;

// How many calls on tutti have ended for which the MPI has not progressed yet, but not more than 16. MPICH takes one message each time,
// so each time repays one call.
int progress_owed() noexcept;

// Calls ask(), a function of the MPI that sets *arrived and does not wait. If nothing has arrived, the MPI makes the progress that it
// is owed, so that the program sees what its peers sent before they made the same calls: MPICH takes one message at a time.
template <class Ask>
int ask_for_arrivals(int const* arrived, Ask&& ask) {
  int code = ask();
  if (code != MPI_SUCCESS || *arrived != 0) return code;
  for (int owed = progress_owed(); owed > 0 && code == MPI_SUCCESS && *arrived == 0; --owed) {
    let_the_mpi_work();
    code = ask();
  }
  return code;
}

}  // namespace interpose
