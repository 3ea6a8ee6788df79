// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library in place of NCCL, for tests without a GPU: its streams are those of support/sharing_stand_in.hpp, device memory is that of
// the host, and ranks exchange data through a file. A call gives its work to the stream at a later look at the state. There it waits
// for all ranks, or for the other ends of messages, for ever if one does not come. Variables of the environment:
//   SUBSTITUTE_FOLDER    where the files are
//   SUBSTITUTE_VERSION   what ncclGetVersion returns (22809)
//   SUBSTITUTE_REFUSES   why this rank cannot join the others
//   SUBSTITUTE_BREAKS    the group of calls of this rank, from 1, in which NCCL reports an error once the calls are on the stream; or
//                        before, if the number is negative
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "support/sharing_stand_in.hpp"
#include "tutti/device/nccl/library.hpp"
#include "tutti/reduce/half.hpp"

namespace nccl = tutti::detail::nccl;
using nccl::data_type;
using nccl::operation;
using nccl::result;
using tutti::testing::stand_in_stream;

namespace {

constexpr std::size_t max_calls = 64, max_bytes = std::size_t{1} << 20;

enum class kind { all_reduce, reduce, reduce_scatter, broadcast, all_gather, send, recv };

// A call of a group. `peer`: the root, or the other rank.
struct call {
  kind what;
  void const* in;
  void* out;
  std::size_t count;
  data_type type;
  operation op;
  int peer;
};

// What a rank shows to the others.
struct page {
  struct entry {
    std::size_t begin, bytes;
  };
  std::atomic<std::uint64_t> step;
  entry calls[max_calls];
  std::byte data[max_bytes];
};
// Where a rank puts a message to another, which takes it before the next.
struct mailbox {
  std::atomic<std::uint64_t> sent, taken;
  std::size_t bytes;
  std::byte data[max_bytes];
};
struct file_head {
  std::atomic<int> joined;
  std::atomic<bool> given_up;  // a rank could not join
};

[[noreturn]] void stop(std::string const& why) {
  std::fprintf(stderr, "the substitute for NCCL: %s\n", why.c_str());
  std::abort();
}
std::string variable(char const* name, char const* otherwise) {
  char const* const said = std::getenv(name);
  return said != nullptr ? said : otherwise;
}

std::size_t bytes_of(data_type type) {
  switch (type) {
    case data_type::int8:
    case data_type::uint8: return 1;
    case data_type::float16:
    case data_type::bfloat16: return 2;
    case data_type::int32:
    case data_type::uint32:
    case data_type::float32: return 4;
    case data_type::int64:
    case data_type::uint64:
    case data_type::float64: return 8;
    case data_type::none: break;
  }
  stop("no such type");
}

template <class T>
T combined(operation op, T a, T b) {
  switch (op) {
    case operation::sum: return static_cast<T>(a + b);
    case operation::product: return static_cast<T>(a * b);
    case operation::max: return a < b ? b : a;
    case operation::min: return b < a ? b : a;
    case operation::none: break;
  }
  stop("no such operation");
}
template <class Narrow>
  requires std::same_as<Narrow, tutti::half> || std::same_as<Narrow, tutti::bfloat16>
Narrow combined(operation op, Narrow a, Narrow b) {
  return Narrow(combined(op, static_cast<float>(a), static_cast<float>(b)));
}
// from[0] is combined with the others, whose order the caller chooses.
template <class T>
void combine(operation op, std::vector<std::byte const*> const& from, void* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T sum{};
    for (std::size_t k = 0; k < from.size(); ++k) {
      T x;
      std::memcpy(&x, from[k] + i * sizeof(T), sizeof(T));
      sum = k == 0 ? x : combined(op, sum, x);
    }
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof(T), &sum, sizeof(T));
  }
}
void combine(data_type type, operation op, std::vector<std::byte const*> const& from, void* to, std::size_t count) {
  switch (type) {
    case data_type::int8: return combine<std::int8_t>(op, from, to, count);
    case data_type::uint8: return combine<std::uint8_t>(op, from, to, count);
    case data_type::int32: return combine<std::int32_t>(op, from, to, count);
    case data_type::uint32: return combine<std::uint32_t>(op, from, to, count);
    case data_type::int64: return combine<std::int64_t>(op, from, to, count);
    case data_type::uint64: return combine<std::uint64_t>(op, from, to, count);
    case data_type::float16: return combine<tutti::half>(op, from, to, count);
    case data_type::float32: return combine<float>(op, from, to, count);
    case data_type::float64: return combine<double>(op, from, to, count);
    case data_type::bfloat16: return combine<tutti::bfloat16>(op, from, to, count);
    case data_type::none: stop("no such type");
  }
}

