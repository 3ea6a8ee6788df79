// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on memory of devices among processes of one node, which read each other's memory. Their streams wait for each
// other, kernels never do: processes that share a GPU take turns on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/algorithm/one_shot.hpp"
#include "tutti/collective/device_collectives.hpp"
#include "tutti/collective/device_group.hpp"
#include "tutti/collective/device_work.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/cuda_combine.hpp"
#include "tutti/execute/cuda_jobs.hpp"
#include "tutti/execute/guarded_device.hpp"
#include "tutti/transport/device.hpp"

namespace tutti {

// Ranks that pass a buffer of their device each, one call after the other on any stream; see device_collectives.hpp for the
// calls. Every rank has an arena, memory of its device that its peers read: a call copies there what they need, in parts where
// it is larger, and each rank makes its own result out of the arenas of the others. What lies in a registered buffer is read
// where it is.
//
// Calls return before they have run and allocate nothing on the device. They may be captured in a graph, which all ranks launch
// where they would make the calls in it. All ranks make and end their cuda_ipc together, with arenas of the same size. What
// fails, a rank that is late, gone or makes another call included, is a fault of all ranks: streams go on, no call changes
// memory any more, and work and every later call throw it. Each element that the call should have written is as it was or right.
//
// Throws error: system, at all ranks, where one cannot share memory of its device; bad_argument; what all_gather throws.
//
//   tutti::cuda_device gpu(comm.local_rank() % tutti::cuda_device_count());
//   tutti::cuda_ipc ranks(comm, gpu);
//   tutti::all_reduce(ranks, in, out, tutti::sum{}, {.stream = stream});
//   tutti::work sum = ranks.work(stream);
//   sum.wait();
template <sharing_device D, transport Transport>
class cuda_ipc {
 public:
  using device_type = D;
  static constexpr std::size_t usual_arena = std::size_t{16} << 20;

  // Communicator and device outlive it.
  cuda_ipc(communicator<Transport>& comm, D const& on, std::size_t arena_bytes = usual_arena,
           std::source_location where = std::source_location::current())
      : comm_{comm}, on_{on} {
    if (size() > most_destinations)
      detail::refuse(rank(), join({size(), " ranks were to share memory of devices"}),
                     join({"let ", most_destinations, " ranks share it at most"}), where);
    if (size() > 1) group_.emplace(comm, on, arena_bytes, where);
  }

  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }
  D const& on() const noexcept { return on_; }

  // Ends when the stream has got through all that it was given by now, or at a fault, which it then throws.
  tutti::work work(stream_of<D> stream = {}, std::source_location where = std::source_location::current()) {
    detail::device_watch const* const watch = group_ ? &group_->watch() : nullptr;
    return works_.add(std::make_shared<detail::device_work<D>>(works_, on_, watch, stream, where));
  }

  // Memory of this rank's device that peers read where it is: the input of a call that is not in place, where all ranks pass the
  // same place of buffers that they have registered together; by two_shot also in place, and where the result is in such a
  // buffer too. A call then ends when all have read it. All ranks call it, each with a buffer of the same size, which must
  // outlive this.
  template <class T>
  void register_buffer(std::span<T> memory, std::source_location where = std::source_location::current()) {
    if (group_) group_->share(memory.data(), memory.size_bytes(), where);
  }
  // Such memory, which lives as long as this.
  template <element T>
  std::span<T> allocate(std::size_t count, std::source_location where = std::source_location::current()) {
    if (group_) return {reinterpret_cast<T*>(group_->allocate(count * sizeof(T), where)), count};
    alone_.emplace_back(on_, count * sizeof(T));
    return {reinterpret_cast<T*>(alone_.back().data()), count};
  }

  // How calls are carried out, and who is on which device.
  std::string explain() const {
    std::string out = join({"rank ", rank(), " of ", size(), " on ", std::string(on_.text()), ": "});
    if (!group_) return out + "one rank, a copy at most";
    out += join({"ranks read each other's memory, in parts of ", group_->arena_bytes(),
                 " bytes, and streams wait by words in memory of the host; all_reduce by two_shot from ",
                 two_shot_bytes(), " bytes on, all else by one_shot"});
    for (int q = 0; q < size(); ++q)
      if (q != rank()) out += join({"\nrank ", q, group_->same_device(q) ? ": the same device" : ": another device"});
    return out;
  }

