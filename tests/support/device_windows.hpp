// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that communicate through a window, and checks of what they compute: on stand-ins, on the PTX machine and on GPUs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/partition.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/api/ipc_window.hpp"
#include "tutti/device/api/local_window.hpp"
#include "tutti/device/api/window.hpp"

namespace tutti::testing {

// -- Bodies of kernels, which get the block of a rank. A rank has its own input and output.

struct rank_arrays {
  float const* in[detail::max_device_ranks];
  float* out[detail::max_device_ranks];
};

// In each turn, a rank puts n elements to the next one, at an address that may not be aligned, and takes what it got itself.
struct pass_on {
  rank_arrays of;
  std::size_t n, at;
  int turns, blocks;

  template <class Here>
  TUTTI_HOST_DEVICE void operator()(Here& here) const {
    int const me = here.rank(), next = wrap(me + 1, here.ranks()), before = wrap(me - 1, here.ranks());
    extent const mine = part(n, blocks, here.block());
    for (int turn = 0; turn < turns; ++turn) {
      std::size_t const begin = static_cast<std::size_t>(turn) * n + mine.begin;
      here.put(next, at + mine.begin, of.in[me] + begin, mine.count);
      here.signal(next);
      if (!here.wait(before)) return;
      here.get(me, at + mine.begin, of.out[me] + begin, mine.count);
      here.signal(before);  // it may put again
      if (!here.wait(next)) return;
    }
  }
};

// Threads put and get elements that other threads of the block have written, and read those that others have got.
struct share_in_block {
  rank_arrays of;  // out: 4 n elements
  std::size_t n;

  template <class Here>
  TUTTI_HOST_DEVICE void operator()(Here& here) const {
    float const* const in = of.in[here.rank()];
    float* const out = of.out[here.rank()];
    auto const each_reversed = [&](auto const& f) {
      for (auto i = static_cast<std::size_t>(here.thread()); i < n; i += static_cast<std::size_t>(here.threads()))
        f(n - 1 - i);
    };
    each_reversed([&](std::size_t i) { out[i] = in[i]; });
    here.put(here.rank(), 0, out, n);
    each_reversed([&](std::size_t i) { here.local()[n + i] = in[n + i]; });
    here.get(here.rank(), n, out + n, n);
    each_reversed([&](std::size_t i) { out[2 * n + i] = out[n + i]; });
    here.get(here.rank(), 0, out + 3 * n, n);
  }
};

// In each turn, every rank shows n elements to all, and adds those of all. Two halves of the window take turns, also from launch to
// launch.
struct add_all {
  rank_arrays of;
  std::size_t n;
  int turns, blocks, turns_before;

  template <class Here>
  TUTTI_HOST_DEVICE void operator()(Here& here) const {
    int const me = here.rank(), p = here.ranks();
    extent const mine = part(n, blocks, here.block());
    for (int turn = 0; turn < turns; ++turn) {
      std::size_t const begin = static_cast<std::size_t>(turn) * n + mine.begin,
                        half = static_cast<std::size_t>((turns_before + turn) % 2) * n + mine.begin;
      here.put(me, half, of.in[me] + begin, mine.count);
      if (!here.barrier()) return;
      for (auto i = static_cast<std::size_t>(here.thread()); i < mine.count;
           i += static_cast<std::size_t>(here.threads())) {
        float sum = 0;
        for (int q = 0; q < p; ++q) sum += here.of(q)[half + i];
        of.out[me][begin + i] = sum;
      }
    }
  }
};

// The same by packets: of more elements and of fewer, by turns.
struct add_packets {
  rank_arrays of;
  int n, turns;

  static TUTTI_HOST_DEVICE int count(int turn, int n) { return turn % 3 == 0 ? n : turn % 3; }

  template <class Here>
  TUTTI_HOST_DEVICE void operator()(Here& here) const {
    int const me = here.rank(), p = here.ranks();
    if (here.block() != 0) return;
    for (int turn = 0; turn < turns; ++turn) {
      float const* const in = of.in[me] + turn * n;
      float* const out = of.out[me] + turn * n;
      float sum = 0;
      bool const good = here.exchange(
          count(turn, n), [&](int, int i) { return in[i]; },
          [&](int rank, int i, float x) {
            sum = rank == 0 ? x : sum + x;
            if (rank == p - 1) out[i] = sum;
          });
      if (!good) return;
    }
  }
};

// Values of 8 bytes, another for each rank: element i of the output of rank r is what rank i % p has given it.
struct deal_packets {
  rank_arrays of;