// A rank's part of a communicator, which work on streams may outlive.
class part {
 public:
  part(std::string const& path, int ranks, int rank) : rank_{rank}, ranks_{ranks} {
    int const file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    auto const p = static_cast<std::size_t>(ranks);
    bytes_ = sizeof(page) * (p + 1) + sizeof(mailbox) * p * p;
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_)) != 0) stop("cannot open " + path);
    base_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (base_ == MAP_FAILED) stop("cannot map " + path);
  }
  part(part const&) = delete;
  part& operator=(part const&) = delete;
  ~part() { ::munmap(base_, bytes_); }

  std::atomic<bool> aborted{false};
  std::atomic<int> running{0};

  file_head& head() const { return *static_cast<file_head*>(base_); }
  int ranks() const { return ranks_; }

  // On the stream.
  void run(std::vector<call> const& calls) {
    if (std::ranges::all_of(calls, is_message)) return exchange(calls);
    publish(calls);
    if (!meet()) return;
    for (std::size_t k = 0; k < calls.size(); ++k) finish(calls, k);
    meet();
  }

 private:
  page& of(int rank) const { return static_cast<page*>(base_)[rank + 1]; }
  std::byte const* data_of(int rank, std::size_t k) const { return of(rank).data + of(rank).calls[k].begin; }

  std::size_t contribution(call const& c) const {
    std::size_t const n = c.count * bytes_of(c.type);
    if (c.what == kind::broadcast && c.peer != rank_) return 0;
    return c.what == kind::reduce_scatter ? n * static_cast<std::size_t>(ranks_) : n;
  }
  void publish(std::vector<call> const& calls) const {
    std::size_t at = 0;
    if (calls.size() > max_calls) stop("a group of too many calls");
    if (std::ranges::any_of(calls, is_message)) stop("a group of messages and other calls");
    for (std::size_t k = 0; k < max_calls; ++k) {
      std::size_t const n = k < calls.size() ? contribution(calls[k]) : 0;
      if (at + n > max_bytes) stop("too many bytes");
      if (n > 0) std::memcpy(of(rank_).data + at, calls[k].in, n);
      of(rank_).calls[k] = {at, n};
      at += n;
    }
  }
  bool meet() const {
    std::uint64_t const mine = ++of(rank_).step;
    for (int q = 0; q < ranks_; ++q)
      while (of(q).step < mine) {
        if (aborted) return false;
        std::this_thread::sleep_for(std::chrono::microseconds{20});
      }
    return true;
  }
  void finish(std::vector<call> const& calls, std::size_t k) const {
    call const& c = calls[k];
    std::size_t const n = c.count * bytes_of(c.type);
    auto const own = static_cast<std::size_t>(rank_);
    if (c.what == kind::broadcast && n > 0) std::memcpy(c.out, data_of(c.peer, k), n);
    if (c.what == kind::all_gather)
      for (int q = 0; q < ranks_ && n > 0; ++q)
        std::memcpy(static_cast<std::byte*>(c.out) + static_cast<std::size_t>(q) * n, data_of(q, k), n);
    bool const reduces = c.what == kind::all_reduce || c.what == kind::reduce_scatter || c.what == kind::reduce;
    if (!reduces || (c.what == kind::reduce && c.peer != rank_)) return;
    std::vector<std::byte const*> from;
    for (int q = ranks_; q-- > 0;) from.push_back(data_of(q, k) + (c.what == kind::reduce_scatter ? own * n : 0));
    combine(c.type, c.op, from, c.out, c.count);
  }

  // -- Messages, of which all of a group progress at once. The n-th receive from a rank gets its n-th send.
  static bool is_message(call const& c) { return c.what == kind::send || c.what == kind::recv; }
  mailbox& box(int from, int to) const {
    return reinterpret_cast<mailbox*>(static_cast<page*>(base_) + ranks_ + 1)[from * ranks_ + to];
  }
  struct message {
    call what;
    std::uint64_t put = 0;  // of a send: how many the mailbox has had with it
    bool done = false;
  };
  void exchange(std::vector<call> const& calls) const {
    std::vector<message> all;
    for (call const& c : calls) all.push_back({c});
    while (!aborted && !std::ranges::all_of(all, &message::done)) {
      for (auto m = all.begin(); m != all.end(); ++m)
        if (!m->done && std::none_of(all.begin(), m, [&](message const& earlier) {
              return !earlier.done && earlier.what.what == m->what.what && earlier.what.peer == m->what.peer;
            }))
          m->what.what == kind::send ? send(*m) : receive(*m);
      std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
  }
  void send(message& m) const {
    mailbox& to = box(rank_, m.what.peer);
    if (m.put > 0) {
      m.done = to.taken == m.put;
    } else if (to.taken == to.sent) {
      to.bytes = m.what.count * bytes_of(m.what.type);
      if (to.bytes > max_bytes) stop("too many bytes");
      if (to.bytes > 0) std::memcpy(to.data, m.what.in, to.bytes);
      m.put = ++to.sent;
    }
  }
  void receive(message& m) const {
    mailbox& from = box(m.what.peer, rank_);
    if (from.taken == from.sent) return;
    if (from.bytes != m.what.count * bytes_of(m.what.type)) stop("a message has another length than its receive");
    if (from.bytes > 0) std::memcpy(m.what.out, from.data, from.bytes);
    ++from.taken;
    m.done = true;
  }

  int rank_, ranks_;
  std::size_t bytes_;
  void* base_;
};

