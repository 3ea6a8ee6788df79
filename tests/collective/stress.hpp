// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of random kinds, sizes and types on random groups, started and blocking, many in flight at once, and messages
// between two ranks among them; each result is held against what one rank computes alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/conformance.hpp"
#include "support/expect.hpp"

namespace tutti::testing {

template <class Comm>
class stress {
 public:
  // Equal seeds on all ranks make equal operations; what is waited for first is each rank's own choice.
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
      switch (shared_() % 6) {
        case 0: any_operation<double>(sum{}); break;
        case 1: any_operation<std::int16_t>(max{}); break;
        case 2: any_operation<affine>(compose{}); break;
        case 3: any_message<double>(); break;
        case 4: any_message<std::int16_t>(); break;
        default: any_operation<std::uint64_t>(bit_xor{}); break;
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

  template <class T, class Op>
  void any_operation(Op const& op) {
    group_of_ranks& g = groups_[pick(groups_.size())];
    auto const c = every_collective[pick(every_collective.size())];
    std::size_t const count = any_count();
    auto const ranks = static_cast<std::size_t>(g.comm->size());
    int const root = static_cast<int>(pick(64)) % g.comm->size();
    bool const started = pick(4) != 0;
    struct memory {
      std::vector<T> in, out;
    };
    auto const m = std::make_shared<memory>();
    m->in.resize(count * (deals(c) ? ranks : 1));
    m->out.resize(count * (collects(c) ? ranks : 1));
    int const salt = static_cast<int>(pick(1000));
    auto const value = [salt](int rank, std::size_t i) { return make_value<T>(rank + salt, i); };
    int const self = g.comm->rank();
    for (std::size_t i = 0; i < m->in.size(); ++i) m->in[i] = value(self, i);
    if (c == collective::broadcast) m->out = m->in;

    std::string const what = std::string(name(c)) + " of " + std::to_string(count) + " by rank " +
                             std::to_string(self) + " of " + std::to_string(ranks) + (started ? ", started" : "");
    auto check = [=] {
      auto const fold = [&](std::size_t i, int first, int last) {
        T all = value(first, i);
        for (int q = first + 1; q < last; ++q) all = static_cast<T>(op(all, value(q, i)));
        return all;
      };
      auto const me = static_cast<std::size_t>(self);
      for (std::size_t i = 0; i < m->out.size(); ++i) {
        T expected{};
        switch (c) {
          case collective::all_reduce: expected = fold(i, 0, int(ranks)); break;
          case collective::reduce:
            if (self != root) return;
            expected = fold(i, 0, int(ranks));
            break;
          case collective::scan: expected = fold(i, 0, self + 1); break;
          case collective::exclusive_scan:
            if (self == 0) return;
            expected = fold(i, 0, self);
            break;
          case collective::reduce_scatter: expected = fold(me * count + i, 0, int(ranks)); break;
          case collective::broadcast: expected = value(root, i); break;
          case collective::gather:
            if (self != root) return;
            [[fallthrough]];
          case collective::all_gather: expected = value(int(i / count), i % count); break;
          case collective::scatter: expected = value(root, me * count + i); break;
          case collective::all_to_all: expected = value(int(i / count), me * count + i % count); break;
          case collective::barrier: return;
        }
        expect(same_bits(m->out[i], expected), "wrong element " + std::to_string(i) + " in " + what);
      }
    };
    auto const call = [&](auto&& comm) {
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
        default: return barrier(comm);
      }
    };
    if (started) return in_flight_.push_back({call(async(*g.comm)), std::move(check)});
    call(*g.comm);
    check();
  }

  // Each has a tag of its own, so it is known whichever way it is asked for.
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
        for (std::size_t i = 0; i < out->size(); ++i)
          expect(same_bits((*out)[i], i < count ? value(i) : T{}),
                 "wrong element " + std::to_string(i) + " in a " + what);
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

  // Any of those that are in flight.
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
  stress<Comm>(comm, seed).run(operations);
}

}  // namespace tutti::testing
