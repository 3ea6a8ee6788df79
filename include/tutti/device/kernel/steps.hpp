// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any schedule on devices, with one launch per device. The leader of each block walks the schedule by the same `execution` as on
// the host, and posts the elements to combine to the members of its block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/concept.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/kernel/combining.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/execute/host.hpp"

namespace tutti::detail {

static_assert(device_tracks == max_tracks && max_device_ranks <= max_destinations);

// The chunks of a block, in a table so that nothing is divided on the device: the part of `layout` that an execution needs.
class chunk_table {
 public:
  TUTTI_HOST_DEVICE chunk_table() : chunks_(nullptr), parts_(0), origin_(0) {}
  TUTTI_HOST_DEVICE chunk_table(extent const* chunks, int parts, std::size_t origin)
      : chunks_(chunks), parts_(parts), origin_(origin) {}

  TUTTI_HOST_DEVICE int parts() const { return parts_; }
  TUTTI_HOST_DEVICE extent at(int lane, int chunk) const {
    extent const& there = chunks_[lane * parts_ + chunk];
    return {there.begin - origin_, there.count};
  }
  TUTTI_HOST_DEVICE std::size_t count(int lane, chunks const& what) const {
    std::size_t sum = 0;
    for (int k = 0; k < what.count; ++k) sum += at(lane, what.at(k, parts_)).count;
    return sum;
  }

 private:
  extent const* chunks_;
  int parts_;
  std::size_t origin_;
};

// op.prepare for a single source, and op.finish if the result is complete.
template <class T, class Op>
struct prepared_one {
  prepared<T, Op> all;
  int source;

  template <class A>
  TUTTI_HOST_DEVICE A operator()(int k, A const& x) const {
    return k == source ? all(x) : x;
  }
};
template <class Op>
struct finished_if_complete {
  finished<Op> all;

  template <class A>
  TUTTI_HOST_DEVICE A operator()(A const& x) const {
    return all.ranks > 0 ? all(x) : x;
  }
};
template <class T, class Op>
TUTTI_HOST_DEVICE auto prologue_at(Op const& op, stage how) {
  if constexpr (has_prepare<Op, accumulator_for<Op, T>>) return prepared_one<T, Op>{{op}, how.prepare};
  else return unchanged{};
}
template <class T, class Op>
TUTTI_HOST_DEVICE auto epilogue_at(Op const& op, stage how) {
  if constexpr (has_finish<Op, accumulator_for<Op, T>>) return finished_if_complete<Op>{{op, how.finish}};
  else return unchanged{};
}

// A pass of combine that the members of a block do together.
template <class T>
struct block_job {
  T const* sources[max_device_ranks];
  T* destinations[max_device_ranks];
  int source_count;  // 0: no more jobs
  int destination_count;
  std::size_t n;
  stage how;
};

// The body of an execution whose elements are combined by a block. The leader calls it, the other members `follow`. The warp of
// the leader does nothing else, so the combining code is compiled once and no warp diverges.
template <class T, class Op, bool Reduces, block_group Group>
class block_body {
 public:
  using element = T;

  TUTTI_HOST_DEVICE static constexpr bool prepares() { return has_prepare<Op, accumulator_for<Op, T>>; }
  TUTTI_HOST_DEVICE static constexpr std::size_t alignment() { return alignof(T); }
  // How many whole elements fit into these bytes.
  TUTTI_HOST_DEVICE static constexpr std::size_t whole_elements(std::size_t bytes) { return bytes / sizeof(T); }

  TUTTI_HOST_DEVICE block_body(Group const& group, Op const& op, block_job<T>& job)
      : group_(group), op_(op), job_(job) {}

  TUTTI_HOST_DEVICE void operator()(T const* const* sources, int source_count, T* const* destinations,
                                    int destination_count, std::size_t n, stage how) const noexcept {
    for (int k = 0; k < source_count; ++k) job_.sources[k] = sources[k];
    for (int k = 0; k < destination_count; ++k) job_.destinations[k] = destinations[k];
    job_.source_count = source_count;
    job_.destination_count = destination_count;
    job_.n = n;
    job_.how = how;
    group_.sync();
    group_.sync();
  }
  TUTTI_HOST_DEVICE void end_jobs() const {
    job_.source_count = 0;
    group_.sync();
  }
  TUTTI_HOST_DEVICE void follow() const {
    while (true) {
      group_.sync();
      if (job_.source_count == 0) return;
      if (group_.rank() >= Group::warp) work({group_.rank() - Group::warp, group_.size() - Group::warp, 0, 1});
      group_.sync();
    }
  }

 private:
  TUTTI_HOST_DEVICE void work(team const& me) const {
    if constexpr (Reduces) {
      if (job_.source_count == 2) return combine_from<2>(me);
      if (job_.source_count != 1) return combine_from<0>(me);
    }
    combine_from<1>(me);
  }
  template <int FanIn>
  TUTTI_HOST_DEVICE void combine_from(team const& me) const {
    auto const from = [this](int k) { return job_.sources[k]; };
    auto const to = [this](int k) { return job_.destinations[k]; };
    auto const before = prologue_at<T>(op_, job_.how);
    auto const after = epilogue_at<T>(op_, job_.how);
    using stages = fused<Op, std::remove_const_t<decltype(before)>, std::remove_const_t<decltype(after)>>;
    stages const how{op_, before, after};
    combining<FanIn, decltype(from), decltype(to), stages>{from, job_.source_count, to, job_.destination_count, job_.n,
                                                           how}(me);
  }

