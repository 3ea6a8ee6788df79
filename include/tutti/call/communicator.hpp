// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A group of ranks that call collectives together.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/count_list.hpp"
#include "tutti/call/engine.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti {

// An array that peers can read in place: what communicator::allocate returns. A contiguous range; movable; gives its
// memory back when it goes, which must be before its communicator does.
template <element T, transport Transport>
class shared_array {
 public:
  shared_array(detail::engine<Transport>& owner, std::size_t count) : owner_(&owner), size_(count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    data_ = reinterpret_cast<T*>(owner.transport().allocate(bytes()));
    std::uninitialized_value_construct_n(data_, size_);
  }
  shared_array(shared_array&& other) noexcept
      : owner_(other.owner_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  shared_array& operator=(shared_array&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~shared_array() {
    if (data_ != nullptr) owner_->transport().deallocate(reinterpret_cast<std::byte*>(data_), bytes());
  }

  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  std::size_t bytes() const { return size_ * sizeof(T); }

  detail::engine<Transport>* owner_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail {

template <class Comm>
consteval void refuse_const_communicator() {
  static_assert(never<Comm>,
                "this communicator is const, and every call changes its communicator; pass one that is not");
}

[[noreturn, gnu::cold]] inline void refuse(int rank, std::string const& what, std::string const& way_out,
                                           std::source_location where) {
  throw error({.code = error_code::bad_argument, .rank = rank, .what = what, .way_out = way_out, .where = where});
}

[[gnu::cold]] inline void check_members(std::vector<int> const& members, int rank, int ranks,
                                        std::source_location where) {
  for (auto m = members.begin(); m != members.end(); ++m) {
    if (*m < 0 || *m >= ranks)
      refuse(rank, join({"a group lists rank ", *m, " of a communicator of ", ranks}),
             join({"use ranks from 0 to ", ranks - 1}), where);
    if (std::find(members.begin(), m, *m) != m)
      refuse(rank, join({"a group lists rank ", *m, " twice"}), "list every rank once", where);
  }
  if (std::ranges::find(members, rank) == members.end())
    refuse(rank, join({"rank ", rank, " makes a group that does not list it: {", list_of(members), "}"}),
           "let the ranks that are listed make it, and no others", where);
}

}  // namespace detail

// What ranks have agreed on.
struct agreement {
  int flags;              // of all that came, bitwise and
  std::vector<int> gone;  // have ended or closed their communicator
};

// What a rank passes to split to be in no group.
inline constexpr int no_color = -1;

class shm;

// Every rank has one; communicator<> is that of tutti::init(). All ranks call the same collectives on it in the same order; a rank calls from one thread at a time.
// After an error of a collective (mismatch, timeout, a rank lost or left) every further call throws that error.
template <transport Transport = shm>
class communicator {
 public:
  using transport_type = Transport;

  explicit communicator(std::unique_ptr<Transport> transport)
      : engine_(std::make_unique<tutti::detail::engine<Transport>>(std::move(transport))) {}

  int rank() const noexcept { return engine_->rank(); }
  int size() const noexcept { return engine_->ranks(); }
  bool is_main() const noexcept { return rank() == 0; }

  // This rank among those of the communicator that are on its machine, in rank order, and how many these are.
  int local_rank() const noexcept {
    if constexpr (detail::spans_machines<Transport>) return engine_->transport().local_rank();
    else return rank();
  }
  int local_size() const noexcept {
    if constexpr (detail::spans_machines<Transport>) return engine_->transport().local_ranks();
    else return size();
  }

  // Calls f() on rank 0 alone, for what is to be said or written once. Nothing is sent and nobody waits: the others go on.
  // Where f returns a value, rank 0 gets it and the others get nothing; tutti::broadcast brings it to them.
  //
  //   comm.main_only([&] { std::printf("loss %g\n", loss); });
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

  // Memory for `count` elements, zeroed, that the other ranks can read in place: the fastest buffers for large messages
  // (protocol direct). This rank alone calls it. Throws std::bad_alloc.
  template <element T>
  shared_array<T, Transport> allocate(std::size_t count) const {
    static_assert(alignof(T) <= detail::page);
    return {*engine_, count};
  }

  // A communicator of the ranks that pass the same color, which all ranks call; ordered by key, and by rank where keys are
  // equal. None for a rank that passes no_color, or any negative number. See MPI-4.1, 7.4.2. Defined in
  // collective/split.hpp.
  // Throws error as all_gather and subgroup do.
  //
  //   auto row = comm.split(comm.rank() / 4).value();
  //   if (auto io = comm.split(writes ? 0 : tutti::no_color)) write(*io);
  std::optional<communicator> split(int color, int key = 0,
                                    std::source_location where = std::source_location::current())
    requires detail::divisible<Transport>;

  // A communicator of these ranks, in this order: ranks[i] is rank i of it. These ranks alone call it, each with the same
  // list, and it returns when all of them have. Groups may overlap; ranks that make several must not wait for each other in
  // a circle, which one order everywhere excludes. See MPI-4.1, 7.4.2 (MPI_Comm_create_group).
  //
  // It is a communicator like any other: it has its own memory and faults and the tuning table of this one, which it may
  // outlive. Where this one has a fault, it can still be made: ranks that are left when one was lost go on in a group.
  // Throws error: bad_argument for a rank that does not exist, is listed twice, or for a list without this rank; timeout
  // (TUTTI_TIMEOUT) with those that did not come; rank_lost where one of them has ended or closed its communicator; system.
  //
  //   if (comm.rank() % 2 == 0) auto even = comm.subgroup({0, 2, 4, 6});
  communicator subgroup(std::vector<int> const& ranks,
                        std::source_location where = std::source_location::current()) const
    requires detail::divisible<Transport>
  {
    detail::check_members(ranks, rank(), size(), where);
    try {
      return of_this(engine_->transport().subgroup(ranks, detail::deadline::after(engine_->environment.timeout)));
    } catch (error const& e) {
      throw e.in_call(where);
    }
  }

  // Writes <prefix>.<rank>.json (of a group: <prefix>.<rank>-<number>.json, where the rank is that of this thread's first
  // communicator): the last 64 calls of this rank, where in the program they were made and whether they have ended, and what
  // this rank knows of its peers' last calls. tutti-record reads these files. Where all ranks of a tutti::hierarchical are on
  // one node, they make their calls over its memory, and those over MPI (native, two_level) have a record of their own,
  // <prefix>.<rank>-<number>.json.
  // Throws error: bad_argument where it cannot be written.
  void write_record(std::string const& prefix, std::string const& reason = "asked for by the program") const {
    engine_->write_record(prefix, reason);
  }
  // This rank's calls of a collective that have ended, where TUTTI_STATISTICS=1 or TUTTI_TRACE was set when this was made.
  call_statistics statistics(collective what) const { return engine_->statistics(what); }

  // -- When something went wrong: defined in call/survive.hpp, and named as by ULFM (MPI_Comm_revoke, _agree, _shrink).

  // Ends all calls of all ranks on this communicator, running, started or later, with error: revoked, which names this rank
  // and the reason. This rank alone calls it, and it waits for nobody: ranks that compute learn it in their next call. Where
  // there is a fault already, that stays. Agreements and groups can still be made.
  //
  //   if (diverged(loss)) comm.revoke("the loss is not a number");
  void revoke(std::string_view reason);

  // Ends the job: revokes the communicator, says why on stderr and ends this process at once with this exit code. Output is
  // flushed; destructors and exit handlers, which could wait for ranks that are gone, do not run. Ranks that wait in a call
  // throw revoked, so do others in their next call, and launchers end them when they see the exit code. Over MPI the
  // processes are ended by MPI_Abort. Ranks that are threads end with their process.
  //
  //   if (!save(checkpoint)) comm.abort("the disk is full");
  [[noreturn]] void abort(std::string_view reason, int exit_code = 1);

  // All ranks that are left get the same: the bitwise and of the flags of those that came, and which ranks have ended or
  // closed this communicator. Ranks may be killed in the middle of it, and the communicator may have a fault; calls that
  // were started go on beside it. All that are left call it, and shrink, in the same order.
  // Throws error, the same at all: timeout (TUTTI_TIMEOUT) with the ranks that are there and did not come, mismatch where
  // some shrink; bad_argument over an MPI without fault tolerance, on several nodes too: it cannot tell who is left. Over
  // MPI a rank that stands still in the middle of it for as long as the time limit may get another outcome.
  //
  //   bool const all_saved = comm.agree(saved ? 1 : 0).flags != 0;
  agreement agree(int flags = ~0, std::source_location where = std::source_location::current());

  // A communicator of the ranks that are left, in the order of their ranks, once they have agreed on who these are. All that
  // are left call it; those in a call on this communicator are ended first (rank_lost or rank_left with the rank that is
  // gone, else revoked). Ranks that end meanwhile are left out too. After it this communicator is closed at this rank, and
  // its calls throw revoked; memory from allocate stays until it goes.
  // Throws error as agree and subgroup do. Where it throws at one rank it throws at all, and can be tried again.
  //
  //   try { train(comm); } catch (tutti::error const& e) {
  //     if (e.code() != tutti::error_code::rank_lost) throw;
  //     comm = comm.shrink();
  //     resume(comm, comm.survivors());
  //   }
  communicator shrink(std::source_location where = std::source_location::current())
    requires detail::divisible<Transport>;

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

  // Of a communicator that shrink made: the ranks that its own have had before, by their new ones. Empty for any other.
  std::vector<int> const& survivors() const noexcept { return survivors_; }

  // For the collectives.
  tutti::detail::engine<Transport>& engine() noexcept { return *engine_; }

  // A communicator of some of its ranks, which has its tuning table.
  communicator of_this(std::unique_ptr<Transport> some) const {
    communicator out(std::move(some));
    out.engine_->tuned = engine_->tuned;
    if constexpr (detail::has_levels<Transport>) out.engine_->levels->tune_by(engine_->tuned);
    return out;
  }

 private:
  std::vector<int> survivors_;
  std::unique_ptr<tutti::detail::engine<Transport>> engine_;
};

namespace detail {

template <class Comm>
inline constexpr bool is_communicator = false;
template <class Transport>
inline constexpr bool is_communicator<communicator<Transport>> = true;

}  // namespace detail

}  // namespace tutti
