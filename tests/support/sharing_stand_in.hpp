// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device for tests whose streams run by themselves, each in a thread of its own, and whose memory other processes can open.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "support/device_stand_in.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/staging_device.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::testing {

// Runs its work in order, later. It can be captured instead, together with the work of streams that follow it, and
// replayed any number of times.
class stand_in_stream {
 public:
  using task = std::function<void()>;
  using graph = std::vector<std::pair<stand_in_stream*, task>>;

  stand_in_stream() : thread_{[this] { run(); }} {}
  stand_in_stream(stand_in_stream const&) = delete;
  stand_in_stream& operator=(stand_in_stream const&) = delete;
  // When all that it was given is done.
  ~stand_in_stream() {
    give_to_thread([this] { ended_ = true; });
    thread_.join();
  }

  void add(task work) {
    if (origin_ != nullptr) origin_->captured_.emplace_back(this, std::move(work));
    else give_to_thread(std::move(work));
  }
  // How far it is. Others may look when it is there no more.
  struct counts {
    std::atomic<std::uint64_t> given{0}, done{0};
  };
  std::shared_ptr<counts const> how_far() const { return how_far_; }

  void begin_capture() { join_capture(*this); }
  graph end_capture() {
    for (stand_in_stream* const stream : joined_) stream->origin_ = nullptr;
    joined_.clear();
    return std::exchange(captured_, {});
  }
  void join_capture(stand_in_stream& origin) {
    if (origin_ == nullptr) origin.joined_.push_back(this);
    origin_ = &origin;
  }
  bool capturing() const { return origin_ != nullptr; }
  stand_in_stream* origin() const { return origin_; }
  static void launch(graph const& all) {
    for (auto const& [stream, work] : all) stream->give_to_thread(work);
  }

 private:
  void give_to_thread(task work) {
    {
      std::lock_guard const lock(guard_);
      tasks_.push_back(std::move(work));
      ++how_far_->given;
    }
    changed_.notify_one();
  }
  void run() {
    while (!ended_) {
      task work;
      {
        std::unique_lock lock(guard_);
        changed_.wait(lock, [this] { return !tasks_.empty(); });
        work = std::move(tasks_.front());
        tasks_.pop_front();
      }
      work();
      ++how_far_->done;
    }
  }

  std::mutex guard_;
  std::condition_variable changed_;
  std::deque<task> tasks_;
  stand_in_stream* origin_ = nullptr;  // where a capture that it is part of began
  graph captured_;
  std::vector<stand_in_stream*> joined_;
  std::shared_ptr<counts> how_far_ = std::make_shared<counts>();
  bool ended_ = false;
  std::thread thread_;  // the last member: it uses all others
};

// The operations that it rejects on purpose.
struct stand_in_refusals {
  bool memory = false;  // that is allocated
  bool sharing = false;
  bool opening = false;
  bool reaching = false;
  bool launching = false;
  bool copying = false;
};

// A place in a stream, which it may come by more than once where it is captured.
struct stand_in_mark {
  std::atomic<std::uint64_t> passed{0};
  stand_in_stream* captured_by = nullptr;
};

// It is made after a fork. A stream that is null is one that it owns.
class sharing_stand_in {
 public:
  using stream_type = stand_in_stream*;
  using event_type = std::shared_ptr<stand_in_mark>*;

  stand_in_refusals refuses{};
  int threads = 3;
  int at_once = 64;                               // blocks
  int number = 0;                                 // objects of one number are one device
  mutable std::atomic<std::size_t> signalled{0};  // operations on words that its streams were given
  mutable std::atomic<std::size_t> by_host{0};    // bytes that were copied to or from pinned memory
  bool allocates_when_idle = false;  // as CUDA may: when no kernel of the process runs that waits for others

  sharing_stand_in() = default;
  explicit sharing_stand_in(stand_in_refusals what) : refuses{what} {}
  explicit sharing_stand_in(int which) : number{which} {}