  Group group_;
  Op const& op_;
  block_job<T>& job_;
};

// Messages go through slots although ranks could read each other's buffers in place (`direct`, as on the host), because slots are
// cheap here. With p ranks, an all_reduce of n elements by a ring accesses memory (6 - 4/p) n times per rank. Of these, 2 n are in
// the caller's buffers: input read once, output written once. The rest are in the slots in use, half a megabyte per rank, which
// stay in the cache of the device. In place there would be (5 - 5/p) n accesses, all in buffers: more memory traffic if these are
// larger than the cache. Besides, partial results need memory that is reused, which is slots again; a reader has to acknowledge
// before the buffer changes; and over a link, loads wait for an answer and stores do not. Where all ranks read an array once,
// one_shot and two_shot among processes do read registered buffers in place.
//
// Results have the same bits as an execution of the schedule on the host. Each chunk is divided among the blocks of a rank, which
// are independent: each has its own channels, as if it made a call of its own.
template <collective C, class Schedule, class T, class Op, class Reach = one_device>
struct steps_work {
  T const* in[max_device_ranks];  // of the ranks of this launch
  T* out[max_device_ranks];
  int first;  // of them
  std::byte* scratch;
  std::size_t scratch_bytes;  // per rank
  channel_map channels;
  Reach reach;
  std::uint32_t tag;  // of all messages of the call
  shape of;
  layout whole;  // of the message, or of the blocks of all ranks
  int blocks;    // per rank
  Op op;

  static constexpr bool combines = tutti::reduces(C), by_blocks = by_block(C);
  static constexpr bool has_all_in = !by_blocks || deals(C), has_all_out = !by_blocks || collects(C);
  using mailbox = device_mailbox<Reach::scope>;
  // The largest number of chunks in all lanes of a schedule.
  static constexpr int max_chunks = 2 * max_device_ranks;
  // Parts of blocks are multiples of this number of elements, so that they are aligned like their chunk.
  static constexpr std::size_t grain = sizeof(T) < device_line ? device_line / sizeof(T) : 1;
  static constexpr int blocks_together = 2;  // per multiprocessor: 128 registers per thread are enough for any schedule
  TUTTI_HOST_DEVICE static constexpr bool one_slice(Schedule const& s, shape const& of) {
    return s.pipelined && s.phases(of) == 1;
  }

  template <class Group>
  using body = block_body<T, Op, combines, Group>;
  template <class Group>
  using engine = execution<mailbox, Schedule, body<Group>, chunk_table>;

  // Everything that the leader walks with is in the shared memory of the block. On its stack, it would be in local memory, as
  // whatever has an address or an index that is known only at run time.
  template <class Group>
  struct room {
    extent chunks[max_chunks];
    block_job<T> job;
    alignas(std::max_align_t) std::byte lists[sizeof(typename traffic<mailbox, T>::fan)];
    alignas(std::max_align_t) std::byte mail[sizeof(mailbox)], memory[sizeof(surfaces<T, chunk_table>)],
        steps[sizeof(engine<Group>)];
  };

  template <block_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>& shared) const {
    int const rank = first + group.block() / blocks, block = group.block() % blocks;
    int const chunks = whole.parts(), all = chunks * Schedule{}.lanes(of);
    for (int k = group.rank(); k < all; k += group.size()) {
      extent const chunk = whole.at(k / chunks, k % chunks), mine = part(chunk.count, blocks, block, grain);
      shared.chunks[k] = {chunk.begin + mine.begin, mine.count};
    }
    group.sync();
    body<Group> const together(group, op, shared.job);
    if (group.rank() != 0) return together.follow();
    lead(together, rank, block, shared);
    together.end_jobs();
  }

 private:
  template <class Group>
  TUTTI_HOST_DEVICE void lead(body<Group> const& together, int rank, int block, room<Group>& shared) const {
    if constexpr (may_give_up<Reach>) {
      if (block == 0) reach.enter();
      if (!reach.seen->known()) walk(together, rank, block, shared);
      reach.leave(blocks);
    } else {
      walk(together, rank, block, shared);
    }
  }
  template <class Group>
  TUTTI_HOST_DEVICE void walk(body<Group> const& together, int rank, int block, room<Group>& shared) const {
    Schedule const schedule{};
    std::size_t const slice = channels.slice / sizeof(T);
    std::size_t const own_begin = by_blocks ? whole.at(0, rank).begin : 0;
    chunk_table const all(shared.chunks, whole.parts(), 0), own(shared.chunks, whole.parts(), own_begin);
    auto& memory = *::new (&shared.memory) surfaces<T, chunk_table>{
        .input = {in[rank], has_all_in ? all : own},
        .output = {out[rank], has_all_out ? all : own},
        .scratch = {schedule.scratch
                        ? reinterpret_cast<T*>(scratch + static_cast<std::size_t>(rank - first) * scratch_bytes)
                        : nullptr,
                    all}};
    if (schedule.scratch && one_slice(schedule, of)) {
      memory.scratch.slice = slice;
      memory.scratch.data += static_cast<std::size_t>(block * schedule.lanes(of)) * slice;
    }
    auto& mail = *::new (&shared.mail) mailbox(channels, rank, block, shared.lists);
    auto& steps = *::new (&shared.steps) engine<Group>(mail, nullptr, schedule, of, memory, together, tag,
                                                       {.slice = slice * sizeof(T)}, false);
    polling_wait<Reach> wait(reach, channels.timeout);
    for (progress last = steps.poll(); last != progress::done; last = steps.poll()) {
      if (last != progress::stuck) wait.restart();
      else if (!wait.keep_polling()) return;
    }
    if (!steps.found()) return;
    // A message of another call. If ranks are watched, wait until the watch raises the mismatch or a timeout.
    if constexpr (!may_give_up<Reach>) abort_kernel();
    while (wait.keep_polling()) {
    }
  }
};

}  // namespace tutti::detail
