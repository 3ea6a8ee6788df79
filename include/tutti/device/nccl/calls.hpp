// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that NCCL carries out for the ranks of a communicator: how the ranks begin together, meet before each call, and end the
// calls in flight when one of them is lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tutti/algorithm/one_shot.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_or_none.hpp"
#include "tutti/core/stoppable_thread.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/core/unwinding.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/nccl/flights.hpp"
#include "tutti/device/nccl/pair_sizes.hpp"
#include "tutti/device/nccl/team.hpp"
#include "tutti/started/meeting_call.hpp"

namespace tutti::detail {

// What messages about calls name in place of an algorithm. Ranks that meet for such a call send no data.
struct by_nccl {
  static constexpr std::string_view name = "NCCL";
};
template <collective C>
inline constexpr unlisted_algorithm nccl_algorithm{by_nccl::name, type_id<by_nccl>(),
                                                   dynamic_schedule::of<schedule<one_shot, C>>()};

// A thread looks at the calls in flight, because a stream cannot give up by itself. Where only the program's thread may ask the
// transport for news, as over MPI, it learns of losses from NCCL, and from that thread when it waits in tutti.
template <class D, transport Transport>
class nccl_calls {
 public:
  // All ranks create it together. Throws error, at all ranks: system, if NCCL does not serve one of them; the errors of all_gather.
  [[gnu::cold]] nccl_calls(communicator<Transport>& comm, D const& on, std::source_location where)
      : comm_{comm}, on_{on} {
    card mine{};
    all_or_none(comm, "use NCCL", where, [&] { mine = load(); });
    auto const all = exchange_cards(comm, mine, where);
    std::string why_not;
    all_or_none(comm, "use NCCL", where, [&] {
      if (std::ranges::any_of(all, [&](card const& other) { return other.version != all[0].version; }))
        refuse("ranks have different versions of it");
      nccl::result const joined = enter(all[0].id);
      if (joined == nccl::result::success) return;
      why_not = text_of(joined);
      team_.abort();
      // `remote` and `in_progress` are only symptoms, so such a rank reports in a second round: the rank with the cause is named.
      if (joined != nccl::result::remote && joined != nccl::result::in_progress) refuse(why_not);
    });
    all_or_none(comm, "use NCCL", where, [&] {
      if (!why_not.empty()) refuse(why_not);
    });
    watch_.start([this] { watch(); });
  }
  nccl_calls(nccl_calls const&) = delete;
  nccl_calls& operator=(nccl_calls const&) = delete;
  // All ranks destroy it together.
  ~nccl_calls() {
    if (unwinding_.begun()) give_up();
    else if (!over_) team_.leave(deadline::after(comm_.engine().environment.timeout));
    watch_.end();
  }
  // Ends the calls in flight of all ranks, because of an exception.
  [[gnu::cold]] void give_up() noexcept {
    std::unique_lock lock(guard_);
    bool const others_wait = !flights_.empty();
    abort();
    lock.unlock();
    if (others_wait) give_up_host_calls(comm_);
  }

  std::string version_text() const { return library_.version_text(); }

  // Makes the calls issue(functions, communicator, stream), once all ranks have come. Returns when they are on the stream. Throws
  // mismatch, timeout, rank_lost, rank_left and system, of this call or an earlier one.
  template <collective C, class Issue>
  void run(request const& what, std::string_view type, std::string_view op, device_options<D> const& how,
           std::source_location where, pair_sizes const& sizes, Issue const& issue) {
    expect_no_fault(where);
    auto const timeout = comm_.engine().timeout_for(how.timeout);
    call_names const names{type, op};
    call_terms terms{what, find_schedule_of<C>, timeout, where, &names};
    terms.asked.algorithm = algorithm_id::automatic;
    terms.asked.unlisted = &nccl_algorithm<C>;
    if (!alone()) {
      start_meeting(comm_, terms).wait();
      if (auto const f = sizes.find_difference(comm_, timeout, where)) raise(*f, where);
    }
    give_to_stream(name(C), timeout, how.stream, where, issue);
  }

