// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of random kinds, sizes and types on random groups: blocking, started, prepared and in batches, with
// continuations, many in flight at once, mixed with messages between two ranks. Each result is compared with that of a
// single rank. A test chooses their number, or TUTTI_TEST_OPERATIONS.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/conformance.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"

namespace tutti::testing {

// For make_shared, which does not deduce template arguments.
template <class Comm>
using batch_of = decltype(batch(std::declval<Comm&>()));

template <class Comm>
class stress {
 public:
  // Equal seeds on all ranks give equal operations; each rank chooses the order in which it waits.
  stress(Comm& comm, unsigned seed) : shared_(seed), own_(seed + 1 + static_cast<unsigned>(comm.rank())) {
    groups_.push_back({&comm, {}, {}});
    for (int g = 0; g < 4; ++g) {
      Comm made =
          comm.split(static_cast<int>(shared_() % 2) * (comm.rank() % (g + 2)), g % 2 == 0 ? 0 : -comm.rank()).value();
      groups_.push_back({nullptr, std::make_unique<Comm>(std::move(made)), {}});
    }
    for (group_of_ranks& g : groups_) {
      if (g.made) g.comm = g.made.get();
      g.members.resize(static_cast<std::size_t>(g.comm->size()));
      int const rank = comm.rank();
      all_gather(*g.comm, std::span(&rank, 1), g.members);
    }
  }

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      // each type is compiled with every collective: one operation that commutes and one that does not
      switch (shared_() % 9) {
        case 0:
        case 1: any_operation<std::int16_t>(max{}); break;
        case 2:
        case 3:
        case 4: any_operation<affine>(compose{}); break;
        case 5: any_message<double>(); break;
        case 6:
        case 7: any_ragged<affine>(compose{}); break;
        default: any_batch<double>(); break;
      }
      while (in_flight_.size() > 40) finish_one();
      if (own_() % 3 == 0 && !in_flight_.empty()) finish_one();
    }
    while (!in_flight_.empty()) finish_one();
  }

 private:
  struct group_of_ranks {
    Comm* comm;
    std::unique_ptr<Comm> made;
    std::vector<int> members;
  };

  struct pending {
    work call;
    std::function<void()> check;
  };

  std::size_t pick(std::size_t below) { return shared_() % below; }
  std::size_t any_count() {
    std::size_t const most = std::array<std::size_t, 8>{8, 8, 8, 100, 100, 600, 5000, 20000}[pick(8)];
    return pick(most);
  }

  template <class T>
  struct memory {
    std::vector<T> in, out;
  };
  // An array whose element i has the value at(i).
  template <class T, class At>
  static void fill(std::vector<T>& data, std::size_t count, At&& at) {
    data.resize(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = at(i);
  }
  // op over these ranks, in their order.
  template <class Value, class Op>
  static auto fold(Value const& value, Op const& op, std::size_t i, int first, int last) {
    auto all = value(first, i);
    for (int q = first + 1; q < last; ++q) all = static_cast<decltype(all)>(op(all, value(q, i)));
    return all;
  }
  template <class T, class Expected>
  static void compare(std::vector<T> const& out, std::string const& what, Expected&& expected) {
    for (std::size_t i = 0; i < out.size(); ++i)  // a message for each would take longer than the calls
      if (!same_bits(out[i], expected(i)))
        throw std::runtime_error("wrong element " + std::to_string(i) + " in " + what);
  }

  // Makes a call, call(comm), in any of the ways to make one; check() runs after it. The call may be made twice.
  template <class Call, class Check>
  void make(Comm& comm, Call const& call, Check&& check) {
    switch (pick(8)) {
      case 0:
      case 1:
        call(comm);
        check();
        break;
      case 2: {
        persistent operation = call(prepared(comm));
        operation.start();
        operation.wait();
        check();
        operation.start();
        in_flight_.push_back({operation, std::move(check)});
        break;
      }
      case 3: {
        auto const followed = std::make_shared<int>(0);
        work first = call(async(comm));
        work next = first.then([=] { ++*followed; });
        in_flight_.push_back({next, [=, check = std::move(check)] {
                                expect(*followed == 1, "what follows a call has not run once");
                                check();
                              }});
        break;
      }
      default: in_flight_.push_back({call(async(comm)), std::move(check)});
    }
  }

  template <class T, class Op>
  void any_operation(Op const& op) {
    group_of_ranks& g = groups_[pick(groups_.size())];
    auto const c = every_collective[pick(every_collective.size())];
    std::size_t const count = any_count();
    auto const ranks = static_cast<std::size_t>(g.comm->size());
    int const root = static_cast<int>(pick(64)) % g.comm->size(), self = g.comm->rank();
    auto const m = std::make_shared<memory<T>>();
    int const salt = static_cast<int>(pick(1000));
    auto const value = [salt](int rank, std::size_t i) { return make_value<T>(rank + salt, i); };
    fill(m->in, count * (deals(c) ? ranks : 1), [&](std::size_t i) { return value(self, i); });
    m->out.resize(count * (collects(c) ? ranks : 1));
    if (c == collective::broadcast) m->out = m->in;

    std::string const what = std::string(name(c)) + " of " + std::to_string(count) + " by rank " +
                             std::to_string(self) + " of " + std::to_string(ranks);
    make(
        *g.comm,
        [=](auto&& comm) {
          switch (c) {
            case collective::all_reduce: return all_reduce(comm, m->in, m->out, op);
            case collective::reduce: return reduce(comm, m->in, m->out, op, root);
            case collective::scan: return scan(comm, m->in, m->out, op);
            case collective::exclusive_scan: return exclusive_scan(comm, m->in, m->out, op);
            case collective::reduce_scatter: return reduce_scatter(comm, m->in, m->out, op);
            case collective::broadcast: return broadcast(comm, m->out, root);
            case collective::all_gather: return all_gather(comm, m->in, m->out);
            case collective::gather: return gather(comm, m->in, m->out, root);
            case collective::scatter: return scatter(comm, m->in, m->out, root);
            case collective::all_to_all: return all_to_all(comm, m->in, m->out);
            case collective::barrier: break;
          }
          return barrier(comm);
        },
        [=] {
          auto const me = static_cast<std::size_t>(self);
          bool const to_root = c == collective::reduce || c == collective::gather;
          if ((to_root && self != root) || (c == collective::exclusive_scan && self == 0)) return;
          compare(m->out, what, [&](std::size_t i) {
            switch (c) {
              case collective::scan: return fold(value, op, i, 0, self + 1);
              case collective::exclusive_scan: return fold(value, op, i, 0, self);
              case collective::reduce_scatter: return fold(value, op, me * count + i, 0, int(ranks));
              case collective::broadcast: return value(root, i);
              case collective::gather:
              case collective::all_gather: return value(int(i / count), i % count);
              case collective::scatter: return value(root, me * count + i);
              case collective::all_to_all: return value(int(i / count), me * count + i % count);
              case collective::barrier: return m->out[i];
              case collective::reduce:
              case collective::all_reduce: break;
            }
            return fold(value, op, i, 0, int(ranks));
          });
        });
  }

  // The _v forms; blocks of the same rank have the same size.
  template <class T, class Op>
  void any_ragged(Op const& op) {
    group_of_ranks& g = groups_[pick(groups_.size())];
    int const ranks = g.comm->size(), self = g.comm->rank(), root = static_cast<int>(pick(64)) % ranks;
    std::size_t const kind = pick(5), count = any_count() / 4, me = static_cast<std::size_t>(self);
    int const salt = static_cast<int>(pick(1000));
    auto const value = [salt](int rank, std::size_t i) { return make_value<T>(rank + salt, i); };
    std::vector<std::size_t> counts, at;
    std::size_t all = 0;
    for (int q = 0; q < ranks; ++q) {
      at.push_back(all);
      counts.push_back(count * static_cast<std::size_t>((q + salt) % 3) + static_cast<std::size_t>(q % 5));
      all += counts.back();
    }
    std::vector<std::size_t> const own(counts.size(), counts[me]);
    auto const m = std::make_shared<memory<T>>();
    auto const mine = [&](std::size_t i) { return value(self, i); };
    enum { scatters_sum, gathers_all, gathers, scatters, exchanges };
    bool const splits = kind == scatters_sum || kind == scatters || kind == exchanges;
    fill(m->in, splits ? all : counts[me], mine);
    m->out.resize(kind == gathers_all || kind == gathers ? all
                  : kind == exchanges                    ? own.size() * counts[me]
                                                         : counts[me]);
    make(
        *g.comm,
        [=](auto&& comm) {
          switch (kind) {
            case scatters_sum: return reduce_scatter_v(comm, m->in, m->out, counts, op);
            case gathers_all: return all_gather_v(comm, m->in, m->out, counts);
            case gathers: return gather_v(comm, m->in, m->out, counts, {}, root);
            case scatters: return scatter_v(comm, m->in, counts, m->out, {}, root);
            default: return all_to_all_v(comm, m->in, counts, m->out, own);
          }
        },
        [=] {
          if (kind == gathers && self != root) return;
          std::string const what = "_v form " + std::to_string(kind) + " with " + std::to_string(count) + " by rank " +
                                   std::to_string(self) + " of " + std::to_string(ranks);
          compare(m->out, what, [&](std::size_t i) {
            if (kind == scatters_sum) return fold(value, op, at[me] + i, 0, ranks);
            if (kind == scatters) return value(root, at[me] + i);
            if (kind == exchanges) return value(int(i / counts[me]), at[me] + i % counts[me]);
            auto const q = static_cast<std::size_t>(std::ranges::upper_bound(at, i) - at.begin()) - 1;
            return value(int(q), i - at[q]);
          });
        });
  }

  // Sums that share calls, a broadcast, and messages around the ring, run at once or only started.
  template <class T>
  void any_batch() {
    group_of_ranks& g = groups_[pick(groups_.size())];
    int const ranks = g.comm->size(), self = g.comm->rank(), tag = ++messages_;
    int const right = (self + 1) % ranks, left = (self + ranks - 1) % ranks;
    std::vector<std::size_t> counts(1 + pick(5));
    for (std::size_t& n : counts) n = any_count();
    auto const all = std::make_shared<batch_of<Comm>>(*g.comm);
    auto const m = std::make_shared<std::vector<memory<T>>>(counts.size() + 2);
    auto const value = [tag](int rank, std::size_t i) { return make_value<T>(rank + tag % 1000, i); };
    auto const mine = [&](std::size_t i) { return value(self, i); };
    for (std::size_t k = 0; k < counts.size(); ++k) {
      fill((*m)[k].in, counts[k], mine);
      (*m)[k].out.resize(counts[k]);
      all_reduce(*all, (*m)[k].in, (*m)[k].out);
    }
    memory<T>&told = (*m)[counts.size()], &passed = m->back();
    fill(told.out, counts[0], mine);
    broadcast(*all, told.out, ranks - 1);
    fill(passed.in, counts[0], mine);
    passed.out.resize(counts[0]);
    all->send(passed.in, right, tag).recv(passed.out, left, tag);
    auto check = [=] {
      for (std::size_t k = 0; k < counts.size(); ++k)
        compare((*m)[k].out, "a sum of a batch", [&](std::size_t i) { return fold(value, sum{}, i, 0, ranks); });
      compare((*m)[counts.size()].out, "a broadcast of a batch", [&](std::size_t i) { return value(ranks - 1, i); });
      compare(m->back().out, "a message of a batch", [&](std::size_t i) { return value(left, i); });
    };
    if (pick(3) != 0) return in_flight_.push_back({all->start(), [=] { static_cast<void>(all), check(); }});
    all->run();
    check();
  }

  // Each has a tag of its own, so it is identified whichever way it is received.
  template <class T>
  void any_message() {
    group_of_ranks& g = groups_[pick(groups_.size())];
    int const ranks = g.comm->size(), self = g.comm->rank(), tag = ++messages_;
    int const from = static_cast<int>(pick(64)) % ranks, to = static_cast<int>(pick(64)) % ranks;
    std::size_t const count = any_count();
    int const salt = static_cast<int>(pick(1000));
    bool const started = pick(4) != 0 || from == to;
    int const asked = pick(3) == 0 ? any_source : from;
    auto const value = [salt](std::size_t i) { return make_value<T>(salt, i); };
    if (self == to) {
      auto const out = std::make_shared<std::vector<T>>(count + 3);
      auto check = [=](received got) {
        std::string const what = "message of " + std::to_string(count) + " from rank " + std::to_string(from) + " of " +
                                 std::to_string(ranks) + " to " + std::to_string(to);
        expect(got == received{from, tag, count}, "wrong source, tag or count of a " + what);
        compare(*out, what, [&](std::size_t i) { return i < count ? value(i) : T{}; });
      };
      if (started) {
        receive_work const call = irecv(*g.comm, *out, asked, tag);
        in_flight_.push_back({call, [=] { check(receive_work(call).get()); }});
      } else {
        check(recv(*g.comm, *out, asked, tag));
      }
    }
    if (self == from) {
      auto const in = std::make_shared<std::vector<T>>(count);
      for (std::size_t i = 0; i < count; ++i) (*in)[i] = value(i);
      if (started) in_flight_.push_back({isend(*g.comm, *in, to, tag), [in] {}});
      else send(*g.comm, *in, to, tag);
    }
  }

  // Any of the calls in flight.
  void finish_one() {
    std::size_t const one = own_() % in_flight_.size();
    pending p = std::move(in_flight_[one]);
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(one));
    if (own_() % 2 == 0) p.call.wait();
    else
      while (!p.call.test()) {
      }
    p.check();
  }

  std::mt19937 shared_, own_;
  std::vector<group_of_ranks> groups_;
  std::deque<pending> in_flight_;
  int messages_ = 0;
};

template <class Comm>
void check_stress(Comm& comm, unsigned seed, int operations) {
  char const* const wanted = std::getenv("TUTTI_TEST_OPERATIONS");
  stress<Comm>(comm, seed).run(wanted != nullptr ? std::atoi(wanted) : sanitized ? operations / 5 : operations);
}

}  // namespace tutti::testing
