// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport over MPI, for ranks on one machine or many: each slice is a message.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mpi.h>
#include <new>
#include <source_location>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/mpi/ballot.hpp"
#include "tutti/transport/mpi/board.hpp"
#include "tutti/transport/mpi/channels.hpp"
#include "tutti/transport/mpi/communicator.hpp"
#include "tutti/transport/mpi/library.hpp"
#include "tutti/transport/mpi/neighbours.hpp"
#include "tutti/transport/notice.hpp"
#include "tutti/transport/system/call_watchdog.hpp"

namespace tutti {

namespace detail {

struct mpi_collectives;

}  // namespace detail

class mpi : public detail::mpi_channels {
 public:
  static constexpr std::string_view name = "mpi";
  static constexpr std::size_t eager_bytes = detail::mpi_eager_bytes;

  // All ranks of the communicator construct it, and all destroy it, waiting at most `limit` for each other.
  // Throws error: timeout, bad_argument, system.
  [[gnu::cold]] mpi(MPI_Comm ranks, int tracks, std::chrono::nanoseconds limit)
      : mpi(detail::mpi_communicator(ranks, detail::countdown(limit)), tracks, limit) {}
  // The same on a communicator that the transport takes over.
  [[gnu::cold]] mpi(detail::mpi_communicator own, int tracks, std::chrono::nanoseconds limit,
                    std::vector<detail::mpi_neighbour> const& known = {})
      : detail::mpi_channels(std::move(own), tracks, limit, known),
        ballot_(comm_.get(), farewell_tag() + 1, rank_, ranks_, board_) {
    detail::note_mpi();
  }
  mpi(mpi const&) = delete;
  mpi& operator=(mpi const&) = delete;
  ~mpi() {
    if (detail::mpi_is_finalized()) return;
    bool const orderly = comm_.get() != MPI_COMM_NULL && meet_to_close(closing::over);
    if (board_.anyone_lost()) announce_leaving();
    auto const grace_period = detail::deadline::after(std::chrono::milliseconds(orderly ? 1000 : 10));
    cancel_receives(grace_period);
    bool const unread = ballot_.was_used();  // one of its letters may still be in flight, with no farewell behind it
    bool const closed = board_.close() && ballot_.close() && orderly;
    if (closed && !unread) return;
    comm_.abandon();
    if (closing_->meeting != MPI_REQUEST_NULL) static_cast<void>(closing_.release());
    if (closed) return;
    if (!board_.anyone_lost() && !board_.faulty())  // the ranks know why
      std::fprintf(stderr,
                   "tutti: rank %d closes a communicator that other ranks still have open, so its MPI communicator is "
                   "not freed; close it on all ranks, and several communicators in the same order on all\n",
                   rank_);
    abandon_sends();
    board_.abandon();
    ballot_.abandon();
    calls_.abandon();
  }

  // The collectives of the MPI, in native/mpi_collectives.hpp. Their errors are faults.
  using native_collectives = detail::mpi_collectives;
  void note_all_arrived() noexcept { board_.note_all_arrived(); }
  detail::call_note::scope enter_library(char const* call, std::chrono::nanoseconds timeout,
                                         std::source_location where) const noexcept {
    detail::call_note& note = board_.inside_mpi().notes[detail::watched_calls::collective];
    note.set_terms(detail::call_watchdog::limit_of(timeout), where);
    return {note, call};
  }
  bool accepts_device_memory() const { return detail::mpi_accepts_device_memory(); }
  void expect(int code, char const* call) noexcept {
    if (!check(code, call, rank_) && detail::mpi_is_loss(code)) raise_loss(call);
  }

  // If the MPI was initialised for a single thread, only that thread may call; after MPI_Finalize, none.
  void expect_thread() const {
    int const level = thread_level();
    if (level >= MPI_THREAD_SERIALIZED || (level != detail::mpi_closed && std::this_thread::get_id() == thread_))
      return;
    refuse_thread(level);
  }
  bool is_closed() const noexcept { return thread_level() == detail::mpi_closed; }

