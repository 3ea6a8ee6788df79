// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The team of tutti over any transport. Its contenders differ in buffers, algorithm and protocol.
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/tutti.hpp"

#include "team.hpp"

namespace bench {

template <class Transport>
class tutti_team {
 public:
  explicit tutti_team(tutti::communicator<Transport> comm) : comm_(std::move(comm)) {}

  static std::string version() {
    return tutti::detail::join({"tutti ", TUTTI_VERSION_MAJOR, ".", TUTTI_VERSION_MINOR, ".", TUTTI_VERSION_PATCH});
  }

  template <class Kind>
  contender prepare(task const& t, json const& wanted) {
    using T = typename Kind::element;
    tutti::options const o = options_of(t, wanted);
    std::string runs = t.between_two() ? "messages" : plan_of<Kind>(t, o);
    contender out;
    if (t.how == manner::started) {
      std::shared_ptr<tutti::progress_thread> thread;
      if (wanted.value("moved", "") == "thread") thread = std::make_shared<tutti::progress_thread>();
      out = on_memory<Kind>(t, wanted, started_sum<Kind>{comm_, o, thread});
    } else {
      out = on_memory<Kind>(t, wanted, [this, t, o](arrays<T> const& a) { run<Kind>(t, a, o); });
    }
    out.runs = std::move(runs);
    return out;
  }

 private:
  template <class Kind>
  struct started_sum {
    tutti::communicator<Transport>& comm;
    tutti::options o;
    std::shared_ptr<tutti::progress_thread> thread;

    template <class T>
    tutti::work start(arrays<T> const& a) const {
      return tutti::all_reduce(tutti::async(comm), a.in, a.out, Kind::op, o);
    }
    static void test(tutti::work& work) { work.test(); }
    static void wait(tutti::work& work) { work.wait(); }
  };

  template <class Kind, class Call, class T = typename Kind::element>
  contender on_memory(task const& t, json const& wanted, Call const& call) {
    if (wanted["buffers"] != "library") return on_private_memory<Kind>(t, call);
    auto const allocate = [&] { return comm_.template allocate<T>(t.bytes / sizeof(T)); };
    auto const memory = std::make_shared<std::pair<buffer<T>, buffer<T>>>(allocate(), allocate());
    return on_arrays<Kind>(t, memory->first.data(), memory->second.data(), memory, call);
  }

  template <class T>
  using buffer = tutti::shared_array<T, Transport>;

  static tutti::options options_of(task const& t, json const& wanted) {
    tutti::options o;
    std::string const algorithm = wanted.value("algorithm", "automatic"), how = wanted.value("protocol", "automatic");
    if (t.between_two() && (algorithm != "automatic" || how != "automatic"))
      throw cannot{"messages have no choice of algorithm or protocol"};
    o.algorithm = tutti::find_algorithm(algorithm);
    if (algorithm != "automatic") {
      if (o.algorithm == tutti::algorithm_id::automatic)
        throw std::invalid_argument(tutti::detail::join({"no algorithm is called ", algorithm}));
      if (!tutti::is_served(o.algorithm, t.what))
        throw cannot{tutti::detail::join({algorithm, " does not serve ", tutti::name(t.what)})};
    }
    for (int p = 0; tutti::name(o.protocol) != how; ++p) {
      o.protocol = static_cast<tutti::protocol>(p);
      if (tutti::name(o.protocol) == "?")
        throw std::invalid_argument(tutti::detail::join({"no protocol is called ", how}));
    }
    return o;
  }

  // The plan that tutti would run. If tutti rejects the named algorithm for this task, the contender is left out of the
  // row.
  template <class Kind, class T = typename Kind::element>
  std::string plan_of(task const& t, tutti::options const& o) {
    extent<T> const e(t);
    std::size_t const count = t.what == tutti::collective::barrier ? 1 : tutti::by_block(t.what) ? e.block : e.count;
    try {
      auto const chosen = tutti::explain<T, std::remove_cvref_t<decltype(Kind::op)>>(comm_, t.what, count, o);
      return tutti::detail::join({tutti::name(chosen.algorithm), "/", tutti::name(chosen.protocol)});
    } catch (tutti::error const& refusal) {
      if (refusal.code() != tutti::error_code::bad_argument) throw;
      throw cannot{refusal.what()};
    }
  }

  template <class T>
  void run_window(task const& t, arrays<T> const& a) {
    std::size_t const n = a.in.size() / window_length;
    std::array<tutti::work, window_length> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto const message = a.in.subspan(i * n, n);
      if (t.root()) all[i] = tutti::isend(comm_, message, t.partner());
      else all[i] = tutti::irecv(comm_, message, t.partner());
    }
    tutti::wait_for_all(all);
    std::array<char, 1> end{};
    if (t.root()) tutti::recv(comm_, end, t.partner(), 1);
    else tutti::send(comm_, end, t.partner(), 1);
  }

  template <class Kind, class T = typename Kind::element>
  void run(task const& t, arrays<T> const& a, tutti::options const& o) {
    if (t.how == manner::window) return run_window(t, a);
    if (t.how == manner::there_and_back) {
      if (t.root()) tutti::send(comm_, a.in, t.partner());
      tutti::recv(comm_, a.in, t.partner());
      if (!t.root()) tutti::send(comm_, a.in, t.partner());
      return;
    }
    switch (t.what) {
      case tutti::collective::all_reduce: return tutti::all_reduce(comm_, a.in, a.out, Kind::op, o);
      case tutti::collective::reduce: return tutti::reduce(comm_, a.in, a.out, Kind::op, 0, o);
      case tutti::collective::reduce_scatter: return tutti::reduce_scatter(comm_, a.in, a.out, Kind::op, o);
      case tutti::collective::broadcast: return tutti::broadcast(comm_, a.in, 0, o);
      case tutti::collective::all_gather: return tutti::all_gather(comm_, a.in, a.out, o);
      case tutti::collective::gather: return tutti::gather(comm_, a.in, a.out, 0, o);
      case tutti::collective::scatter: return tutti::scatter(comm_, a.in, a.out, 0, o);
      case tutti::collective::all_to_all: return tutti::all_to_all(comm_, a.in, a.out, o);
      case tutti::collective::barrier: return tutti::barrier(comm_, o);
      default: throw cannot{"not measured"};
    }
  }

  tutti::communicator<Transport> comm_;
};

}  // namespace bench