int breaking() { return std::stoi(variable("SUBSTITUTE_BREAKS", "0")); }

std::atomic<int> made{0};  // groups of calls
thread_local int depth = 0;
thread_local nccl::communicator* grouped = nullptr;

}  // namespace

struct tutti::detail::nccl::communicator {
  std::shared_ptr<part> mine;
  bool joining = true, finalized = false;
  result state = result::success;
  std::string error{};
  int made = 0, looks = 0;
  std::vector<call> calls{};  // that are not on the stream yet
  stand_in_stream* stream = nullptr;
};

namespace {

result add(nccl::communicator* by, void* stream, call const& what) {
  if (depth == 0 || by->joining || by->finalized || (grouped != by && !by->calls.empty())) return result::usage;
  if (by->state != result::success) return by->state;
  grouped = by;
  by->stream = static_cast<stand_in_stream*>(stream);
  by->calls.push_back(what);
  return result::success;
}

}  // namespace

extern "C" {

int substitute_calls() { return made; }

result ncclGetVersion(int* out) {
  *out = std::stoi(variable("SUBSTITUTE_VERSION", "22809"));
  return result::success;
}
result ncclGetUniqueId(nccl::unique_id* out) {
  static std::atomic<int> next{0};
  std::string const path =
      variable("SUBSTITUTE_FOLDER", "/tmp") + "/" + std::to_string(::getpid()) + "-" + std::to_string(next++);
  ::close(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  *out = {};
  path.copy(out->internal, sizeof out->internal - 1);
  return result::success;
}
result ncclCommInitRankConfig(nccl::communicator** out, int ranks, nccl::unique_id id, int rank, nccl::settings* how) {
  if (how->magic != 0xcafebeef || how->size != sizeof *how || how->blocking != 0) return result::argument;
  *out = new nccl::communicator{.mine = std::make_shared<part>(id.internal, ranks, rank)};
  if (std::string const why = variable("SUBSTITUTE_REFUSES", ""); !why.empty()) {
    (*out)->error = why;
    (*out)->state = result::usage;
  } else {
    ++(*out)->mine->head().joined;
  }
  return result::in_progress;
}
result ncclCommGetAsyncError(nccl::communicator* by, result* out) {
  *out = by->state;
  if (by->state != result::success) return result::success;
  if (by->joining) {
    by->joining = by->mine->head().joined < by->mine->ranks();
    *out = !by->joining ? result::success : by->mine->head().given_up ? result::remote : result::in_progress;
  } else if (!by->calls.empty()) {
    *out = result::in_progress;
    bool const counts = !by->stream->capturing(), breaks = by->made == breaking();
    if (counts) ++by->mine->running;
    by->stream->add([one = by->mine, calls = std::exchange(by->calls, {}), counts, breaks] {
      while (breaks && !one->aborted) std::this_thread::sleep_for(std::chrono::microseconds{20});
      one->run(calls);
      if (counts) --one->running;
    });
  } else if (by->made > 0 && by->made == breaking()) {
    if (by->looks++ > 0) *out = by->state = result::remote;
  } else if (by->finalized && by->mine->running > 0) {
    *out = result::in_progress;
  }
  return result::success;
}
result ncclCommFinalize(nccl::communicator* by) {
  by->finalized = true;
  return result::in_progress;
}
result ncclCommDestroy(nccl::communicator* by) {
  if (!by->finalized || by->mine->running > 0) stop("a communicator was destroyed before its calls had ended");
  delete by;
  return result::success;
}
result ncclCommAbort(nccl::communicator* by) {
  by->mine->aborted = true;
  if (by->joining) by->mine->head().given_up = true;
  delete by;
  return result::success;
}
char const* ncclGetErrorString(result what) {
  return what == result::remote ? "remote process exited or there was a network error" : "invalid usage";
}
char const* ncclGetLastError(nccl::communicator* by) { return by != nullptr ? by->error.c_str() : ""; }

result ncclGroupStart() {
  ++depth;
  return result::success;
}
result ncclGroupEnd() {
  if (--depth > 0 || grouped == nullptr) return result::success;
  nccl::communicator* const by = std::exchange(grouped, nullptr);
  ++made;
  if (++by->made == -breaking()) by->state = result::remote;
  return by->state != result::success ? by->state : result::in_progress;
}

result ncclAllReduce(void const* in, void* out, std::size_t n, data_type t, operation op, nccl::communicator* by,
                     void* stream) {
  return add(by, stream, {kind::all_reduce, in, out, n, t, op, -1});
}
result ncclReduce(void const* in, void* out, std::size_t n, data_type t, operation op, int root, nccl::communicator* by,
                  void* stream) {
  return add(by, stream, {kind::reduce, in, out, n, t, op, root});
}
result ncclReduceScatter(void const* in, void* out, std::size_t n, data_type t, operation op, nccl::communicator* by,
                         void* stream) {
  return add(by, stream, {kind::reduce_scatter, in, out, n, t, op, -1});
}
result ncclBroadcast(void const* in, void* out, std::size_t n, data_type t, int root, nccl::communicator* by,
                     void* stream) {
  return add(by, stream, {kind::broadcast, in, out, n, t, operation::none, root});
}
result ncclAllGather(void const* in, void* out, std::size_t n, data_type t, nccl::communicator* by, void* stream) {
  return add(by, stream, {kind::all_gather, in, out, n, t, operation::none, -1});
}
result ncclSend(void const* in, std::size_t n, data_type t, int peer, nccl::communicator* by, void* stream) {
  return add(by, stream, {kind::send, in, nullptr, n, t, operation::none, peer});
}
result ncclRecv(void* out, std::size_t n, data_type t, int peer, nccl::communicator* by, void* stream) {
  return add(by, stream, {kind::recv, nullptr, out, n, t, operation::none, peer});
}

}  // extern "C"