  struct pair {
    float a, b;
  };
  template <class Here>
  TUTTI_HOST_DEVICE void operator()(Here& here) const {
    int const me = here.rank();
    static_cast<void>(here.exchange(
        1, [&](int peer, int) { return pair{static_cast<float>(10 * me + peer), of.in[me][peer]}; },
        [&](int rank, int, pair x) { of.out[me][rank] = x.a + 1000 * x.b; }));
  }
};

template <class Here>
TUTTI_HOST_DEVICE bool exchange_ones(Here& here, int count) {
  return here.exchange(count, [](int, int) { return 1.0f; }, [](int, int, float) {});
}

// One rank is absent. The others write 1 where a call tells them so, and find that later calls do so too.
struct miss_one {
  enum ways { by_wait, by_barrier, by_exchange } way;
  rank_arrays of;
  int absent;

  template <class Here>
  TUTTI_HOST_DEVICE void operator()(Here& here) const {
    if (here.rank() == absent) return;
    bool const first = attempt(here), second = attempt(here), told = here.stopped();
    if (here.thread() == 0) of.out[here.rank()][0] = !first && !second && told ? 1.0f : 2.0f;
  }

 private:
  template <class Here>
  TUTTI_HOST_DEVICE bool attempt(Here& here) const {
    if (way == by_wait) return here.wait(absent);
    if (way == by_barrier) return here.barrier();
    return exchange_ones(here, 1);
  }
};

// Arguments that a window does not allow.
struct misuse {
  enum ways { of_peer, of_negative_peer, of_packets, of_room, of_block } way;

  template <class Here>
  TUTTI_HOST_DEVICE void operator()(Here& here) const {
    if (way == of_peer) here.signal(here.ranks());
    if (way == of_negative_peer) here.signal(-1);
    if (way == of_packets) static_cast<void>(exchange_ones(here, 1 << 20));
    if (way == of_room) here.put(0, 1, here.local(), here.window_size());
    static_cast<void>(here.barrier());
  }
};

inline constexpr std::pair<misuse::ways, char const*> refusals_of_misuse[] = {
    {misuse::of_peer, "addressed rank 2, which its window does not have"},
    {misuse::of_negative_peer, "addressed a rank that does not exist"},
    {misuse::of_packets, "packets or more at once, for which its window has no room (window_options::packets)"},
    {misuse::of_room, "accessed elements beyond the end of the window of rank 0"},
    {misuse::of_block, "used block 1 of a window that was opened for fewer (window_options::blocks)"}};

// A block object with what bodies need to divide their work, of a launch for the ranks from `first` on, with `blocks` blocks each.
template <class T, class Group>
struct test_block : window_block<T, Group> {
  TUTTI_HOST_DEVICE test_block(window<T> const& of, int rank, int block, Group const& group)
      : window_block<T, Group>(of, rank, block, group), group_(group), size_(of.size()) {}
  TUTTI_HOST_DEVICE int thread() const { return group_.rank(); }
  TUTTI_HOST_DEVICE int threads() const { return group_.size(); }
  TUTTI_HOST_DEVICE std::size_t window_size() const { return size_; }

 private:
  Group group_;
  std::size_t size_;
};
template <class Body>
struct window_kernel {
  window<float> shared;
  int first, blocks;
  Body body;

  template <class Group>
  struct room {};
  template <class Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>&) const {
    run(group);
  }
  template <class Group>
  TUTTI_HOST_DEVICE void run(Group const& group) const {
    test_block<float, Group> here(shared, first + group.block() / blocks, group.block() % blocks, group);
    body(here);
  }
};

// -- Ranks that a process has kernels for. launch(device, stream, blocks, kernel) launches blocks that run at once.

template <class D, class Reach, class Launch>
class virtual_ranks {
 public:
  using window_type = local_window<float, D>;

  virtual_ranks(cuda_local<D, Reach> const& ranks, Launch const& launch) : ranks_{ranks}, launch_{launch} {}

  int size() const { return ranks_.size(); }
  extent own() const { return {0, static_cast<std::size_t>(size())}; }
  D const& on(int rank) const { return ranks_.on(rank); }
  window_type open(std::size_t n, window_options const& o) const { return open_window<float>(ranks_, n, o); }
  window<float> view(window_type const& w, int rank) const { return w.on_device(rank); }
  void meet() const {}

  template <class Body>
  void run(window_type const& w, int blocks, Body const& body) const {
    ranks_.team().on_each({}, [&](int k, detail::stream_of<D> its) {
      extent const here = ranks_.ranks_on(k);
      window_kernel<Body> const kernel{w.on_device(), static_cast<int>(here.begin), blocks, body};
      if (here.count > 0) launch_(ranks_.team().at(k), its, static_cast<int>(here.count) * blocks, kernel);
    });
  }

 private:
  cuda_local<D, Reach> const& ranks_;
  Launch launch_;
};

template <class Comm, class Ranks, class Launch>
class own_rank {
 public:
  using device_type = typename Ranks::device_type;

  own_rank(Comm& comm, Ranks& ranks, Launch const& launch) : comm_{comm}, ranks_{ranks}, launch_{launch} {}