  // Whether threads may call it while others call the MPI.
  bool allows_concurrent_threads() const noexcept { return thread_level() >= MPI_THREAD_MULTIPLE; }

  std::byte* allocate(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{detail::page}));
  }
  static void deallocate(std::byte* memory, std::size_t) noexcept {
    ::operator delete(memory, std::align_val_t{detail::page});
  }

  void leave() noexcept {
    if (!detail::mpi_is_finalized()) board_.leave();  // a program may wrongly finalize MPI first
  }
  void leave_at_once() noexcept {
    if (!detail::mpi_is_finalized()) board_.leave_at_once();
  }

  // Called after leave(). Waits for all ranks to leave, and returns whether their calls, of which `calls` is a hash, differ.
  [[gnu::cold]] bool differ_when_leaving(std::uint64_t calls) noexcept {
    if (detail::mpi_is_finalized() || comm_.get() == MPI_COMM_NULL) return false;
    closing_->calls = {calls, ~calls};
    if (!meet_to_close(closing::calls_compared) || board_.faulty() || closing_->calls[0] == ~closing_->calls[1])
      return false;
    strays_ = true;
    return true;
  }

  // An independent transport of these ranks, in this order. Each of them calls it with the same list; it returns when all have.
  // Throws error: timeout naming the ranks that did not call, rank_lost if one has ended or left, system.
  [[gnu::cold]] std::unique_ptr<mpi> subgroup(std::vector<int> const& members, detail::countdown& until) {
    expect_thread();
    return name_lost_rank_in(
        [&] { return std::make_unique<mpi>(meet_members(members, until), tracks_, limit_, machine_.neighbours); });
  }

  // -- The loss of ranks, if the MPI survives it.
  bool survives() const noexcept { return detail::mpi_survives(); }
  detail::mpi_ballot votes() const noexcept { return ballot_; }
  // A transport of the survivors `members`, who have agreed on that list and all call it. `others_live`: processes of other ranks
  // may be running, after closing their communicator.
  // Throws error: rank_lost if one of the members has ended meanwhile, system.
  [[gnu::cold]] std::unique_ptr<mpi> shrink(std::vector<int> const& members, bool others_live, detail::countdown&) {
    return std::make_unique<mpi>(meet_survivors(members, others_live), tracks_, limit_);
  }

  void end_job(int code) noexcept { detail::abort_mpi(code); }

  detail::mpi_board notices() const noexcept { return board_; }
  // Gives peers that are in the same call a moment to say so.
  void query_peers() noexcept { board_.query_peers(); }
  // For a caller that waits elsewhere in the middle of a call.
  void poll_notices() noexcept {
    if (!detail::mpi_is_finalized()) board_.poll_notices();
  }

 private:
  static int thread_level() noexcept { return detail::mpi_thread_level.load(std::memory_order_relaxed); }
  [[noreturn, gnu::cold]] void refuse_thread(int level) const {
    if (level == detail::mpi_closed)
      throw error({.code = error_code::bad_argument,
                   .rank = rank_,
                   .what = "tutti was called over MPI after MPI_Finalize",
                   .way_out = "close communicators before MPI_Finalize, or let tutti initialise and finalize the MPI"});
    throw error(
        {.code = error_code::bad_argument,
         .rank = rank_,
         .what = "tutti was called over MPI from a thread that MPI does not allow to call it",
         .way_out = "call it from the thread that initialised MPI, or initialise MPI with MPI_THREAD_SERIALIZED"});
  }
  [[gnu::cold]] void raise_loss(char const* call) noexcept {
    int const peer = find_lost_rank(true);
    auto const text = [&] {
      return detail::join({peer < 0 ? "a rank" : describe(peer), " ended while rank ", rank_, " was in ", call});
    };
    board_.raise({error_code::rank_lost, rank_, peer, detail::text_or(text, "a rank ended")});
  }

  // The state of a meeting of all ranks that close.
  struct closing {
    enum stages { sends, all_here, calls_compared, farewells, all_received, over } stage = sends;
    MPI_Request meeting = MPI_REQUEST_NULL;
    std::array<std::uint64_t, 2> calls{0, ~std::uint64_t{0}};  // the greatest hash, and the greatest complement of one
    bool failed = false;
  };

  // Whether all ranks have arrived here with no messages in flight. After a fault, and outside calls, messages may have no
  // receiver. So once all ranks are here, and hence know of the fault, those that may have sent such messages send farewells,
  // and all receive and drop messages until every farewell has been received.
  [[gnu::cold]] bool meet_to_close(closing::stages last) noexcept {
    closing& c = *closing_;
    if (c.failed) return false;
    auto const look = [&] {
      board_.listen();
      if (board_.anyone_lost()) return detail::progress::stuck;
      if (board_.faulty()) strays_ = true;
      if (strays_ || c.stage > closing::all_here) discard();
      auto const begun = [&](int code, char const* call) { return check(code, call, rank_); };
      if (c.stage == closing::sends && all_sent() && board_.delivered() &&
          begun(MPI_Iallreduce(MPI_IN_PLACE, c.calls.data(), 2, MPI_UINT64_T, MPI_MAX, comm_.get(), &c.meeting),
                "MPI_Iallreduce"))
        c.stage = closing::all_here;
      if (c.stage == closing::all_here && done(c.meeting, rank_)) {
        board_.listen();
        c.stage = closing::calls_compared;
      }
      if (c.stage == last) return detail::progress::done;
      if (c.stage == closing::calls_compared) {
        if (strays_ || board_.faulty()) send_farewells();
        board_.end_notices();
        c.stage = closing::farewells;
      }
      if (c.stage == closing::farewells && farewells_received() && board_.delivered() &&
          begun(MPI_Ibarrier(comm_.get(), &c.meeting), "MPI_Ibarrier"))
        c.stage = closing::all_received;
      if (c.stage == closing::all_received && done(c.meeting, rank_) && idle()) c.stage = closing::over;
      return c.stage == last ? detail::progress::done : detail::progress::stuck;
    };
    detail::countdown after_fault(std::chrono::seconds(1));
    board_.look_for_lost();
    c.failed = !detail::wait_until_done(look, waits_, detail::countdown(limit_), [&](auto const& ready) {
      if (!board_.anyone_lost()) nap(ready);
      return !board_.anyone_lost() && !(board_.faulty() && after_fault.passed());
    });
    return !c.failed;
  }

  // After the loss of a rank there is no meeting to close. Ranks that agree on the survivors must know that this one has left.
  [[gnu::cold]] void announce_leaving() noexcept {
    board_.leave_at_once();
    detail::wait_until_done([&] { return board_.all_in_flight() ? detail::progress::done : detail::progress::stuck; },
                            waits_, detail::deadline::after(std::chrono::seconds(1)),
                            detail::sleep_for(detail::nap_length));
  }

  // MPICH 4.2 sends a notice in parts, for which this rank must call it, and MPI_Finalize does not. Not until all have received the notice,
  // because peers may be in MPI_Finalize, too. Calls that have been started go no further meanwhile: MPI_Finalize ends them.
  [[gnu::cold]] void leave_to_finalize() noexcept {
    board_.leave_at_once();
    for (auto const until = detail::deadline::after(std::chrono::milliseconds(20));
         !board_.delivered() && !until.passed();)
      std::this_thread::sleep_for(detail::nap_length);
  }

  std::thread::id thread_ = std::this_thread::get_id();
  detail::mpi_ballot ballot_;
  std::unique_ptr<closing> closing_ = std::make_unique<closing>();  // left to the MPI if that may still write to it
  detail::at_finalize const tells_peers_{[this] { leave_to_finalize(); }};
};

static_assert(detail::divisible<mpi> && detail::may_survive<mpi> && detail::spans_machines<mpi> &&
              detail::needs_sender_progress<mpi> && detail::has_eager_limit<mpi> && detail::bound_to_thread<mpi> &&
              detail::queries_peers<mpi> && detail::compares_when_leaving<mpi> && detail::sends_outside_calls<mpi> &&
              detail::ends_job<mpi>);

}  // namespace tutti
