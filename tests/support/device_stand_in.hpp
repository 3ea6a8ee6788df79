// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device for tests on machines without one: its memory is the host's, and a launch calls the members of a grid one
// after the other. Blocks of a cooperative launch are threads, and so are their members.
#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstring>
#include <deque>
#include <new>

#include "support/crew.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::testing {

struct grid_member {
  static constexpr std::size_t block_bytes = 16;
  int rank_, size_;
  int rank() const { return rank_; }
  int size() const { return size_; }
};

struct block_member {
  static constexpr int warp = 1, most = 4;  // members
  template <class T>
  struct reduction {
    T of[most];
    template <class F>
    T of_all(block_member const& member, T const& x, F const& f) {
      member.sync();  // all have read what there was before
      of[member.rank()] = x;
      member.sync();
      T out = of[0];
      for (int k = 1; k < member.size(); ++k) out = f(out, of[k]);
      return out;
    }
  };

  int rank_, size_, block_;
  std::barrier<>* meeting;
  std::atomic<bool>* vote;
  int rank() const { return rank_; }
  int size() const { return size_; }
  int block() const { return block_; }
  void sync() const { meeting->arrive_and_wait(); }
  bool any(bool mine) const {
    if (mine) *vote = true;
    sync();
    bool const out = *vote;
    sync();
    if (rank_ == 0) *vote = false;
    sync();
    return out;
  }
};

struct device_stand_in {
  using stream_type = int;

  int threads = 1;
  int* launches = nullptr;
  int members = 2;    // of a block
  int at_once = 512;  // blocks

  void* allocate(std::size_t bytes) const { return ::operator new(bytes, std::align_val_t{256}); }
  void release(void* memory) const noexcept { ::operator delete(memory, std::align_val_t{256}); }
  void copy(stream_type, void* to, void const* from, std::size_t bytes) const {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void wait(stream_type, detail::deadline) const {}

  template <class Work>
  void launch(stream_type, std::size_t, Work const& work) const {
    if (launches != nullptr) ++*launches;
    for (int rank = 0; rank < threads; ++rank) work(grid_member{rank, threads});
  }

  int multiprocessors() const { return 2; }
  template <class Work>
  int blocks_at_once() const {
    return at_once;
  }
  template <class Work>
  void launch_together(stream_type, int blocks, Work const& work) const {
    using room = typename Work::template room<block_member>;
    static_assert(alignof(room) <= room_alignment);
    run_blocks(blocks, sizeof(room), &work, [](void const* what, block_member const& member, void* memory) {
      (*static_cast<Work const*>(what))(member, *static_cast<room*>(memory));
    });
  }

 private:
  static constexpr std::size_t room_alignment = 256;

  // Not a template, because tests launch hundreds of kernels that differ in their types.
  void run_blocks(int blocks, std::size_t room_bytes, void const* work,
                  void (*call)(void const* work, block_member const& member, void* room)) const {
    struct block {
      block(int size, std::size_t bytes)
          : meeting(size), room(::operator new(bytes, std::align_val_t{room_alignment})) {}
      block(block const&) = delete;
      block& operator=(block const&) = delete;
      ~block() { ::operator delete(room, std::align_val_t{room_alignment}); }
      std::barrier<> meeting;
      std::atomic<bool> vote{false};
      void* room;
    };
    if (launches != nullptr) ++*launches;
    std::deque<block> all;
    for (int b = 0; b < blocks; ++b) all.emplace_back(members, room_bytes);
    auto const size = static_cast<std::size_t>(members);
    crew::of_this_thread().run(all.size() * size, [&](std::size_t thread) {
      block& mine = all[thread / size];
      call(work,
           block_member{static_cast<int>(thread % size), members, static_cast<int>(thread / size), &mine.meeting,
                        &mine.vote},
           mine.room);
    });
  }
};
static_assert(detail::device<device_stand_in> && detail::cooperative_device<device_stand_in> &&
              detail::reducing_group<block_member>);

}  // namespace tutti::testing