  // -- For the collectives.
  template <collective C, class In, class Out, class Op>
  void combine(detail::device_call<D, In, Out> const& c, Op const& op) {
    auto const how = detail::in_stages<In>(op, size());
    if (!group_) {
      if (C == collective::exclusive_scan) return;
      In const* const sources[] = {c.in};
      Out* const to[] = {c.out};
      return cuda_combine(on_, c.how.stream, std::span<In const* const>(sources), std::span<Out* const>(to),
                          c.got.at(0, 0).count, how);
    }
    call now = begin<C>(c, name_of<Op>());
    if constexpr (C == collective::all_reduce)
      if (now.algorithm == algorithm_id::two_shot) return two_shot(c, now, how);
    one_shot_of<C>(c, now, [&](extent part, auto const& found) {
      std::vector<In const*> sources;
      peers const from = first_step<C>(c).from;
      for (int k = 0; k < from.count; ++k) sources.push_back(found(from.at(k, size())));
      extent const own = c.got.at(0, rank());
      std::size_t const n = std::min(part.count, own.count - std::min(own.count, part.begin));
      if (sources.empty() || n == 0) return;
      Out* const to[] = {c.out + own.begin + part.begin};
      cuda_combine(group_->guarded(), c.how.stream, std::span<In const* const>(sources), std::span<Out* const>(to), n,
                   how);
    });
  }

  template <collective C, class Word>
  void move(detail::device_call<D, Word, Word> const& c) {
    if (!group_) {
      if (c.in == nullptr || c.out == nullptr) return;
      detail::block_moves<Word> own{};
      own.add(c.in + c.given.at(0, 0).begin, c.out + c.got.at(0, 0).begin, c.got.at(0, 0).count);
      if (own.count > 0) on_.launch(c.how.stream, own.items(), own);
      return;
    }
    call now = begin<C>(c, {});
    one_shot_of<C>(c, now, [&](extent part, auto const& found) {
      detail::block_moves<Word> moves{};
      peers const from = first_step<C>(c).from;
      for (int k = 0; k < from.count; ++k) {
        int const q = from.at(k, size());
        extent const e = c.got.at(0, q);
        if (part.begin < e.count)
          moves.add(found(q), c.out + e.begin + part.begin, std::min(part.count, e.count - part.begin));
      }
      launch(moves, c.how.stream);
    });
  }

 private:
  using group_type = detail::device_group<D, Transport>;
  using registered_place = typename group_type::registered_place;

  // A call while its stream is told what to do.
  struct call {
    algorithm_id algorithm{};
    std::uint32_t fingerprint = 0;         // equal on all ranks
    std::uint32_t number = 0;              // what its stream is said to be in
    registered_place in{}, out{};          // what peers read where it is
    std::vector<stream_signal> signals{};  // not given to the stream yet
    bool begun = false;
  };

  // Elements in which parts are cut, so that all are aligned alike.
  static constexpr std::size_t grain = 16;

  // From there on two passes over less memory beat one pass over all, and one more wait. Not measured.
  std::size_t two_shot_bytes() const { return std::size_t{size() == 2 ? 1024u : 256u} << 10; }

  template <collective C>
  static step step_of(int rank, int ranks, int root) {
    return schedule<one_shot, C>{}.at({ranks, root, true}, {rank}, 0);
  }
  template <collective C, class In, class Out>
  step first_step(detail::device_call<D, In, Out> const& c) const {
    return step_of<C>(rank(), size(), c.what.root);
  }

  // -- What ranks agree on.

  algorithm_id choose(request const& r, std::source_location where) const {
    bool const two = r.what == collective::all_reduce;
    if (r.algorithm != algorithm_id::automatic) {
      if (r.algorithm == algorithm_id::one_shot || (two && r.algorithm == algorithm_id::two_shot)) return r.algorithm;
      detail::refuse(
          rank(), join({name(r.algorithm), " cannot be had for ", name(r.what), " among processes on devices"}),
          two ? "use one_shot or two_shot, or leave the choice to tutti" : "use one_shot, or leave the choice to tutti",
          where);
    }
    algorithm_id const wanted = comm_.group().environment.algorithms[r.what];
    if (wanted == algorithm_id::one_shot || (two && wanted == algorithm_id::two_shot)) return wanted;
    return two && r.bytes() >= two_shot_bytes() ? algorithm_id::two_shot : algorithm_id::one_shot;
  }

