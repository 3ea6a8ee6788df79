// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of MPI that complete requests also complete those of calls that tutti carries out.
#include "requests.hpp"

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "binding.hpp"
#include "callers.hpp"
#include "tutti/started/progress.hpp"

// MPI 4.1 can also query lists of requests.
#define INTERPOSE_MPI_4_1 (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1))

namespace interpose {
namespace {

#if INTERPOSE_MPI_4_1
// The requests that these functions take are constant, but not in MPICH 4.2.
template <class Function>
struct takes;
template <class List, class... Rest>
struct takes<int(int, List, Rest...)> {
  using requests = List;
};
using asked_requests = takes<decltype(PMPI_Request_get_status_all)>::requests;
#endif

// Never destroyed, because destructors of the program may call MPI.
std::mutex& changes = *new std::mutex;
std::vector<pending*>& list = *new std::vector<pending*>;
std::atomic<std::size_t> list_size{0};  // read without the mutex: most programs have none
std::optional<tutti::progress_thread>& mover = *new std::optional<tutti::progress_thread>;

// While this thread asks the MPI whether requests have completed, before it waits for them: then an error comes once.
thread_local bool asking = false;

int query(void* state, MPI_Status* status) {
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
  return asking ? MPI_SUCCESS : static_cast<pending*>(state)->code;
}
void drop(pending* p) {
  if (--p->owners == 0) delete p;
}
int release(void* state) {
  drop(static_cast<pending*>(state));
  return MPI_SUCCESS;
}
int cancel(void*, int) { return MPI_SUCCESS; }  // a collective cannot be cancelled

// Ends a call, and the life of `p` if its request has been freed or there is none. Returns the error that no request tells.
[[nodiscard]] int finish(pending* p) {
  try {
    p->work.wait();
    p->kept->deliver();
  } catch (std::exception const& e) {
    p->code = p->failed->report(p->function, e, ends_the_program(MPI_COMM_WORLD));
  }
  p->kept.reset();
  owe_progress();
  bool const has_request = p->request != MPI_REQUEST_NULL;
  int const untold = has_request ? MPI_SUCCESS : p->code;
  if (has_request) PMPI_Grequest_complete(p->request);
  drop(p);
  return untold;
}

// Outside the lock, because the handler may call the MPI.
void tell(int untold) {
  if (untold != MPI_SUCCESS) PMPI_Comm_call_errhandler(MPI_COMM_WORLD, untold);
}

// Drives started calls, and completes the requests of those that have ended. Returns whether there was progress.
bool work_off() {
  bool const moved = tutti::detail::progress_list::help() == tutti::detail::progress::moved;
  int untold = MPI_SUCCESS;
  {
    std::lock_guard const lock(changes);
    std::erase_if(list, [&](pending* p) {
      if (!p->work.done()) return false;
      if (int const code = finish(p); code != MPI_SUCCESS) untold = code;
      return true;
    });
    list_size = list.size();
  }
  tell(untold);
  return moved;
}

// Calls test(&flag) of the MPI until it sets the flag, or no call of tutti's is pending; then calls `wait`, the MPI's
// function.
template <class Test, class Wait>
int until(Test&& test, Wait&& wait) {
  for (tutti::detail::idler rest; list_size > 0; rest.pause()) {
    tutti::detail::progress_list::waiter const here;
    if (work_off()) rest.moved();
    int flag = 0;
    int const code = test(&flag);
    if (code != MPI_SUCCESS || flag != 0) return code;
  }
  return wait();
}

void look() {
  if (list_size > 0) work_off();
}

// Returns whether the request has completed, or is none. It stays what it is.
bool has_completed(MPI_Request request) {
  asking = true;
  int flag = 0;
  int const code = PMPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
  asking = false;
  return code != MPI_SUCCESS || flag != 0;
}

}  // namespace

MPI_Request add(std::unique_ptr<pending> started) {
  std::lock_guard const lock(changes);
  pending* const p = started.release();
  PMPI_Grequest_start(&query, &release, &cancel, p, &p->request);
  MPI_Request const out = p->request;
  if (p->work.done()) {
    static_cast<void>(finish(p));  // its request tells the error
    return out;
  }
  list.push_back(p);
  list_size = list.size();
  if (!mover) mover.emplace();
  return out;
}

void add_without_request(std::unique_ptr<pending> started) {
  std::lock_guard const lock(changes);
  started->owners = 1;
  list.push_back(started.release());
  list_size = list.size();
}

void end_requests() {
  mover.reset();
  int untold = MPI_SUCCESS;
  {
    std::lock_guard const lock(changes);
    for (pending* const p : list)
      if (int const code = finish(p); code != MPI_SUCCESS) untold = code;
    list.clear();
    list_size = 0;
  }
  tell(untold);
}

}  // namespace interpose

