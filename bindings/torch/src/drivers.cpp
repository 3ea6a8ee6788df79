// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "drivers.hpp"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tutti_torch {
namespace {

// One thread drives at a time. When calls have ended, it hands over to another, and then completes their futures, whose callbacks may wait
// for calls. Never destroyed, because its threads sleep in it when the process ends.
class drivers {
 public:
  void add(std::shared_ptr<call> one) {
    std::lock_guard const lock(mutex_);
    if (stops_) return;
    calls_.push_back(std::move(one));
    if (idle_ == 0 && !is_driven_) start_thread();
    may_drive_.notify_one();
  }

  void stop() {
    std::unique_lock lock(mutex_);
    stops_ = true;
    rests_.wait_for(lock, std::chrono::seconds(10), [&] { return busy_ == 0; });  // a callback may never return
  }

  bool will_complete_some() {
    std::lock_guard const lock(mutex_);
    return !stops_ && (!calls_.empty() || busy_ > 0);
  }

 private:
  void start_thread() {
    std::thread([this] { run(); }).detach();
    ++idle_;  // the thread waits for the lock
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      may_drive_.wait(lock, [&] { return !is_driven_ && !calls_.empty() && !stops_; });
      is_driven_ = true;
      if (--idle_ == 0) start_thread();
      ++busy_;
      auto ended = drive_until_some_have_ended(lock);
      is_driven_ = false;
      may_drive_.notify_one();
      lock.unlock();
      for (auto const& one : ended) one->complete();
      ended.clear();
      lock.lock();
      --busy_;
      ++idle_;
      rests_.notify_all();
    }
  }

  std::list<std::shared_ptr<call>> drive_until_some_have_ended(std::unique_lock<std::mutex>& lock) {
    std::list<std::shared_ptr<call>> ended;
    while (ended.empty() && !stops_) {
      auto const first = calls_.front();
      lock.unlock();
      first->advance(std::chrono::milliseconds(1));  // and with it all others of the process
      lock.lock();
      for (auto i = calls_.begin(); i != calls_.end();) {
        auto const next = std::next(i);
        if ((*i)->works_have_ended()) ended.splice(ended.end(), calls_, i);
        i = next;
      }
    }
    return ended;
  }

  std::mutex mutex_;
  std::condition_variable may_drive_;
  std::list<std::shared_ptr<call>> calls_;
  int idle_ = 0, busy_ = 0;  // threads
  bool is_driven_ = false;   // by one of them
  bool stops_ = false;
  std::condition_variable rests_;
};

drivers* all = new drivers;

}  // namespace

void drive_in_background(std::shared_ptr<call> one) {
  // A forked child has none of the threads.
  static int const in_child = ::pthread_atfork(nullptr, nullptr, [] { all = new drivers; });
  static_cast<void>(in_child);
  all->add(std::move(one));
}

void stop_driving() { all->stop(); }

bool futures_are_driven() { return all->will_complete_some(); }

}  // namespace tutti_torch