  // What the word `ready` says for a block of so many elements.
  static std::uint32_t value_of_block(std::uint32_t fingerprint, std::size_t count) {
    return static_cast<std::uint32_t>(mix(fingerprint, count)) | 1;
  }

  template <collective C, class In, class Out>
  call begin(detail::device_call<D, In, Out> const& c, std::string_view op) {
    auto& watch = group_->watch();
    watch.expect_no_fault(c.where);
    request r = c.what;
    r.algorithm = choose(r, c.where);
    call out{.algorithm = r.algorithm};
    find_registered<C>(c, out);
    std::uint64_t key = key_of(r);
    for (registered_place const* p : {&out.in, &out.out})
      if (*p) key = mix(mix(key, p->index), p->offset);
    out.fingerprint = static_cast<std::uint32_t>(key) | 1;
    out.number = out.fingerprint;
    if (r.ragged)
      for (int q = 0; q < size(); ++q)
        out.number = value_of_block(value_of_block(out.number, c.given.at(0, q).count), c.got.at(0, q).count);
    bool const captured = on_.capturing(c.how.stream);
    auto const expected = [&](int q) {
      bool const awaited = q != rank() && stands_in(first_step<C>(c).from, q);
      return awaited ? value_of_block(out.fingerprint, c.got.at(0, q).count) : 0;
    };
    std::chrono::nanoseconds const timeout = c.how.timeout.count() > 0 ? c.how.timeout : group_->timeout();
    watch.know(out.number, timeout, captured, expected);
    if (out.in) watch.know(end_of(out), timeout, captured, [](int) { return 0u; });
    introduce(r, out, c.type, op);
    watch.expect_same_call(sequence_, out.number, c.where);
    group_->order(c.how.stream);
    return out;
  }

  // What the stream is in while it waits for those that read this rank's buffer.
  static std::uint32_t end_of(call const& now) { return value_of_block(now.number, 1); }

  void introduce(request const& r, call const& now, std::string_view type, std::string_view op) {
    device_board const board = group_->board();
    plan const p{now.algorithm, protocol::automatic, now.fingerprint, {}, {}};
    board.name(rank(), r.type, type);
    board.name(rank(), r.op, op);
    board.introduce(rank(), now.number, to_words(r, p));
    if (now.in) board.introduce(rank(), end_of(now), to_words(r, p));
    board.note(rank(), ++sequence_, now.number);
  }

  // Peers read a registered buffer where it is, unless this rank writes to it before they have.
  template <collective C, class In, class Out>
  void find_registered(detail::device_call<D, In, Out> const& c, call& out) const {
    if (c.what.ragged || C == collective::scatter || C == collective::barrier) return;
    void const* const data = C == collective::broadcast && c.in == nullptr ? static_cast<void const*>(c.out) : c.in;
    std::size_t const bytes = c.given.end() * sizeof(In), out_bytes = c.got.end() * sizeof(Out);
    registered_place const in = group_->find_registered(data, bytes);
    if (!in) return;
    if (out.algorithm == algorithm_id::two_shot) {
      out.out = group_->find_registered(c.out, out_bytes);
      if (out.out) out.in = in;
      return;
    }
    auto const *const a = static_cast<std::byte const*>(data), *const b = reinterpret_cast<std::byte const*>(c.out);
    bool const apart = b == nullptr || a + bytes <= b || b + out_bytes <= a;
    if (apart || C == collective::broadcast) out.in = in;
  }

  bool stands_in(peers const& all, int q) const {
    for (int k = 0; k < all.count; ++k)
      if (all.at(k, size()) == q) return true;
    return false;
  }

  // -- What a stream is told.

  void write(call& now, std::atomic<std::uint32_t>& word, std::uint32_t value) {
    now.signals.push_back({stream_signal::kind::write, group_->on_device(word), value});
  }
  void wait(call& now, std::atomic<std::uint32_t>& word, std::uint32_t value) {
    now.signals.push_back({stream_signal::kind::wait, group_->on_device(word), value});
  }
  void give_signals(call& now, stream_of<D> stream) {
    if (!now.signals.empty()) on_.signal(stream, now.signals);
    now.signals.clear();
  }
  device_words& between(int from, int to) const { return group_->board().between(from, to); }
  template <class Moves>
  void launch(Moves const& moves, stream_of<D> stream) {
    if (moves.count > 0) group_->guarded().launch(stream, moves.items(), moves);
  }

