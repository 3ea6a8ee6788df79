// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call of the program: whether tutti carries it out, with the same answer on all ranks of the communicator, and how
// it ends.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "binding.hpp"
#include "datatypes.hpp"
#include "decision.hpp"
#include "errors.hpp"
#include "messages.hpp"
#include "notice.hpp"
#include "requests.hpp"
#include "statistics.hpp"
#include "user_reduction.hpp"

namespace interpose {

class call {
 public:
  call(function what, MPI_Comm comm, bool may_wait)
      : what_(what),
        comm_(comm),
        bound_(find_binding(comm, may_wait)),
        why_(bound_ != nullptr ? bound_->why : reason::not_started),
        may_wait_(may_wait) {}

  // An invalid argument, which the MPI reports to the program in its own way.
  void expect(bool right) {
    if (!right) pass_for(reason::bad_argument);
  }
  void expect(int count, MPI_Datatype type) {
    type_ = type;
    count_ = count;
    expect(count >= 0 && (passes() || is_usable(type)));
  }
  // A buffer for which MPI_IN_PLACE cannot stand. MPICH does not refuse it everywhere, and would wait for the others.
  void expect_memory(void const* buffer) {
#if defined(MPICH_VERSION)
    if (buffer == MPI_IN_PLACE) pass_for(reason::in_place);
#else
    expect(buffer != MPI_IN_PLACE);
#endif
  }
  // MPICH refuses one buffer as input and output; Open MPI and tutti accept it where they can.
  void expect_apart([[maybe_unused]] void const* in, [[maybe_unused]] void const* out, [[maybe_unused]] bool any) {
#if defined(MPICH_VERSION)
    if (any && in == out && in != nullptr && in != MPI_IN_PLACE) pass_for(reason::same_buffer);
#endif
  }
  void expect_root(int root) { expect(passes() || (root >= 0 && root < ranks())); }
  void pass_for(reason why) {
    if (why_ == reason::none) why_ = why;
  }

  bool passes() const { return why_ != reason::none; }
  int rank() const { return bound_->ranks->rank(); }
  int ranks() const { return bound_->ranks->size(); }
  MPI_Comm comm() const { return comm_; }

 protected:
  // Not left to the MPI, which would wait for the others if it did not refuse the call.
  bool refused() const { return why_ == reason::same_buffer || why_ == reason::in_place || why_ == reason::broken; }
  int refuse() const { return fail(why_ == reason::broken ? bound_->failed->code() : MPI_ERR_BUFFER); }
  int fail(int code) const {
    PMPI_Comm_call_errhandler(comm_, code);
    return code;
  }
  void count_passed() const { counted.passed(what_, why_); }
  // `bytes`: of this rank's part.
  void count_run(std::size_t bytes) const { counted.ran(what_, bytes); }
  // Called before the MPI makes the call. What decides about that may differ between ranks of an erroneous program, and then some would
  // wait in tutti and others in the MPI, for ever: so they tell each other, first if they may wait. Returns the error if they differ, or
  // differed earlier.
  int announce_if_ranks_may_differ() const {
    bool const may = why_ == reason::whole_vectors || why_ == reason::operation || why_ == reason::gaps ||
                     why_ == reason::own_operation;
    return may && ranks() > 1 ? announce() : MPI_SUCCESS;
  }
  // What the MPI has returned.
  int noted(int code) const {
    if (code != MPI_SUCCESS && why_ == reason::first_calls) [[unlikely]]
      uncount(*bound_, code, others_end());
    return code;
  }
  // Calls work(communicator).
  template <class Work>
  int attempt(Work&& work) const {
    ++bound_->calls;
    if (int const earlier = bound_->failed->code(); earlier != MPI_SUCCESS) [[unlikely]]
      return fail(earlier);
    try {
      std::unique_lock const lock =
          threads_call_at_once() ? std::unique_lock(bound_->serial) : std::unique_lock<std::mutex>();
      work(*bound_->ranks);
      return MPI_SUCCESS;
    } catch (std::exception const& e) {
      return end_by(e);
    }
  }
  std::shared_ptr<failure> const& failed() const { return bound_->failed; }
  // Of a call that has waited long: which ranks have not made it.
  [[gnu::cold]] static std::string describe_wait(void const* waiting, int seconds);
  std::string_view name() const { return function_names[what_]; }

 private:
  int announce() const;
  // Whether ranks other than the root need not wait for it.
  bool others_end() const {
    return what_ == function::gather || what_ == function::gatherv || what_ == function::reduce ||
           what_ == function::igather || what_ == function::igatherv || what_ == function::ireduce;
  }
  // Reports an error of tutti, and lets the MPI make all further calls if that is possible.
  [[gnu::cold]] int end_by(std::exception const& e) const;
  std::string describe() const { return describe_call(name(), type_, comm_); }
  // Whether all ranks have failed in the same call, and so will make the same one next.
  [[gnu::cold]] bool all_failed_here() const;