  // The same for a call `what` to which all ranks that take part have come.
  template <class Issue>
  void give_to_stream(std::string_view what, std::chrono::nanoseconds timeout, stream_of<D> stream,
                      std::source_location where, Issue const& issue) {
    try {
      nccl_flights<D> fresh;
      if (!on_.capturing(stream)) fresh.emplace_back(on_, what, timeout);  // the host does not see when a graph runs
      for (auto const& f : fresh) f.begun.record(stream);
      give(what, timeout, where, [&](auto const& api, auto* comm) { return issue(api, comm, on_.lend(stream)); });
      for (auto const& f : fresh) f.ended.record(stream);
      std::lock_guard const lock(guard_);
      flights_.splice(flights_.end(), fresh);
    } catch (...) {  // the others are in the call
      give_up_host_calls(comm_);
      throw;
    }
  }

  // Throws a fault of all ranks. Any thread may ask; whoever waits for a stream does.
  void expect_no_fault(std::source_location where) {
    bool const may_ask = may_ask_transport();
    if (may_ask) {
      if constexpr (queries_peers<Transport>) {
        static_cast<void>(comm_.engine().poll_fault());
        if (int const q = find_lost(); q >= 0) comm_.engine().raise(loss_of(q), where);
      }
      comm_.engine().expect_no_fault_anywhere(where);
      if constexpr (has_levels<Transport>)
        if (auto* const node = comm_.engine().levels->only_node()) node->engine().expect_no_fault_anywhere(where);
    }
    if (!over_) return;
    fault found{error_code::rank_left, comm_.rank(), -1, "another rank has ended the calls by NCCL"};
    {
      std::lock_guard const lock(guard_);
      if (found_) found = *found_;
    }
    if (may_ask) raise(found, where);
    throw error({found.code, comm_.rank(), found.peer, found.text, "see other ranks", where});
  }

  [[noreturn, gnu::cold]] void raise(fault const& f, std::source_location where) {
    if (!alone()) comm_.engine().raise(f, where);
    throw error({f.code, comm_.rank(), f.peer, f.text, "NCCL_DEBUG=WARN tells more", where});
  }

 private:
  static constexpr std::chrono::milliseconds look_every{10};
  // A rank whose NCCL reports an error waits this long for the host to tell which rank is lost.
  static constexpr std::chrono::seconds grace{1};

  struct card {
    int version;
    nccl::unique_id id;  // of rank 0
  };

  [[gnu::cold]] card load() {
    if (comm_.size() > max_ranks) refuse(join({"there are more than ", max_ranks, " ranks"}));
    library_ = nccl::library::load();
    card out{library_.version, {}};
    if (comm_.rank() != 0) return out;
    nccl::result const made = on_.while_current([&] { return library_.api.get_unique_id(&out.id); });
    if (made != nccl::result::success) refuse(library_.text_of(made, nullptr));
    return out;
  }
  [[gnu::cold]] nccl::result enter(nccl::unique_id const& id) {
    // Half of the timeout: ranks that have failed already wait for this one in `all_or_none`, and must not time out there.
    auto const limit = comm_.engine().environment.timeout / 2;
    nccl::result const begun = on_.while_current([&] { return team_.join(library_, id, comm_.size(), comm_.rank()); });
    if (begun != nccl::result::success && begun != nccl::result::in_progress) return begun;
    return settle(deadline::after(limit), [&] {
      if (find_lost() >= 0) refuse("a rank is lost");
    });
  }
  [[noreturn]] static void refuse(std::string const& why) {
    throw error({.code = error_code::system, .what = why, .way_out = "NCCL_DEBUG=WARN tells more"});
  }