  // This rank may write to its arena: all that it has shown was read. To those in `readers` it will show more.
  template <class Readers>
  void take_arena(call& now, Readers const& readers) {
    std::atomic<std::uint32_t>& state = group_->board().rank(rank()).now;
    if (!std::exchange(now.begun, true)) write(now, state, now.number);
    for (int q = 0; q < size(); ++q)
      if (q != rank()) wait(now, between(rank(), q).unread, 0);
    readers([&](int q, std::uint32_t) { write(now, between(rank(), q).unread, 1); });
  }
  // Shows what this rank has, and waits for what others show.
  template <class Readers, class Sources>
  void meet(call& now, std::size_t shot, Readers const& readers, Sources const& sources) {
    readers([&](int q, std::uint32_t value) { write(now, between(rank(), q).ready[shot], value); });
    sources([&](int q, std::uint32_t value) { wait(now, between(q, rank()).ready[shot], value); });
    sources([&](int q, std::uint32_t) { write(now, between(q, rank()).ready[shot], 0); });
  }
  // This rank has read. It is out of the call before it says so: then a peer may go on to the next.
  template <class Readers, class Sources>
  void finish(call& now, bool last, Readers const& readers, Sources const& sources) {
    std::atomic<std::uint32_t>& state = group_->board().rank(rank()).now;
    if (last) write(now, state, now.in ? end_of(now) : 0);
    sources([&](int q, std::uint32_t) { write(now, between(q, rank()).unread, 0); });
    if (!last || !now.in) return;
    readers([&](int q, std::uint32_t) { wait(now, between(rank(), q).unread, 0); });
    write(now, state, 0);
  }
  void end(call& now, stream_of<D> stream) {
    give_signals(now, stream);
    group_->note_end(stream);
  }

  // schedule<one_shot, C>, part by part: consume(part, found) makes this part of every block, where found(q) is what rank q has
  // for this one.
  template <collective C, class In, class Out, class Consume>
  void one_shot_of(detail::device_call<D, In, Out> const& c, call& now, Consume const& consume) {
    step const mine = first_step<C>(c);
    auto const p = static_cast<std::size_t>(size());
    std::size_t const slot = group_->arena_bytes() / (deals(C) ? p : 1) / detail::access_bytes * detail::access_bytes;
    std::size_t const fits = slot / sizeof(In), most = fits > grain ? fits / grain * grain : fits;
    std::size_t longest = 0;
    for (int k = 0; k < mine.to.count; ++k) longest = std::max(longest, c.given.at(0, mine.to.at(k, size())).count);
    for (int k = 0; k < mine.from.count; ++k) longest = std::max(longest, c.got.at(0, mine.from.at(k, size())).count);
    if (most == 0) too_small(sizeof(In), c.where);
    std::size_t const each = now.in ? std::max<std::size_t>(longest, 1) : most;

    for (std::size_t begin = 0; begin == 0 || begin < longest; begin += each) {
      extent const part{begin, each};
      // Blocks that are shorter take no part in later turns; in the first, all do.
      auto const each_of = [&](peers const& who, layout const& blocks) {
        return [&, this](auto const& f) {
          for (int k = 0; k < who.count; ++k) {
            int const q = who.at(k, size());
            std::size_t const n = blocks.at(0, q).count;
            if (q != rank() && (begin == 0 || begin < n)) f(q, value_of_block(now.fingerprint, n));
          }
        };
      };
      auto const readers = each_of(mine.to, c.given);
      auto const sources = each_of(mine.from, c.got);
      auto const block_for = [&](In const* base, int q) {
        return base + c.given.at(0, deals(C) ? q : rank()).begin + begin;
      };
      take_arena(now, readers);
      if (!now.in) show_part<C>(c, now, part, slot, readers);
      meet(now, 0, readers, sources);
      give_signals(now, c.how.stream);
      consume(part, [&](int q) -> In const* {
        if (q == rank()) return block_for(c.in, q);
        if (now.in) return block_for(reinterpret_cast<In const*>(now.in.at(q)), rank());
        return reinterpret_cast<In const*>(group_->arena(q) + (deals(C) ? static_cast<std::size_t>(rank()) * slot : 0));
      });
      finish(now, begin + each >= longest, readers, sources);
    }
    end(now, c.how.stream);
  }

