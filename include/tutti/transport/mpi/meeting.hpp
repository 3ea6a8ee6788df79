// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A meeting of some ranks of an MPI communicator, which confirms that all have arrived before a call that has no timeout.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/mpi/library.hpp"

namespace tutti::detail {

// The first member leads. Each member reports its arrival; once all have, the leader asks each whether it is still there, and
// admits all once all have confirmed. A member that gives up may leave letters behind; they carry the number of an earlier
// attempt and are ignored.
class mpi_meeting {
 public:
  // `tag` is used for no other list of members. `attempt` differs between meetings of this rank.
  mpi_meeting(MPI_Comm comm, int tag, std::vector<int> const& members, int rank, std::uint64_t attempt)
      : mpi_meeting(comm, tag, members.front() == rank, attempt) {
    // From here on, the destructor runs even if the MPI refuses something.
    for (int const m : members)
      if (m != rank && (leads_ || m == members.front())) partners_.push_back({.rank = m});
    unseen_ = partners_.size();
    for (partner& p : partners_) post_receive(p);
    if (!leads_) send(partners_.front(), letter::here, attempt_);
  }
  mpi_meeting(mpi_meeting const&) = delete;
  mpi_meeting& operator=(mpi_meeting const&) = delete;
  ~mpi_meeting() {
    for (partner& p : partners_)
      if (p.receiving != MPI_REQUEST_NULL) {
        MPI_Cancel(&p.receiving);
        MPI_Wait(&p.receiving, MPI_STATUS_IGNORE);
      }
  }

  // `independent`: the members must create their communicator without the parent. The leader decides for all.
  // Throws error: system.
  progress poll(bool independent) {
    for (partner& p : partners_)
      while (p.receiving != MPI_REQUEST_NULL && arrived(p)) {
        leads_ ? lead(p) : follow(p);
        if (p.stage != letter::admitted) post_receive(p);
      }
    if (leads_ && !all_at(letter::admitted)) return progress::stuck;
    if (leads_) independent_ = independent;
    if (leads_)
      for (partner& p : partners_) send(p, letter::admitted, p.attempt, independent_ ? 1 : 0);
    return all_at(letter::admitted) ? progress::done : progress::stuck;
  }

  bool independent() const { return independent_; }

  // Members that have not arrived, as far as this rank knows: the leader reports them from time to time.
  std::vector<int> absent() {
    std::vector<int> out;
    for (partner const& p : partners_)
      if (p.stage == letter::nothing) out.push_back(p.rank);
    if (!leads_ && absent_ >= 0) out = {absent_};
    if (out.empty()) out.push_back(partners_.front().rank);
    return out;
  }
  void report_absent() {
    auto const now = std::chrono::steady_clock::now();
    if (!leads_ || now - reported_ < std::chrono::milliseconds(50)) return;
    reported_ = now;
    auto const first = std::ranges::find(partners_, letter::nothing, &partner::stage);
    for (partner& p : partners_)
      if (first != partners_.end() && p.stage != letter::nothing) send(p, letter::waiting, p.attempt, first->rank);
  }

 private:
  struct letter {
    enum kinds : int { nothing, here, waiting, still_here, admitted } kind = nothing;
    int number = -1;  // waiting: the rank that is absent; admitted: whether independent
    std::uint64_t attempt = 0;
  };
  struct partner {
    int rank;
    letter::kinds stage = letter::nothing;  // the last letter that counted
    std::uint64_t attempt = 0;              // the member's number
    std::unique_ptr<letter> received = std::make_unique<letter>();
    MPI_Request receiving = MPI_REQUEST_NULL;
  };

  mpi_meeting(MPI_Comm comm, int tag, bool leads, std::uint64_t attempt)
      : comm_(comm), tag_(tag), leads_(leads), attempt_(attempt) {}

  void lead(partner& p) {
    letter const& l = *p.received;
    if (l.kind == letter::here) {
      if (p.stage == letter::nothing) --unseen_;
      p.stage = letter::here;
      p.attempt = l.attempt;
    } else if (l.kind == letter::still_here && l.attempt == p.attempt) {
      p.stage = letter::admitted;
    }
    if (l.kind != letter::here || unseen_ > 0) return;
    // All have arrived. Ask each whether it is still here; a member that has come back is asked alone.
    for (partner& q : partners_)
      if (q.stage == letter::here) {
        q.stage = letter::still_here;
        send(q, letter::still_here, q.attempt);
      }
  }
  void follow(partner& leader) {
    letter const& l = *leader.received;
    if (l.attempt != attempt_) return;
    leader.stage = l.kind;
    if (l.kind == letter::waiting) absent_ = l.number;
    if (l.kind == letter::admitted) independent_ = l.number != 0;
    if (l.kind == letter::still_here) send(leader, letter::still_here, attempt_);
  }

  bool all_at(letter::kinds stage) const {
    return std::ranges::all_of(partners_, [&](partner const& p) { return p.stage == stage; });
  }
  bool arrived(partner& p) {
    int there = 0;
    int const code = MPI_Test(&p.receiving, &there, MPI_STATUS_IGNORE);
    if (mpi_is_loss(code)) return false;  // the caller looks for lost ranks while it waits
    expect_success(code, "MPI_Test");
    return there != 0;
  }
  void post_receive(partner& p) {
    expect_success(MPI_Irecv(p.received.get(), sizeof(letter), MPI_BYTE, p.rank, tag_, comm_, &p.receiving),
                   "MPI_Irecv");
  }
  // Letters are few and small, so they leave at once. The memory of one that does not is left to the MPI.
  void send(partner& p, letter::kinds kind, std::uint64_t attempt, int number = -1) {
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
  bool independent_ = false;
  std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
  std::vector<partner> partners_;
  std::size_t unseen_ = 0;  // those from whom no letter has come
};

}  // namespace tutti::detail
