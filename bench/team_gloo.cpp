// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The team of Gloo, over TCP on the loopback device. Ranks find each other through files.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include "team.hpp"

namespace {

using namespace bench;

class team {
 public:
  static constexpr bool has_threads =
      true;  // a thread for the sockets, which would get a core only every 4 ms beside a spinning caller

  team(int rank, int ranks) : context_(std::make_shared<gloo::rendezvous::Context>(rank, ranks)) {
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    gloo::rendezvous::FileStore store(std::getenv("TUTTI_BENCH_STORE"));
    context_->setTimeout(std::chrono::seconds(60));
    context_->connectFullMesh(store, device);
  }

  static std::string version() { return "Gloo over TCP"; }

  template <class Kind>
  contender prepare(task const& t, json const&) {
    if (t.between_two()) throw cannot{"no messages between two ranks are measured"};
    // Its reduce_scatter has the older interface, which overwrites its input and is bound to one array.
    if (t.what == tutti::collective::reduce_scatter) throw cannot{"no reduce_scatter that keeps its input"};
    if (t.what == tutti::collective::all_to_all && t.in_place) throw cannot{"no all_to_all in place"};
    auto const call = [=, this](auto const& a) { this->template run<Kind>(t, a); };
    if (t.how == manner::started) return on_private_memory<Kind>(t, in_a_thread<decltype(call)>{call});
    return on_private_memory<Kind>(t, call);
  }

 private:
  // It has no non-blocking calls.
  template <class Call>
  struct in_a_thread {
    Call call;

    template <class Arrays>
    std::thread start(Arrays const& a) const {
      return std::thread([=, this] { call(a); });
    }
    static void test(std::thread&) {}
    static void wait(std::thread& thread) { thread.join(); }
  };

  template <class Kind, class T = typename Kind::element>
  static void reduce(void* out, void const* a, void const* b, std::size_t count) {
    combine<Kind>(static_cast<T*>(out), static_cast<T const*>(a), static_cast<T const*>(b), count);
  }

  template <class Kind, class T = typename Kind::element>
  void run(task const& t, arrays<T> const& a) {
    switch (t.what) {
      case tutti::collective::all_reduce: {
        gloo::AllreduceOptions o(context_);
        if (!t.in_place) o.setInput(a.in.data(), a.in.size());
        o.setOutput(a.out.data(), a.out.size());
        o.setReduceFunction(&reduce<Kind>);
        return gloo::allreduce(o);
      }
      case tutti::collective::reduce: {
        gloo::ReduceOptions o(context_);
        if (!t.in_place) o.setInput(a.in.data(), a.in.size());
        o.setOutput(a.out.data(), a.out.size());
        o.setReduceFunction(&reduce<Kind>);
        o.setRoot(0);
        return gloo::reduce(o);
      }
      case tutti::collective::broadcast: {
        gloo::BroadcastOptions o(context_);
        o.setOutput(a.out.data(), a.out.size());
        o.setRoot(0);
        return gloo::broadcast(o);
      }
      case tutti::collective::all_gather: {
        gloo::AllgatherOptions o(context_);
        if (!t.in_place) o.setInput(a.in.data(), a.in.size());
        o.setOutput(a.out.data(), a.out.size());
        return gloo::allgather(o);
      }
      case tutti::collective::gather: {
        gloo::GatherOptions o(context_);
        o.setInput(a.in.data(), a.in.size());
        if (t.root()) o.setOutput(a.out.data(), a.out.size());
        o.setRoot(0);
        return gloo::gather(o);
      }
      case tutti::collective::scatter: {
        gloo::ScatterOptions o(context_);
        std::vector<T*> blocks;
        if (t.root())
          for (int r = 0; r < t.ranks; ++r) blocks.push_back(a.in.data() + static_cast<std::size_t>(r) * a.out.size());
        if (t.root()) o.setInputs(blocks, a.out.size());
        o.setOutput(a.out.data(), a.out.size());
        o.setRoot(0);
        return gloo::scatter(o);
      }
      case tutti::collective::all_to_all: {
        gloo::AlltoallOptions o(context_);
        o.setInput(a.in.data(), a.in.size());
        o.setOutput(a.out.data(), a.out.size());
        return gloo::alltoall(o);
      }
      default: {
        gloo::BarrierOptions o(context_);
        return gloo::barrier(o);
      }
    }
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace

int main(int argc, char** argv) { return bench::run_team<team>(argc, argv); }