  // Copies to the arena what peers need of a part of each block.
  template <collective C, class In, class Out, class Readers>
  void show_part(detail::device_call<D, In, Out> const& c, call& now, extent part, std::size_t slot,
                 Readers const& readers) {
    using word = detail::word_of<In>;
    detail::block_moves<word> moves{};
    readers([&](int q, std::uint32_t) {
      extent const e = c.given.at(0, q);
      std::size_t const n = std::min(part.count, e.count - part.begin);
      std::byte* const to = group_->arena(rank()) + (deals(C) ? static_cast<std::size_t>(q) * slot : 0);
      if (deals(C) || moves.count == 0)
        moves.add(reinterpret_cast<word const*>(c.in + e.begin + part.begin), reinterpret_cast<word*>(to),
                  n * detail::words_in<In>);
    });
    if (moves.count == 0) return;
    give_signals(now, c.how.stream);
    launch(moves, c.how.stream);
  }

  // schedule<two_shot, all_reduce>: each rank combines its chunk of all ranks, and then reads the chunks of the others.
  template <class In, class Out, class How>
  void two_shot(detail::device_call<D, In, Out> const& c, call& now, How const& how) {
    using word = detail::word_of<Out>;
    std::size_t const n = c.given.at(0, 0).count;
    std::size_t const half = group_->arena_bytes() / 2 / detail::access_bytes * detail::access_bytes;
    std::size_t const fits = half / std::max(sizeof(In), sizeof(Out)),
                      most = fits > grain ? fits / grain * grain : fits;
    if (most == 0) too_small(sizeof(In), c.where);
    std::size_t const each = now.in ? std::max<std::size_t>(n, 1) : most;
    auto const others = [&](auto const& f) {
      for (int q = 0; q < size(); ++q)
        if (q != rank()) f(q, value_of_block(now.fingerprint, n));
    };
    for (std::size_t begin = 0; begin == 0 || begin < n; begin += each) {
      std::size_t const count = std::min(each, n - begin);
      auto const input_of = [&](int q) {
        if (q == rank()) return c.in + begin;
        return reinterpret_cast<In const*>(now.in ? now.in.at(q) : group_->arena(q)) + (now.in ? begin : 0);
      };
      auto const result_of = [&](int q) {
        return reinterpret_cast<Out*>(now.out ? now.out.at(q) : group_->arena(q) + half) + (now.out ? begin : 0);
      };
      take_arena(now, others);
      if (!now.in) show_part<collective::all_reduce>(c, now, {begin, count}, 0, others);
      meet(now, 0, others, others);
      give_signals(now, c.how.stream);
      extent const own = part(count, size(), rank(), grain);
      if (own.count > 0) {
        std::vector<In const*> sources;
        for (int q = 0; q < size(); ++q) sources.push_back(input_of(q) + own.begin);
        std::vector<Out*> to{c.out + begin + own.begin};
        if (!now.out) to.push_back(result_of(rank()) + own.begin);
        cuda_combine(group_->guarded(), c.how.stream, std::span<In const* const>(sources), std::span<Out* const>(to),
                     own.count, how);
      }
      meet(now, 1, others, others);
      give_signals(now, c.how.stream);
      detail::block_moves<word> moves{};
      others([&](int q, std::uint32_t) {
        extent const theirs = part(count, size(), q, grain);
        moves.add(reinterpret_cast<word const*>(result_of(q) + theirs.begin),
                  reinterpret_cast<word*>(c.out + begin + theirs.begin), theirs.count * detail::words_in<Out>);
      });
      launch(moves, c.how.stream);
      finish(now, begin + each >= n, others, others);
    }
    end(now, c.how.stream);
  }

  [[noreturn, gnu::cold]] void too_small(std::size_t bytes, std::source_location where) const {
    detail::refuse(
        rank(),
        join({"an element of ", bytes, " bytes does not fit into its part of an arena of ", group_->arena_bytes()}),
        "give cuda_ipc a larger arena", where);
  }

  communicator<Transport>& comm_;
  D const& on_;
  std::optional<group_type> group_;  // none for one rank
  std::vector<device_array<D, std::byte>> alone_;
  detail::device_works<D> works_;
  std::uint64_t sequence_ = 0;
};

}  // namespace tutti
