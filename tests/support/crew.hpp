// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that a thread keeps for work that it gives to many at once. To start threads each time takes longer than most such
// work, above all under sanitizers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace tutti::testing {

class crew {
 public:
  using work = std::function<void(std::size_t)>;

  // The crew of the calling thread.
  static crew& of_this_thread() {
    thread_local owner mine;
    if (mine.own == nullptr || mine.own->process_ != ::getpid()) mine.own = new crew;
    return *mine.own;
  }
  crew(crew const&) = delete;
  crew& operator=(crew const&) = delete;

  // Calls f(0), ..., f(count - 1), each on a thread of its own. Members share nothing but f, so that ThreadSanitizer sees no
  // order between them.
  void run(std::size_t count, work const& f) {
    while (members_.size() < count) members_.emplace_back(members_.size());
    for (std::size_t k = 0; k < count; ++k) members_[k].give(&f);
    for (std::size_t k = 0; k < count; ++k) members_[k].wait();
  }

 private:
  class member {
   public:
    explicit member(std::size_t number) : thread_([this, number] { serve(number); }) {}
    member(member const&) = delete;
    member& operator=(member const&) = delete;
    ~member() {
      work const end;
      give(&end);
      thread_.join();
    }

    void give(work const* f) {
      std::lock_guard const lock(guard_);
      given_ = f;
      changed_.notify_one();
    }
    void wait() {
      std::unique_lock lock(guard_);
      changed_.wait(lock, [this] { return given_ == nullptr; });
    }

   private:
    void serve(std::size_t number) {
      for (std::unique_lock lock(guard_);;) {
        changed_.wait(lock, [this] { return given_ != nullptr; });
        work const& f = *given_;
        if (!f) return;
        lock.unlock();
        f(number);
        lock.lock();
        given_ = nullptr;
        changed_.notify_one();
      }
    }

    std::mutex guard_;
    std::condition_variable changed_;
    work const* given_ = nullptr;
    std::thread thread_;  // the last member: it uses all others
  };

  // A process that was forked has none of the threads, so it leaves such a crew as it is.
  struct owner {
    crew* own = nullptr;
    owner() = default;
    owner(owner const&) = delete;
    owner& operator=(owner const&) = delete;
    ~owner() {
      if (own != nullptr && own->process_ == ::getpid()) delete own;
    }
  };

  crew() = default;

  pid_t process_ = ::getpid();
  std::deque<member> members_;
};

}  // namespace tutti::testing