  function what_;
  MPI_Comm comm_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;  // for errors, with the count
  int count_ = 0;
  binding* bound_;
  reason why_;
  bool may_wait_;
};

// A call that ends before it returns. `Function`: the MPI's.
template <class Function>
class blocking : public call {
 public:
  static constexpr bool returns_early = false;

  blocking(function what, MPI_Comm comm, Function* mpi) : call(what, comm, true), mpi_(mpi) {}

  template <class... Arguments>
  int pass(Arguments... arguments) const {
    count_passed();
    if (refused()) return refuse();
    if (int const code = announce_if_ranks_may_differ(); code != MPI_SUCCESS) return code;
    return noted(mpi_(arguments...));
  }
  // Calls work(communicator, kept) to make the call.
  template <class Work>
  int run(Work&& work) const {
    return attempt([&](communicator& ranks) {
      long_wait const noticed(&describe_wait, static_cast<call const*>(this));
      keepsakes kept;
      work(ranks, kept);
      kept.deliver();
      owe_progress();
      count_run(kept.bytes);
    });
  }

 private:
  Function* mpi_;
};

// A call that returns a request.
template <class Function>
class starting : public call {
 public:
  static constexpr bool returns_early = true;

  starting(function what, MPI_Comm comm, Function* mpi, MPI_Request* request)
      : call(what, comm, false), mpi_(mpi), request_(request) {
    expect(request != nullptr);
  }

  template <class... Arguments>
  int pass(Arguments... arguments) const {
    count_passed();
    if (refused()) return refuse();
    if (int const code = announce_if_ranks_may_differ(); code != MPI_SUCCESS) return code;
    return noted(mpi_(arguments..., request_));
  }
  template <class Work>
  int run(Work&& work) const {
    *request_ = MPI_REQUEST_NULL;  // if it fails
    return attempt([&](communicator& ranks) {
      auto started = std::make_unique<pending>();
      started->function = name();
      started->failed = failed();
      asynchronous later = tutti::async(ranks);
      started->work = work(later, *started->kept);
      std::size_t const bytes = started->kept->bytes;
      *request_ = add(std::move(started));
      count_run(bytes);
    });
  }

 private:
  Function* mpi_;
  MPI_Request* request_;
};

// How the elements of a reduction are combined. The standard requires the same count, type and operation on all ranks.
class reduction {
 public:
  // Decides it, with the decision of `c`.
  template <class Call>
  reduction(Call& c, int count, MPI_Datatype type, MPI_Op op) : type_(type), op_(op) {
    c.expect(count, type);
    c.expect(op != MPI_OP_NULL);
    if (c.passes()) return;
    reason const why = decide();
    c.pass_for(why == reason::none && how_.run == nullptr && Call::returns_early ? reason::own_operation : why);
  }
  // An operation that does not commute sees whole vectors in every MPI, however long they are.
  template <class Call>
  void expect_whole(Call& c, int count) const {
    if (c.passes() || how_.run != nullptr) return;
    bool const splits = user_reduction::splits(static_cast<std::size_t>(count) * element_bytes_, c.ranks());
    if (splits && !commutes(op_)) c.pass_for(reason::whole_vectors);
  }

  // `count` elements of the program's memory.
  input read(void const* in, void const* in_place, std::size_t count) const {
    return {static_cast<std::byte const*>(in == MPI_IN_PLACE ? in_place : in), count * element_bytes_};
  }
  output write(void* out, std::size_t count) const { return {static_cast<std::byte*>(out), count * element_bytes_}; }
  std::size_t element_bytes() const { return element_bytes_; }

  // Calls work(ranks, how) if the operation is predefined, else work(user_reduction).
  template <class Call, class Work>
  int run(Call& c, std::size_t bytes, Work&& work) const {
    return c.run([&]<class Comm>(Comm& ranks, keepsakes& kept) {
      kept.bytes = bytes;
      if constexpr (!Call::returns_early) {
        if (how_.run == nullptr) {
          user_reduction own(ranks, op_, type_, element_bytes_);
          return work(own, kept);
        }
      }
      predefined<Comm> own{ranks, how_};
      return work(own, kept);
    });
  }

 private:
  template <class Comm>
  struct predefined {
    Comm& ranks;
    combination const& how;

    auto all_reduce(input in, output out) const { return interpose::all_reduce(ranks, how, in, out); }
    auto reduce(input in, output out, int root) const { return interpose::reduce(ranks, how, in, out, root); }
    auto reduce_scatter(input in, output out, sizes counts) const {
      if (std::ranges::adjacent_find(counts, std::ranges::not_equal_to{}) == counts.end())
        return interpose::reduce_scatter(ranks, how, in, out);
      return reduce_scatter_v(ranks, how, in, out, counts);
    }
    auto scan(input in, output out) const { return interpose::scan(ranks, how, in, out); }
    auto exclusive_scan(input in, output out) const { return interpose::exclusive_scan(ranks, how, in, out); }
  };

  // Finds the operation on the type.
  reason decide();
  static bool commutes(MPI_Op op);

  MPI_Datatype type_;
  MPI_Op op_;
  combination how_;
  std::size_t element_bytes_ = 0;
};

}  // namespace interpose
