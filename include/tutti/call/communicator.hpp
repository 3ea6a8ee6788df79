// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A group of ranks that call collectives together.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/count_list.hpp"
#include "tutti/call/engine.hpp"
#include "tutti/call/numbering.hpp"
#include "tutti/call/recovery.hpp"
#include "tutti/call/refuse.hpp"
#include "tutti/call/shared_array.hpp"
#include "tutti/core/error.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti {

// The color of a rank that is in no group of a split.
inline constexpr int no_color = -1;

// The transport between processes of one machine; see transport/shared_memory/shm.hpp.
class shm;

namespace detail {

template <transport Transport>
class lasting_reference;

}  // namespace detail

// The ranks that make collective calls together. Each rank has its own communicator object; communicator<> is the type
// that tutti::init() returns. All ranks call the same collectives in the same order; a rank calls from one thread at a
// time. After an error of a collective (mismatch, timeout, a rank lost or left), every further call throws that error.
// After a move, all calls on the communicator that was moved from throw bad_argument.
//
//   auto comm = tutti::init();
//   double const sum = tutti::all_reduce(comm, mine);
template <transport Transport = shm>
class TUTTI_NODISCARD("a communicator that is dropped closes at once") communicator {
 public:
  using transport_type = Transport;

  explicit communicator(std::unique_ptr<Transport> transport, std::chrono::nanoseconds timeout = {})
      : engine_(new tutti::detail::engine<Transport>(std::move(transport), timeout)),
        rank_(engine_->rank()),
        size_(engine_->ranks()) {}
  communicator(communicator&& other) noexcept
      : engine_(std::move(other.engine_)),
        rank_(std::exchange(other.rank_, detail::moved_from)),
        size_(std::exchange(other.size_, detail::moved_from)),
        survivors_(std::move(other.survivors_)) {}
  communicator& operator=(communicator&& other) noexcept {
    engine_ = std::move(other.engine_);
    rank_ = std::exchange(other.rank_, detail::moved_from);
    size_ = std::exchange(other.size_, detail::moved_from);
    survivors_ = std::move(other.survivors_);
    return *this;
  }
  communicator(communicator const&) = delete;  // pass a reference; or split(0), which makes another communicator
  communicator& operator=(communicator const&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  bool is_main() const noexcept { return rank() == 0; }

  // The index of this rank among the communicator's ranks on the same machine, in rank order, and the number of these.
  int local_rank() const noexcept {
    if constexpr (detail::spans_machines<Transport>) return engine_ ? engine_->transport().local_rank() : rank();
    else return rank();
  }
  int local_size() const noexcept {
    if constexpr (detail::spans_machines<Transport>) return engine_ ? engine_->transport().local_ranks() : size();
    else return size();
  }
  // The first rank on this machine, which numbers it: split(node()) makes a communicator of the ranks of each machine.
  int node() const noexcept {
    if constexpr (detail::spans_machines<Transport>) return engine_ ? engine_->transport().first_local_rank() : rank();
    else return engine_ ? 0 : rank();
  }

  // Calls f() on rank 0 only, for output or files. Sends nothing and waits for nobody: the other ranks continue. If f
  // returns a value, rank 0 gets it and the others get nothing; use tutti::broadcast to distribute it.
  //
  //   std::optional<settings> const read = comm.main_only([&] { return read_settings(path); });
  template <std::invocable F>
  auto main_only(F&& f) const {
    using result = std::decay_t<std::invoke_result_t<F>>;
    if constexpr (std::is_void_v<result>) {
      if (is_main()) std::invoke(std::forward<F>(f));
    } else {
      return is_main() ? std::optional<result>(std::invoke(std::forward<F>(f))) : std::nullopt;
    }
  }

  // Allocates zeroed memory for `count` elements that the other ranks can read in place: the fastest buffers for large
  // messages (protocol direct). Not collective. Throws std::bad_alloc.
  template <element T>
  shared_array<T, Transport> allocate(std::size_t count) const {
    static_assert(alignof(T) <= detail::page);
    expect_usable({});
    engine_->process.expect_this({});
    return {*engine_, count};
  }
  template <class T>
  detail::refused_call allocate(detail::count_of_refused<T>) const;

  // Creates a communicator of the ranks that pass the same color. Collective over all ranks; ordered by key, and by rank if keys are
  // equal. Returns nothing on a rank that passes no_color or any negative number. See MPI-4.1, 7.4.2. Throws error as all_gather and
  // subgroup do.
  //
  //   auto row = comm.split(comm.rank() / 4).value();
  //   if (auto io = comm.split(writes ? 0 : tutti::no_color)) write(*io);
  [[nodiscard]] std::optional<communicator> split(int color, int key = 0,
                                                  std::source_location where = std::source_location::current())
    requires detail::divisible<Transport>;

  // Creates a communicator of these ranks: ranks[i] becomes its rank i. Only these ranks call it, each with the same list; it returns
  // when all of them have. Groups may overlap; ranks that create several must not wait for each other in a cycle, so create them in the
  // same order everywhere. See MPI-4.1, 7.4.2 (MPI_Comm_create_group).
  //
  // It is a communicator like any other, with its own memory and faults and the tuning table of this one, which it may outlive. It can
  // also be created after this one has a fault: survivors of a loss can continue in a group. Its errors number ranks within it.
  // Throws error: bad_argument for a rank that does not exist or is listed twice, or for a list without this rank; timeout
  // (TUTTI_TIMEOUT) with the ranks that did not arrive; rank_lost if one of them has ended or closed its communicator, and why, if a
  // call of that rank was refused; rank_lost, rank_left or revoked if one of them waits in agree or shrink, but over MPI timeout; system.
  //   if (comm.rank() % 2 == 0) auto even = comm.subgroup({0, 2, 4, 6});
  communicator subgroup(detail::rank_list const& ranks,
                        std::source_location where = std::source_location::current()) const
    requires detail::divisible<Transport>
  {
    expect_usable(where);
    engine_->process.expect_this(where);
    engine_->expect_included(where);
    try {
      detail::check_members(ranks, rank(), size(), where);
      detail::countdown until(engine_->environment.timeout);
      return make_group(engine_->transport().subgroup(ranks, until), ranks);
    } catch (error const& e) {
      engine_->note_refusal(e);
      throw engine_->explained(e).in_call(where);
    }
  }

  // Writes <prefix>.<rank>.json (for a group: <prefix>.<rank>-<number>.json, with the rank of this thread's first communicator), which
  // tutti-record reads: the last 64 calls of this rank, their call sites, whether they have ended, and the known state of its peers. If
  // all ranks of a tutti::hierarchical are on one node, their calls use its memory, and calls over MPI (native, two_level) have a record
  // of their own, <prefix>.<rank>-<number>.json. Throws error: bad_argument if the file cannot be written.
  void write_record(std::string const& prefix, std::string const& reason = "asked for by the program") const {
    expect_usable({});
    engine_->write_record(prefix, reason);
  }
  // Statistics of this rank's completed calls of a collective, if TUTTI_STATISTICS=1 or TUTTI_TRACE was set when the
  // communicator was created.
  call_statistics statistics(collective what) const {
    expect_usable({});
    return engine_->statistics(what);
  }

  // -- Recovery from failures, with the names of ULFM (MPI_Comm_revoke, _agree, _shrink).

  // Ends all calls of all ranks on this communicator, running, started or later, with error: revoked, which names this
  // rank and the reason. Only this rank calls it, and it waits for nobody: ranks that compute learn of it in their next
  // call. An earlier fault stays. Agreements and groups remain possible.
  //
  //   if (diverged(loss)) comm.revoke("the loss is not a number");
  void revoke(std::string_view reason);
  // The same after an error on another communicator of the same ranks, numbered alike. If that has lost a rank, the calls on this
  // one throw that, with the rank, although it may be the first to notice.
  //
  //   try { barrier(other); } catch (tutti::error const& e) { comm.revoke(e), throw; }
  void revoke(error const& cause);

  // Ends the job: revokes the communicator, prints the reason on stderr and ends this process at once with this exit
  // code. Output is flushed; destructors and exit handlers do not run, because they could wait for ranks that are gone.
  // Ranks in a call throw revoked, and so do others in their next call; launchers end them when they see the exit code.
  // Over MPI, MPI_Abort ends all processes of MPI_COMM_WORLD. Ranks that are threads end with their process.
  //
  //   if (!save(checkpoint)) comm.abort("the disk is full");
  [[noreturn]] void abort(std::string_view reason, int exit_code = 1);

  // Returns the same on all surviving ranks: the bitwise and of the flags of those that voted, and the ranks that have ended or
  // closed this communicator. It works while ranks are being killed and after a fault; started calls continue meanwhile. All
  // survivors call agree and shrink in the same order. With exclude_after, it does not wait longer than that for ranks that hang:
  // they are listed as gone, and get the same result if they vote later. They remain ranks until a shrink excludes them.
  // Throws error, the same on all: timeout (TUTTI_TIMEOUT) with the ranks that are alive and did not vote, mismatch if
  // some call shrink; bad_argument over an MPI without fault tolerance, also on several nodes, because it cannot tell
  // which ranks survive. Over MPI, a rank that stalls in the middle for as long as the timeout may see another outcome.
  //
  //   bool const all_saved = comm.agree(saved ? 1 : 0).flags != 0;
  agreement agree(int flags = ~0, shrink_options how = {},
                  std::source_location where = std::source_location::current());

  // Creates a communicator of the survivors, in the order of their ranks, after they have agreed on who survives. All
  // survivors call it; those in a call on this communicator leave it with an error first (rank_lost or rank_left with
  // the rank that is gone, else revoked). Ranks that end meanwhile are left out too. Afterwards this communicator is
  // closed on this rank, and its calls throw revoked; memory from allocate remains until its destruction.
  // Throws error as agree and subgroup do. If it throws on one rank, it throws on all, and can be called again.
  //
  // With exclude_after, a rank that hangs is left out too: one that is stopped, or does not return from a computation. If
  // it runs again, its calls on this communicator throw excluded; it can neither disturb the survivors nor return to
  // them. Each communicator is shrunk separately. Over MPI this is refused (bad_argument).
  //
  //   try { train(comm); } catch (tutti::error const& e) {
  //     if (e.code() != tutti::error_code::rank_lost) throw;
  //     comm = comm.shrink();
  //     resume(comm, comm.survivors());
  //   }
  communicator shrink(shrink_options how = {}, std::source_location where = std::source_location::current())
    requires detail::divisible<Transport>;

  // Whether several ranks can agree and shrink with these options. If not, both throw bad_argument: over an MPI without fault
  // tolerance, and with exclude_after over any MPI.
  bool can_shrink(shrink_options how = {}) const;

  // What this rank sees of all ranks, by rank, so that a program can watch whether some hang: those that have begun fewer calls
  // than others for a long time. Any thread may call it, while none moves or destroys this communicator. Empty among several
  // ranks over MPI, which learn of others only by messages.
  std::vector<rank_activity> activity() const;

  // Refused with a sentence on a communicator that is const.
  template <class Comm = communicator>
  void split(int, int = 0) const {
    detail::refuse_const_communicator<Comm>();
  }
  template <class Comm = communicator>
  void revoke(std::string_view) const {
    detail::refuse_const_communicator<Comm>();
  }
  template <class Comm = communicator>
  void agree(int = ~0) const {
    detail::refuse_const_communicator<Comm>();
  }
  template <class Comm = communicator>
  void shrink() const {
    detail::refuse_const_communicator<Comm>();
  }

  // On a communicator that shrink created: the previous rank of each of its ranks. Empty on any other.
  std::vector<int> const& survivors() const noexcept { return survivors_; }

  // For the collectives.
  tutti::detail::engine<Transport>& engine() noexcept { return *engine_; }
  // The same for a call that needs no other rank; not inlined, because calls among several ranks took 25 instructions more.
  [[gnu::cold, gnu::noinline]] tutti::detail::engine<Transport>& engine_alone(std::source_location where) {
    expect_usable(where);
    return *engine_;
  }
  // Throws error: bad_argument if this communicator was moved from.
  void expect_usable(std::source_location where) const {
    if (!engine_) [[unlikely]]
      detail::refuse(detail::moved_from, {}, {}, where);
  }

  // A communicator of these ranks over `some`, with the tuning table of this one.
  communicator make_group(std::unique_ptr<Transport> some, std::vector<int> const& ranks) const {
    communicator out(std::move(some));
    detail::number_by(*out.engine_, detail::numbered_within(ranks, engine_->numbering));
    out.engine_->tuned = engine_->tuned;
    if constexpr (detail::has_levels<Transport>) out.engine_->levels->tune_by(engine_->tuned);
    return out;
  }

 private:
  friend detail::lasting_reference<Transport>;

  communicator(tutti::detail::engine<Transport>* shared, int rank, int size)
      : engine_(shared), rank_(rank), size_(size) {}

  // A forked child does not close its parent's.
  struct close {
    void operator()(tutti::detail::engine<Transport>* one) const noexcept {
      if (one->process.is_this()) delete one;
    }
  };

  std::unique_ptr<tutti::detail::engine<Transport>, close> engine_;
  int rank_, size_;
  std::vector<int> survivors_;
};

namespace detail {

template <class Comm>
inline constexpr bool is_communicator = false;
template <class Transport>
inline constexpr bool is_communicator<communicator<Transport>> = true;

}  // namespace detail

}  // namespace tutti
