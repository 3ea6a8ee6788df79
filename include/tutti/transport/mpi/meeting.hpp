// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Some ranks of an MPI communicator find out that all of them are here, before they make a call that waits for ever.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/mpi/library.hpp"

namespace tutti::detail {

// The first of them leads. It hears from each that it is here, asks whether it still is, and lets all in when all have said
// so. A member that gave up leaves its words behind: they have the number of another attempt and are not believed.
class mpi_meeting {
 public:
  // Messages have this tag, which no other list of members uses. `attempt`: another one each time at this rank.
  mpi_meeting(MPI_Comm comm, int tag, std::vector<int> const& members, int rank, std::uint64_t attempt)
      : comm_(comm), tag_(tag), leads_(members.front() == rank), attempt_(attempt) {
    for (int const m : members)
      if (m != rank && (leads_ || m == members.front())) partners_.push_back({.rank = m});
    for (partner& p : partners_) listen(p);
    if (!leads_) say(partners_.front(), letter::here, attempt_);
  }
  mpi_meeting(mpi_meeting const&) = delete;
  mpi_meeting& operator=(mpi_meeting const&) = delete;
  ~mpi_meeting() {
    for (partner& p : partners_)
      if (p.hearing != MPI_REQUEST_NULL) {
        MPI_Cancel(&p.hearing);
        MPI_Wait(&p.hearing, MPI_STATUS_IGNORE);
      }
  }

  // `apart`: whether the members must make their communicator without that of all. What the leader says counts.
  // Throws error: system.
  progress poll(bool apart) {
    for (partner& p : partners_)
      while (p.hearing != MPI_REQUEST_NULL && arrived(p)) {
        leads_ ? lead(p) : follow(p);
        if (p.stage != letter::in) listen(p);
      }
    if (leads_ && !everyone(letter::in)) return progress::stuck;
    if (leads_) apart_ = apart;
    if (leads_)
      for (partner& p : partners_) say(p, letter::in, p.attempt, apart_ ? 1 : 0);
    return everyone(letter::in) ? progress::done : progress::stuck;
  }

  bool apart() const { return apart_; }

  // Members that have not come, as far as this rank knows. The leader tells what it knows now and then.
  std::vector<int> absent() {
    std::vector<int> out;
    for (partner const& p : partners_)
      if (p.stage == letter::nothing) out.push_back(p.rank);
    if (!leads_ && absent_ >= 0) out = {absent_};
    if (out.empty()) out.push_back(partners_.front().rank);
    return out;
  }
  void tell_absent() {
    auto const now = std::chrono::steady_clock::now();
    if (!leads_ || now - told_ < std::chrono::milliseconds(50)) return;
    told_ = now;
    auto const first = std::ranges::find(partners_, letter::nothing, &partner::stage);
    for (partner& p : partners_)
      if (first != partners_.end() && p.stage != letter::nothing) say(p, letter::waiting, p.attempt, first->rank);
  }

 private:
  struct letter {
    enum kinds : int { nothing, here, waiting, still_here, in } kind = nothing;
    int number = -1;  // waiting: who is awaited; in: whether apart
    std::uint64_t attempt = 0;
  };
  struct partner {
    int rank;
    letter::kinds stage = letter::nothing;  // what it has said
    std::uint64_t attempt = 0;              // of the member
    std::unique_ptr<letter> heard = std::make_unique<letter>();
    MPI_Request hearing = MPI_REQUEST_NULL;
  };

  void lead(partner& p) {
    letter const& l = *p.heard;
    if (l.kind == letter::here) {
      p.stage = letter::here;
      p.attempt = l.attempt;
    } else if (l.kind == letter::still_here && l.attempt == p.attempt) {
      p.stage = letter::in;
    }
    if (l.kind != letter::here ||
        std::ranges::any_of(partners_, [](partner const& q) { return q.stage < letter::here; }))
      return;
    // All are here or were; one that came again is asked alone.
    for (partner& q : partners_)
      if (q.stage == letter::here) {
        q.stage = letter::still_here;
        say(q, letter::still_here, q.attempt);
      }
  }
  void follow(partner& leader) {
    letter const& l = *leader.heard;
    if (l.attempt != attempt_) return;
    leader.stage = l.kind;
    if (l.kind == letter::waiting) absent_ = l.number;
    if (l.kind == letter::in) apart_ = l.number != 0;
    if (l.kind == letter::still_here) say(leader, letter::still_here, attempt_);
  }

  bool everyone(letter::kinds stage) const {
    return std::ranges::all_of(partners_, [&](partner const& p) { return p.stage == stage; });
  }
  bool arrived(partner& p) {
    int there = 0;
    int const code = MPI_Test(&p.hearing, &there, MPI_STATUS_IGNORE);
    if (mpi_is_loss(code)) return false;  // whoever waits for the meeting looks for that
    expect_success(code, "MPI_Test");
    return there != 0;
  }
  void listen(partner& p) {
    expect_success(MPI_Irecv(p.heard.get(), sizeof(letter), MPI_BYTE, p.rank, tag_, comm_, &p.hearing), "MPI_Irecv");
  }
  // Few and small, so they leave at once; one that does not is left to the MPI, with its memory.
  void say(partner& p, letter::kinds kind, std::uint64_t attempt, int number = -1) {
    auto text = std::make_unique<letter>(letter{kind, number, attempt});
    MPI_Request sending = MPI_REQUEST_NULL;
    int code = MPI_Isend(text.get(), sizeof(letter), MPI_BYTE, p.rank, tag_, comm_, &sending);
    int left = 0;
    if (code == MPI_SUCCESS) code = MPI_Test(&sending, &left, MPI_STATUS_IGNORE);
    if (mpi_is_loss(code)) return static_cast<void>(text.release());
    expect_success(code, "MPI_Isend");
    if (left != 0) return;
    MPI_Request_free(&sending);
    static_cast<void>(text.release());
  }

  MPI_Comm comm_;
  int tag_;
  bool leads_;
  std::uint64_t attempt_;
  int absent_ = -1;
  bool apart_ = false;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
  std::vector<partner> partners_;
};

}  // namespace tutti::detail