  void* allocate(std::size_t bytes) const {
    if (refuses.memory) throw_refused("memory");
    if (allocates_when_idle) wait_until([] { return kernels_that_wait() == 0; });
    std::size_t const all = (bytes + 4096) / 4096 * 4096;
    detail::descriptor file(::memfd_create("stand-in", MFD_CLOEXEC));
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(all)) != 0)
      detail::throw_system("no memory of a stand-in", "");
    void* const out = map(file.get(), all);
    std::lock_guard const lock(guard_);
    memory_[static_cast<std::byte*>(out)] = {std::move(file), all, false};
    return out;
  }
  // As cudaFree: when the device has done what it was given before. Nobody may have the memory open then.
  void release(void* memory) const noexcept {
    for (auto const& stream : used_streams()) {
      std::uint64_t const all = stream->given;
      wait_until([&] { return stream->done >= all; });
    }
    if (opened_here().has(memory)) {
      std::fputs("memory of a stand-in was released while another rank had it open\n", stderr);
      std::abort();
    }
    std::lock_guard const lock(guard_);
    auto const entry = memory_.find(static_cast<std::byte*>(memory));
    ::munmap(memory, entry->second.bytes);
    memory_.erase(entry);
  }
  void* allocate_pinned(std::size_t bytes) const {
    void* const out = allocate(bytes);
    std::lock_guard const lock(guard_);
    memory_[static_cast<std::byte*>(out)].pinned = true;
    return out;
  }
  void release_pinned(void* memory) const noexcept { release(memory); }
  void copy(stream_type stream, void* to, void const* from, std::size_t bytes) const {
    if (refuses.copying) throw_refused("to copy");
    if (is_pinned(to) || is_pinned(from)) by_host += bytes;
    here(stream).add([=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  template <class Work>
  void launch(stream_type stream, std::size_t, Work const& work) const {
    here(stream).add([work, n = threads] {
      for (int rank = 0; rank < n; ++rank) work(grid_member{rank, n});
    });
  }
  void wait(stream_type stream, detail::deadline until) const {
    auto const how_far = here(stream).how_far();
    std::uint64_t const all = how_far->given;
    wait_until([&] {
      if (how_far->done >= all) return true;
      if (until.passed()) throw error({.code = error_code::timeout, .what = "the stand-in's stream has not ended"});
      return false;
    });
  }

  // The number of pieces of memory that it has allocated and not released.
  std::size_t allocated() const {
    std::lock_guard const lock(guard_);
    return memory_.size();
  }

  int multiprocessors() const { return 2; }
  template <class Work>
  int blocks_at_once() const {
    return at_once;
  }
  template <class Work>
  void launch_together(stream_type stream, int blocks, Work const& work) const {
    if (refuses.launching) throw_refused("to launch a kernel");
    here(stream).add([work, blocks] {
      ++kernels_that_wait();
      device_stand_in{}.launch_together({}, blocks, work);
      --kernels_that_wait();
    });
  }

  stream_type make_stream() const { return new stand_in_stream; }
  void end_stream(stream_type stream) const noexcept { delete stream; }
  bool same_as(sharing_stand_in const& other) const { return number == other.number; }
  void reach(sharing_stand_in const& other) const {
    if (refuses.reaching) throw_refused("to reach device " + std::to_string(other.number));
  }

  // One place that no device can access.
  void const* forbidden = nullptr;
  std::optional<detail::memory_objection> objection_to(void const* memory,
                                                       std::span<sharing_stand_in const* const> users) const {
    if (memory != forbidden) return {};
    return detail::memory_objection{detail::join({"cannot be accessed by ", users.size(), " stand-ins"}),
                                    "pass other memory"};
  }

  event_type make_event() const {
    auto* const out = new std::shared_ptr(std::make_shared<stand_in_mark>());
    (*out)->passed = 1;
    return out;
  }
  void drop(event_type event) const noexcept { delete event; }
  void record(event_type event, stream_type stream) const {
    *event = std::make_shared<stand_in_mark>();
    (*event)->captured_by = here(stream).origin();
    here(stream).add([mark = *event] { ++mark->passed; });
  }
  void follow(stream_type stream, event_type event) const {
    if ((*event)->captured_by != nullptr) here(stream).join_capture(*(*event)->captured_by);
    here(stream).add([mark = *event, turn = std::make_shared<std::uint64_t>(0)] {
      ++*turn;
      wait_until([&] { return mark->passed >= *turn; });
    });
  }
  bool reached(event_type event) const { return (*event)->passed > 0; }
  bool capturing(stream_type stream) const { return here(stream).capturing(); }

  detail::device_memory_handle share(void* memory) const {
    if (refuses.sharing) throw_refused("to share memory");
    std::lock_guard const lock(guard_);
    auto const entry = std::prev(memory_.upper_bound(static_cast<std::byte*>(memory)));
    detail::device_memory_handle out{.address = memory, .process = ::getpid()};
    out.owner[0] = static_cast<std::byte>(number);
    out.offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - entry->first);
    piece const what{entry->second.file.get(), entry->second.bytes};
    std::memcpy(out.token.data(), &what, sizeof what);
    return out;
  }
  void* open(detail::device_memory_handle const& handle) const {
    if (refuses.opening) throw_refused("to open memory of another process");
    if (handle.process == ::getpid()) {
      opened_here().change(begin_of(handle), 1);
      return handle.address;
    }
    piece const what = piece_of(handle);
    std::string const path = detail::join({"/proc/", handle.process, "/fd/", what.file});
    detail::descriptor const file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file) detail::throw_system("cannot open " + path, "");
    return static_cast<std::byte*>(map(file.get(), what.bytes)) + handle.offset;
  }
  void close(detail::device_memory_handle const& handle, void* memory) const noexcept {
    if (handle.process == ::getpid()) opened_here().change(begin_of(handle), -1);
    else ::munmap(static_cast<std::byte*>(memory) - handle.offset, piece_of(handle).bytes);
  }
  void* expose(void* memory, std::size_t) const { return memory; }
  void hide(void*) const noexcept {}

  void signal(stream_type stream, std::span<detail::stream_signal const> signals) const {
    signalled += signals.size();
    here(stream).add([all = std::vector(signals.begin(), signals.end())] {
      for (detail::stream_signal const& s : all) {
        std::atomic_ref const word(*s.word);
        if (s.what == detail::stream_signal::kind::write) word.store(s.value);
        else wait_until([&] { return word.load() == s.value; });
      }
    });
  }
  template <class Work>
  void launch_unless(stream_type stream, std::uint32_t const* unless, std::size_t, Work const& work) const {
    if (refuses.launching) throw_refused("to launch a kernel");
    here(stream).add([work, unless, n = threads] {
      if (__atomic_load_n(unless, __ATOMIC_SEQ_CST) != 0) {
        if constexpr (requires { work.skipped(); }) work.skipped();
        return;
      }
      for (int rank = 0; rank < n; ++rank) work(grid_member{rank, n});
    });
  }
  std::string text() const { return "a stand-in"; }

 protected:
  stand_in_stream& here(stream_type stream) const {
    stand_in_stream& out = stream != nullptr ? *stream : own_;
    std::lock_guard const lock(guard_);
    if (auto const& its = out.how_far(); std::ranges::find(used_, its) == used_.end()) used_.push_back(its);
    return out;
  }

 private:
  static std::atomic<int>& kernels_that_wait() {
    static std::atomic<int> running{0};
    return running;
  }

  struct piece {
    int file;
    std::size_t bytes;
  };
  struct owned {
    detail::descriptor file;
    std::size_t bytes = 0;
    bool pinned = false;
  };
  bool is_pinned(void const* at) const {
    std::lock_guard const lock(guard_);
    auto const* const here = static_cast<std::byte const*>(at);
    auto const after = memory_.upper_bound(const_cast<std::byte*>(here));
    if (after == memory_.begin()) return false;
    auto const& [begin, what] = *std::prev(after);
    return what.pinned && here < begin + what.bytes;
  }
  // How often ranks of this process have opened memory of each other.
  class open_counts {
   public:
    void change(void const* memory, int by) {
      std::lock_guard const lock(guard_);
      if ((all_[memory] += by) == 0) all_.erase(memory);
    }
    bool has(void const* memory) {
      std::lock_guard const lock(guard_);
      return all_.contains(memory);
    }

   private:
    std::mutex guard_;
    std::map<void const*, int> all_;
  };
  static open_counts& opened_here() {
    static auto* const out = new open_counts;
    return *out;
  }
  static void const* begin_of(detail::device_memory_handle const& handle) {
    return static_cast<std::byte const*>(handle.address) - handle.offset;
  }

  static piece piece_of(detail::device_memory_handle const& handle) {
    piece out;
    std::memcpy(&out, handle.token.data(), sizeof out);
    return out;
  }
  static void* map(int file, std::size_t bytes) {
    void* const out = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (out == MAP_FAILED) detail::throw_system("cannot map memory of a stand-in", "");
    return out;
  }
  [[noreturn]] static void throw_refused(std::string const& what) {
    throw error({.code = error_code::system, .what = "the stand-in refuses " + what, .way_out = "let it"});
  }
  template <class Ready>
  static void wait_until(Ready const& ready) {
    for (int i = 0; !ready(); ++i) {
      if (i < 100) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
  }
  std::vector<std::shared_ptr<stand_in_stream::counts const>> used_streams() const {
    std::lock_guard const lock(guard_);
    return used_;
  }

  mutable std::mutex guard_;
  mutable std::map<std::byte*, owned> memory_;
  mutable std::vector<std::shared_ptr<stand_in_stream::counts const>> used_;
  mutable stand_in_stream own_;
};
static_assert(detail::sharing_device<sharing_stand_in> && detail::linked_device<sharing_stand_in> &&
              detail::cooperative_device<sharing_stand_in> && detail::staging_device<sharing_stand_in> &&
              detail::inspecting_device<sharing_stand_in>);

}  // namespace tutti::testing