  int size() const { return ranks_.size(); }
  extent own() const { return {static_cast<std::size_t>(ranks_.rank()), 1}; }
  device_type const& on(int) const { return ranks_.on(); }
  auto open(std::size_t n, window_options const& o) const { return open_window<float>(ranks_, n, o); }
  template <class Window>
  window<float> view(Window const& w, int) const {
    return w.on_device();
  }
  void meet() const { barrier(comm_); }

  template <class Window, class Body>
  void run(Window const& w, int blocks, Body const& body) const {
    launch_(ranks_.on(), detail::stream_of<device_type>{}, blocks,
            window_kernel<Body>{w.on_device(), ranks_.rank(), blocks, body});
  }

 private:
  Comm& comm_;
  Ranks& ranks_;
  Launch launch_;
};

// -- Checks. Each returns whether all is right.

inline float window_value(int rank, std::size_t i) {
  return static_cast<float>(rank * 1000 + static_cast<int>(i % 997));
}

// The arrays of a process's ranks, of n elements each: inputs have values, outputs -1.
template <class Ranks>
class arrays_of_own {
 public:
  using device_type = std::remove_cvref_t<decltype(std::declval<Ranks const&>().on(0))>;

  arrays_of_own(Ranks const& ranks, std::size_t n) : ranks_{ranks} {
    std::vector<float> values(n);
    for (std::size_t r = ranks.own().begin; r < ranks.own().end(); ++r) {
      auto const& on = ranks.on(static_cast<int>(r));
      for (std::size_t i = 0; i < n; ++i) values[i] = window_value(static_cast<int>(r), i);
      of_.in[r] = fill(on, values);
      of_.out[r] = fill(on, std::vector<float>(n, -1.0f));
    }
  }
  rank_arrays const& of() const { return of_; }
  std::vector<float> output(std::size_t rank) const {
    std::vector<float> out(arrays_[0].size());
    auto const& on = ranks_.on(static_cast<int>(rank));
    on.copy({}, out.data(), of_.out[rank], out.size() * sizeof(float));
    on.wait({}, detail::deadline::after(std::chrono::minutes{1}));
    return out;
  }
  // Whether the output of every rank of this process is what expected(rank, i) says.
  template <class Expected>
  bool outputs_are(Expected const& expected) const {
    for (std::size_t r = ranks_.own().begin; r < ranks_.own().end(); ++r) {
      std::vector<float> const got = output(r);
      for (std::size_t i = 0; i < got.size(); ++i)
        if (got[i] != expected(static_cast<int>(r), i)) return false;
    }
    return true;
  }

 private:
  float* fill(device_type const& on, std::vector<float> const& values) {
    auto& array = arrays_.emplace_back(on, values.size());
    on.copy({}, array.data(), values.data(), values.size() * sizeof(float));
    on.wait({}, detail::deadline::after(std::chrono::minutes{1}));
    return array.data();
  }

  Ranks const& ranks_;
  rank_arrays of_{};
  std::vector<detail::device_array<device_type, float>> arrays_;
};

inline float sum_of_values(int ranks, std::size_t i) {
  float sum = 0;
  for (int q = 0; q < ranks; ++q) sum += window_value(q, i);
  return sum;
}

// Gives all counters of a window this value, before its first use.
template <class Ranks, class Window>
void set_counters(Ranks const& ranks, Window const& w, std::uint64_t to) {
  for (std::size_t r = ranks.own().begin; r < ranks.own().end(); ++r) {
    detail::window_map const map = ranks.view(w, static_cast<int>(r)).map();
    detail::window_map image = map;
    std::vector<std::uint64_t> memory(map.data_begin() / sizeof(std::uint64_t));
    image.posts[0] = reinterpret_cast<std::byte*>(memory.data());
    for (int b = 0; b < map.blocks; ++b) {
      image.rounds(0, b) = to;
      for (int q = 0; q < map.ranks; ++q)
        for (auto const track : {detail::window_map::signals, detail::window_map::barriers}) {
          auto& in = image.incoming(0, track, b, q);
          in.own = in.theirs = image.outgoing(0, track, b, q).own = to;
        }
    }
    auto const& on = ranks.on(static_cast<int>(r));
    on.copy({}, map.posts[r], image.posts[0], map.data_begin());
    on.wait({}, detail::deadline::after(std::chrono::minutes{1}));
  }
  ranks.meet();
}

template <class Ranks>
bool passes_on(Ranks const& ranks, std::size_t n, std::size_t at, int blocks) {
  int const turns = 3, launches = 2;
  arrays_of_own<Ranks> const arrays(ranks, n * turns);
  auto const w = ranks.open(n + at, {.blocks = blocks, .packets = 1});
  for (int i = 0; i < launches; ++i) ranks.run(w, blocks, pass_on{arrays.of(), n, at, turns, blocks});
  w.wait();
  return arrays.outputs_are([&](int rank, std::size_t i) { return window_value(wrap(rank - 1, ranks.size()), i); });
}

