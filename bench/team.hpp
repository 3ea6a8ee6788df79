// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank of a team. It sleeps in a read from the conductor's socket, and measures and answers when its turn comes.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <time.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/launch/place.hpp"

#include "contender.hpp"
#include "overlap.hpp"
#include "start_line.hpp"
#include "task.hpp"

namespace bench {

// Private memory whose pages have been touched.
class private_memory {
 public:
  explicit private_memory(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  private_memory(private_memory const&) = delete;
  private_memory& operator=(private_memory const&) = delete;
  ~private_memory() { ::munmap(data_, bytes_); }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

// `call(arrays)` on a pair of arrays, or call.start(arrays), which returns a handle for call.test(handle) and call.wait(handle). `memory`
// lives as long as the contender.
template <class Kind, class T, class Call>
contender on_arrays(task const& t, T* first, T* second, std::shared_ptr<void> memory, Call call) {
  arrays<T> const a = cut<T>(t, first, second);
  contender out;
  if constexpr (requires { call.start(a); }) {
    auto const handle = std::make_shared<decltype(call.start(a))>();
    out.start = [=] { *handle = call.start(a); };
    out.test = [=] { call.test(*handle); };
    out.wait = [=] { call.wait(*handle); };
    out.call = [start = out.start, wait = out.wait] { start(), wait(); };
  } else {
    out.call = [=] { call(a); };
  }
  if (t.what == tutti::collective::barrier) return out;
  out.write_inputs = [=] { write_inputs<Kind>(t, a); };
  out.rewrite = [=, memory = std::move(memory)](int value) { rewrite<Kind>(t, a, value); };
  out.right = [=] { return right<Kind>(t, a); };
  return out;
}

template <class Kind, class Call>
contender on_private_memory(task const& t, Call call) {
  using T = typename Kind::element;
  auto const in = std::make_shared<private_memory>(t.bytes), out = std::make_shared<private_memory>(t.bytes);
  auto const both = std::make_shared<decltype(std::pair(in, out))>(in, out);
  return on_arrays<Kind>(t, static_cast<T*>(in->data()), static_cast<T*>(out->data()), both, std::move(call));
}

// Called before the library starts, because it may query the number of cores. `cores` is empty if ranks must share them.
inline void bind(std::vector<int> const& cores, int rank) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cores.at(static_cast<std::size_t>(rank)), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

// The conductor at the other end of a socket. Each sends lines of JSON.
class conductor {
 public:
  explicit conductor(char const* path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int const socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::system_error(errno, std::generic_category(), path);
    socket_ = socket;
    stream_ = ::fdopen(socket, "r");
  }
  // Sleeps until there is a line; returns nothing if the conductor has gone.
  json next() {
    std::string line;
    for (int c; (c = std::fgetc(stream_)) != EOF && c != '\n';) line += static_cast<char>(c);
    return line.empty() ? json() : json::parse(line);
  }
  void say(json const& what) {
    std::string const line = what.dump() + '\n';
    for (std::size_t done = 0; done < line.size();) {
      ssize_t const sent = ::send(socket_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) throw std::system_error(errno, std::generic_category(), "the conductor has gone");
      done += static_cast<std::size_t>(sent);
    }
  }

 private:
  int socket_ = -1;
  std::FILE* stream_ = nullptr;
};

// The CPU time of this process in nanoseconds.
inline std::int64_t processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

inline json measure(start_line& line, contender const& c, bool rewrites, std::size_t samples, int calls, int warm) {
  double spin = spin_time();
  double const flag = line.flag_time();
  std::int64_t const wall = now(), own = processor_time();
  for (int i = -warm; i < static_cast<int>(samples); ++i) {
    if (rewrites) c.rewrite(i & 3);
    std::int64_t const begin = line.wait();
    for (int k = 0; k < calls; ++k) c.call();
    std::int64_t const end = now();
    if (i >= 0) line.mine(static_cast<std::size_t>(i)) = static_cast<double>(end - begin) * 1e-3 / calls;
  }
  double const share = static_cast<double>(processor_time() - own) / static_cast<double>(now() - wall);
  spin = std::max(spin, spin_time());
  line.wait();
  std::vector<double> us = line.slowest(samples);
  std::ranges::sort(us);
  double const p99 = us[(samples * 99 + 99) / 100 - 1];
  return {{"us", us[samples / 2]}, {"p99", p99}, {"flag_ns", flag}, {"spin_ns", spin}, {"share", share}};
}

// Peer has Peer(rank, ranks), version(), and prepare<Kind>(task, json), which throws `cannot` for tasks that it does not support; and
// `has_threads` if a rank that spins or is bound to a core would delay its own threads.
struct cannot {
  std::string why;
};

// One turn: fresh memory, so that no contender keeps favourable or unfavourable pages for a whole row; a check if requested; times.
template <class Kind, class Peer>
json take_turn(Peer& peer, start_line& line, task const& t, json const& said) {
  std::size_t const bytes = extent<typename Kind::element>(t).count * sizeof(typename Kind::element);
  if (t.between_two() && t.ranks != 2) return {{"no", "messages go between 2 ranks"}};
  if (bytes == 0 && t.what != tutti::collective::barrier) return {{"no", "too small for an element of every rank"}};
  try {
    contender const c = peer.template prepare<Kind>(t, said);
    json answer{{"runs", c.runs}, {"bytes", bytes}};
    if (said["check"]) {
      c.write_inputs();
      line.wait();
      c.call();
      answer["right"] = c.right();
    }
    if (said["mode"] == "overlap") answer.update(measure_overlap(line, c, said));
    else answer.update(measure(line, c, said["mode"] == "it", said["samples"], said["calls"], said["warm"]));
    return answer;
  } catch (cannot const& e) {
    return {{"no", e.why}};
  }
}

template <class Peer>
void serve(Peer& peer, conductor& to, start_line& line, task t) {
  for (json said = to.next(); !said.is_null(); said = to.next()) {
    std::string const wanted = said["collective"];
    t.how = wanted == "point_to_point" ? manner::there_and_back
            : wanted == "window"       ? manner::window
            : wanted == "started"      ? manner::started
                                       : manner::blocking;
    t.what = t.between_two() ? tutti::collective::broadcast
             : t.how == manner::started
                 ? tutti::collective::all_reduce
                 : *std::ranges::find(tutti::every_collective, wanted, [](auto c) { return tutti::name(c); });
    t.bytes = said["bytes"].get<std::size_t>() * (t.how == manner::window ? window_length : 1);
    t.in_place = said["in_place"];
    json answer;
    with_kind(std::string(said["kind"]), [&]<class Kind>(Kind) { answer = take_turn<Kind>(peer, line, t, said); });
    to.say(answer);
  }
}

// The conductor starts this program with the arguments: socket, start line, cores ("0,1" or "-").
template <class Peer>
int run_team(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "%s is started by bench/run.py\n", argv[0]);
    return 2;
  }
  tutti::place const me = tutti::find_place();
  std::vector<int> cores;
  if (std::strcmp(argv[3], "-") != 0)
    for (char const* text = argv[3]; *text != '\0'; text += *text == ',') {
      char* end = nullptr;
      cores.push_back(static_cast<int>(std::strtol(text, &end, 10)));
      text = end;
    }
  try {
    constexpr bool sleeps = requires { Peer::has_threads; };
    if constexpr (sleeps) cores.clear();
    bind(cores, me.rank);
    Peer peer(me.rank, me.size);
    start_line line(argv[2], me.rank, me.size, cores.empty());
    conductor to(argv[1]);
    to.say({{"rank", me.rank}, {"ranks", me.size}, {"version", peer.version()}, {"sleeps", sleeps}});
    try {
      serve(peer, to, line, {.ranks = me.size, .rank = me.rank});
    } catch (std::exception const& e) {
      to.say({{"error", e.what()}});
      return 1;
    }
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s: rank %d: %s\n", argv[0], me.rank, e.what());
    return 1;
  }
  return 0;
}

}  // namespace bench