  std::string text_of(nccl::result r) {
    return r == nccl::result::in_progress ? "NCCL did not begin in time" : team_.text_of(r);
  }
  // Polls NCCL until it is idle or has an error. meanwhile() may throw.
  template <class Meanwhile>
  nccl::result settle(deadline until, Meanwhile const& meanwhile) {
    nccl::result out{};
    wait_until_done(
        [&] {
          out = team_.state();
          return out == nccl::result::in_progress ? progress::stuck : progress::done;
        },
        patience_sharing_cores, until,
        [&](auto const&) {
          meanwhile();
          std::this_thread::sleep_for(std::chrono::microseconds(50));
        });
    return out;
  }

  template <class F>
  void give(std::string_view what, std::chrono::nanoseconds timeout, std::source_location where, F const& calls) {
    nccl::result state = on_.while_current([&] { return team_.give(calls); });
    if (state == nccl::result::in_progress) state = settle(deadline::after(timeout), [&] { expect_no_fault(where); });
    if (state == nccl::result::success) return;
    expect_no_fault(where);
    raise({error_code::system, comm_.rank(), comm_.rank(),
           join({what, " of rank ", comm_.rank(), " could not begin: ", text_of(state)})},
          where);
  }

  bool alone() const { return comm_.size() == 1; }
  bool may_ask_transport() const { return comm_.engine().any_thread || std::this_thread::get_id() == thread_; }
  // A rank whose process has ended before it left; -1 if none is known.
  int find_lost() {
    auto& transport = comm_.engine().transport();
    for (int q = 0; q < comm_.size(); ++q)
      if (q != comm_.rank() && transport.lost(q) && !transport.left(q)) return q;
    return -1;
  }
  fault loss_of(int q) {
    return {error_code::rank_lost, comm_.rank(), q,
            join({comm_.engine().states().departure(error_code::rank_lost, q), ", while rank ", comm_.rank(),
                  " communicates with it by NCCL"})};
  }
  bool has_fault() {
    auto& engine = comm_.engine();
    if (engine.has_fault()) return true;
    if constexpr (has_levels<Transport>)
      if (auto* const node = engine.levels->only_node(); node && node->engine().has_fault()) return true;
    if constexpr (queries_peers<Transport>) return false;
    else return engine.fault_outside && engine.fault_outside();
  }

  void watch() {
    for (running_clock::rest rest; !over_ && watch_.rest(look_every); rest.end()) {
      std::lock_guard const lock(guard_);
      try {
        look();
      } catch (error const& e) {
        end({e.code(), comm_.rank(), comm_.rank(), e.happened()});
      }
    }
  }
  void look() {
    if (has_fault()) return abort();
    if constexpr (!queries_peers<Transport>)
      if (int const q = find_lost(); q >= 0) return end(loss_of(q));
    auto const state = team_.state();
    if (state != nccl::result::success && state != nccl::result::in_progress) {
      if (!broken_) broken_ = deadline::after(grace);
      if (broken_->passed())
        end({error_code::system, comm_.rank(), -1, join({"on rank ", comm_.rank(), ", ", team_.text_of(state)})});
      return;
    }
    if (auto const* const late = find_overdue(flights_))
      end({error_code::timeout, comm_.rank(), -1, late->text_if_overdue(comm_.rank())});
  }
  // Ends all calls in flight with a fault that this rank has found.
  [[gnu::cold]] void end(fault f) {
    found_ = std::move(f);
    abort();
    if constexpr (!queries_peers<Transport>) {
      if (alone()) return;
      comm_.engine().notices().raise(*found_);
      comm_.engine().transport().wake_all();
    }
  }
  [[gnu::cold]] void abort() noexcept {
    over_ = true;
    flights_.clear();
    team_.abort();
  }

  communicator<Transport>& comm_;
  D const& on_;
  std::thread::id const thread_ = std::this_thread::get_id();
  nccl::library library_;
  nccl::team team_;
  std::mutex guard_;
  nccl_flights<D> flights_;         // calls that have not ended, as far as the watch has seen
  std::optional<deadline> broken_;  // since NCCL has reported an error
  std::optional<fault> found_;
  std::atomic<bool> over_ = false;
  unwinding unwinding_;
  stoppable_thread watch_;  // the last member: it uses all others
};

}  // namespace tutti::detail