using namespace interpose;

extern "C" {

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return until([&](int* flag) { return PMPI_Test(request, flag, status); }, [&] { return PMPI_Wait(request, status); });
}
// Asks for one request after another, because MPI_Testall of MPICH 4.0.2 fails for requests of persistent collectives.
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  int completed = 0;
  return until(
      [&](int* flag) {
        while (completed < count && has_completed(requests[completed])) ++completed;
        *flag = completed >= count;
        return *flag != 0 ? PMPI_Waitall(count, requests, statuses) : MPI_SUCCESS;
      },
      [&] { return PMPI_Waitall(count, requests, statuses); });
}
int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  return until([&](int* flag) { return PMPI_Testany(count, requests, index, flag, status); },
               [&] { return PMPI_Waitany(count, requests, index, status); });
}
int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  return until(
      [&](int* flag) {
        int const code = PMPI_Testsome(count, requests, done, indices, statuses);
        *flag = *done != 0;
        return code;
      },
      [&] { return PMPI_Waitsome(count, requests, done, indices, statuses); });
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  look();
  return ask_for_arrivals(flag, [&] { return PMPI_Test(request, flag, status); });
}
int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  look();
  return ask_for_arrivals(flag, [&] { return PMPI_Testall(count, requests, flag, statuses); });
}
int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  look();
  return ask_for_arrivals(flag, [&] { return PMPI_Testany(count, requests, index, flag, status); });
}
int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  look();
  return ask_for_arrivals(done, [&] { return PMPI_Testsome(count, requests, done, indices, statuses); });
}
int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  look();
  return ask_for_arrivals(flag, [&] { return PMPI_Request_get_status(request, flag, status); });
}
#if INTERPOSE_MPI_4_1
int MPI_Request_get_status_all(int count, asked_requests requests, int* flag, MPI_Status statuses[]) {
  look();
  return ask_for_arrivals(flag, [&] { return PMPI_Request_get_status_all(count, requests, flag, statuses); });
}
int MPI_Request_get_status_any(int count, asked_requests requests, int* index, int* flag, MPI_Status* status) {
  look();
  return ask_for_arrivals(flag, [&] { return PMPI_Request_get_status_any(count, requests, index, flag, status); });
}
int MPI_Request_get_status_some(int count, asked_requests requests, int* done, int indices[], MPI_Status statuses[]) {
  look();
  return ask_for_arrivals(done, [&] { return PMPI_Request_get_status_some(count, requests, done, indices, statuses); });
}
#endif

INTERPOSE_ALL(Wait, (MPI_Request * request, MPI_Status* status), request, status)
INTERPOSE_ALL(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), count, requests, statuses)
INTERPOSE_ALL(Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status), count, requests, index,
              status)
INTERPOSE_ALL(Waitsome, (int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]), count,
              requests, done, indices, statuses)
INTERPOSE_ALL(Test, (MPI_Request * request, int* flag, MPI_Status* status), request, flag, status)
INTERPOSE_ALL(Testall, (int count, MPI_Request requests[], int* flag, MPI_Status statuses[]), count, requests, flag,
              statuses)
INTERPOSE_ALL(Testany, (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status), count, requests,
              index, flag, status)
INTERPOSE_ALL(Testsome, (int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]), count,
              requests, done, indices, statuses)
INTERPOSE_ALL(Request_get_status, (MPI_Request request, int* flag, MPI_Status* status), request, flag, status)
#if INTERPOSE_MPI_4_1
INTERPOSE_ALL(Request_get_status_all, (int count, asked_requests requests, int* flag, MPI_Status statuses[]), count,
              requests, flag, statuses)
INTERPOSE_ALL(Request_get_status_any, (int count, asked_requests requests, int* index, int* flag, MPI_Status* status),
              count, requests, index, flag, status)
INTERPOSE_ALL(Request_get_status_some,
              (int count, asked_requests requests, int* done, int indices[], MPI_Status statuses[]), count, requests,
              done, indices, statuses)
#endif

}  // extern "C"