template <class Ranks>
bool shares_in_block(Ranks const& ranks, std::size_t n) {
  arrays_of_own<Ranks> const arrays(ranks, 4 * n);
  auto const w = ranks.open(2 * n, {.blocks = 1, .packets = 1});
  ranks.run(w, 1, share_in_block{arrays.of(), n});
  w.wait();
  return arrays.outputs_are(
      [&](int rank, std::size_t i) { return window_value(rank, i % n + (i / n == 1 || i / n == 2 ? n : 0)); });
}

template <class Ranks>
bool adds_all(Ranks const& ranks, std::size_t n, int blocks, int turns, int launches) {
  arrays_of_own<Ranks> const arrays(ranks, n * static_cast<std::size_t>(turns));
  auto const w = ranks.open(2 * n, {.blocks = blocks, .packets = 1});
  for (int i = 0; i < launches; ++i) ranks.run(w, blocks, add_all{arrays.of(), n, turns, blocks, i * turns});
  w.wait();
  return arrays.outputs_are([&](int, std::size_t i) { return sum_of_values(ranks.size(), i); });
}

template <class Ranks>
bool adds_packets(Ranks const& ranks, int n, int turns) {
  auto const each = static_cast<std::size_t>(n);
  arrays_of_own<Ranks> const arrays(ranks, each * static_cast<std::size_t>(turns));
  auto const w = ranks.open(1, {.blocks = 2, .packets = n});
  for (int i = 0; i < 2; ++i) ranks.run(w, 2, add_packets{arrays.of(), n, turns});
  w.wait();
  return arrays.outputs_are([&](int, std::size_t i) {
    int const turn = static_cast<int>(i / each), at = static_cast<int>(i % each);
    return at < add_packets::count(turn, n) ? sum_of_values(ranks.size(), i) : -1.0f;
  });
}

template <class Ranks>
bool deals_packets(Ranks const& ranks) {
  arrays_of_own<Ranks> const arrays(ranks, static_cast<std::size_t>(ranks.size()));
  auto const w = ranks.open(1, {.blocks = 1, .packets = 1});
  ranks.run(w, 1, deal_packets{arrays.of()});
  w.wait();
  return arrays.outputs_are([&](int rank, std::size_t i) {
    int const q = static_cast<int>(i);
    return static_cast<float>(10 * q + rank) + 1000 * window_value(q, static_cast<std::size_t>(rank));
  });
}

// Counters cross 2^32, and flags begin again.
template <class Ranks>
bool counts_on(Ranks const& ranks) {
  std::size_t const n = 20;
  int const turns = 6;
  arrays_of_own<Ranks> const arrays(ranks, n * turns), sums(ranks, n * turns);
  auto const w = ranks.open(2 * n, {.blocks = 1, .packets = static_cast<int>(n)});
  set_counters(ranks, w, (std::uint64_t{1} << 32) - 4);
  ranks.run(w, 1, add_packets{arrays.of(), static_cast<int>(n), turns});
  ranks.run(w, 1, add_all{sums.of(), n, turns, 1, 0});
  ranks.run(w, 1, pass_on{arrays.of(), 1, 0, turns, 1});
  w.wait();
  bool const good = sums.outputs_are([&](int, std::size_t i) { return sum_of_values(ranks.size(), i); });
  return good && arrays.outputs_are([&](int rank, std::size_t i) {
    if (i < turns) return window_value(wrap(rank - 1, ranks.size()), i);
    int const turn = static_cast<int>(i / n), at = static_cast<int>(i % n);
    return at < add_packets::count(turn, static_cast<int>(n)) ? sum_of_values(ranks.size(), i) : -1.0f;
  });
}

// All ranks but one wait for that one, which runs another kernel, or none. Calls of the host then say so.
template <class Ranks, class Fails>
bool names_absent(Ranks const& ranks, miss_one::ways way, int absent, std::chrono::nanoseconds timeout,
                  Fails const& fails_in_wait) {
  arrays_of_own<Ranks> const arrays(ranks, 1);
  auto const w = ranks.open(1, {.blocks = 1, .packets = 1, .timeout = timeout});
  ranks.run(w, 1, miss_one{way, arrays.of(), absent});
  bool const told = fails_in_wait(w);
  for (std::size_t r = ranks.own().begin; r < ranks.own().end(); ++r)
    ranks.on(static_cast<int>(r)).wait({}, detail::deadline::after(std::chrono::minutes{1}));
  return told && arrays.outputs_are([&](int rank, std::size_t) { return rank == absent ? -1.0f : 1.0f; });
}

}  // namespace tutti::testing
