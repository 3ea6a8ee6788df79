// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls among ranks that read each other's device memory: the agreement of ranks before each call, and the words by
// which their streams synchronise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/algorithm/one_shot.hpp"
#include "tutti/call/arguments.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/ipc/group.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/watch/symmetric_places.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/fault/call_record.hpp"

namespace tutti::detail {

// What waits for other ranks in a call.
enum class waiting { streams, kernels };

template <sharing_device D, transport Transport>
class ipc_calls {
 public:
  using group_type = device_group<D, Transport>;
  using registered_place = typename peer_memory<D, Transport>::registered_place;

  // A call while work is given to its stream.
  struct call {
    std::uint32_t fingerprint = 0;         // equal on all ranks
    std::uint32_t number = 0;              // identifies the call in the rank's state on the board
    registered_place in{}, out{};          // buffers that peers read in place
    std::vector<stream_signal> signals{};  // not given to the stream yet
    bool begun = false;
  };

  ipc_calls(communicator<Transport>& comm, D const& on, std::size_t arena_bytes, std::source_location where)
      : on_{on}, rank_{comm.rank()}, size_{comm.size()}, group_(comm, on, arena_bytes, where) {}

  group_type& group() { return group_; }
  group_type const& group() const { return group_; }

  // The value of the word `ready` for a block of this many elements.
  static std::uint32_t value_of_block(std::uint32_t fingerprint, std::size_t count) {
    return static_cast<std::uint32_t>(mix(fingerprint, count)) | 1;
  }

  // -- Agreement.

  // `r`: what the caller passes, and the algorithm and protocol, where automatic means that ranks read each other's
  // memory. `awaits(q)`: whether this rank needs data of rank q.
  template <class In, class Out>
  call begin(device_call<D, In, Out> const& c, request const& r, std::string_view op, waiting who,
             function_ref<bool(int)> awaits) {
    return begin_bytes({c.type, c.given, c.got, c.how, c.where, c.in, sizeof(In), c.out, sizeof(Out)}, r, op, who,
                       awaits);
  }
  void end(call& current, stream_of<D> stream) {
    give_signals(current, stream);
    group_.note_end(stream);
  }
  // Gives work to the stream. A failure is a fault of all ranks, because others would wait for work that is missing.
  template <class Give>
  void or_fault_of_all(std::source_location where, Give&& give) {
    try {
      give();
    } catch (error const& e) {
      raise_for_all(e.code(), e.happened(), where);
    } catch (std::exception const& e) {
      raise_for_all(error_code::system, e.what(), where);
    }
  }

  // -- Synchronisation of streams. `readers` and `sources` call their argument for each rank q, with the value of its
  // word.

  // The ranks in `who` that take part where a part of each block begins at `begin`: ranks with shorter blocks skip later parts,
  // and all take part in the first.
  struct part_ranks {
    peers who;
    layout const& blocks;
    std::size_t begin;
    std::uint32_t fingerprint;
    int rank, size;

    template <class F>
    void operator()(F const& f) const {
      for (int k = 0; k < who.count; ++k) {
        int const q = who.at(k, size);
        std::size_t const n = blocks.at(0, q).count;
        if (q != rank && (begin == 0 || begin < n)) f(q, value_of_block(fingerprint, n));
      }
    }
  };

  // Waits until this rank may write to its arena, that is, until all readers have finished with its previous contents,
  // and marks the new contents as unread by `readers`.
  void take_arena(call& current, part_ranks const& readers) {
    std::atomic<std::uint32_t>& state = group_.board().rank(rank_).now;
    if (!std::exchange(current.begun, true)) write(current, state, current.number);
    for (int q = 0; q < size_; ++q)
      if (q != rank_) wait(current, between(rank_, q).unread, 0);
    readers([&](int q, std::uint32_t) { write(current, between(rank_, q).unread, 1); });
  }
  // Announces to `readers` that this rank's data are ready, and waits for those of `sources`.
  void meet(call& current, std::size_t shot, part_ranks const& readers, part_ranks const& sources) {
    readers([&](int q, std::uint32_t value) { write(current, between(rank_, q).ready[shot], value); });
    sources([&](int q, std::uint32_t value) { wait(current, between(q, rank_).ready[shot], value); });
    sources([&](int q, std::uint32_t) { write(current, between(q, rank_).ready[shot], 0); });
  }
  // This rank has finished reading. It marks the call as ended before it tells `sources`, because they may then begin
  // the next call.
  void finish(call& current, bool last, part_ranks const& readers, part_ranks const& sources) {
    std::atomic<std::uint32_t>& state = group_.board().rank(rank_).now;
    if (last) write(current, state, current.in ? end_of(current) : 0);
    sources([&](int q, std::uint32_t) { write(current, between(q, rank_).unread, 0); });
    if (!last || !current.in) return;
    readers([&](int q, std::uint32_t) { wait(current, between(rank_, q).unread, 0); });
    write(current, state, 0);
  }
  void give_signals(call& current, stream_of<D> stream) {
    if (!current.signals.empty()) on_.signal(stream, current.signals);
    current.signals.clear();
  }
  template <class Moves>
  void launch(Moves const& moves, stream_of<D> stream) {
    if (moves.count > 0) group_.guarded().launch(stream, moves.items(), moves);
  }

 private:
  // What this class needs to know of a device_call, of any types of elements, which have these numbers of bytes.
  struct untyped_call {
    std::string_view type;
    layout const& given;
    layout const& got;
    device_options<D> const& how;
    std::source_location where;
    void const* in;
    std::size_t in_bytes;
    void const* out;
    std::size_t out_bytes;
  };

  call begin_bytes(untyped_call const& c, request const& r, std::string_view op, waiting who,
                   function_ref<bool(int)> awaits) {
    auto& watch = group_.watch();
    watch.expect_no_fault(c.where);
    call out{};
    if (r.how == protocol::automatic && c.how.symmetric) find_registered(c, r, out);
    std::uint64_t key = key_of(r);
    if (out.in) key = mix(mix(key, out.in.word()), out.out.word());
    out.fingerprint = static_cast<std::uint32_t>(key) | 1;
    out.number = out.fingerprint;
    if (r.ragged)
      for (int q = 0; q < size_; ++q)
        out.number = value_of_block(value_of_block(out.number, c.given.at(0, q).count), c.got.at(0, q).count);
    watched_call const watched{.timeout = group_.timeout_for(c.how.timeout),
                               .captured = on_.capturing(c.how.stream),
                               .kernels_wait = who == waiting::kernels,
                               .all_hear_all = all_hear_all(r.what),
                               .sequence = sequence_ + 1};
    auto const expected = [&](int q) {
      return q != rank_ && awaits(q) ? value_of_block(out.fingerprint, c.got.at(0, q).count) : 0;
    };
    watch.know(out.number, watched, expected);
    if (out.in) watch.know(end_of(out), watched, [](int) { return 0u; });
    or_fault_of_all(c.where, [&] { group_.order(c.how.stream); });
    introduce(r, out, c.type, op);
    watch.expect_same_call(sequence_, out.number, c.where);
    return out;
  }
  [[noreturn, gnu::cold]] void raise_for_all(error_code code, text_part const& why, std::source_location where) {
    group_.watch().raise(
        {code, rank_, rank_, join({"rank ", rank_, " cannot launch its part of a call: ", why.view()})}, where);
  }
  // The state of the stream while it waits for the readers of this rank's buffer.
  static std::uint32_t end_of(call const& current) { return value_of_block(current.number, 1); }

  void introduce(request const& r, call const& current, std::string_view type, std::string_view op) {
    device_board const board = group_.board();
    plan const p{r.algorithm, current.in ? protocol::direct : r.how, current.fingerprint, {}, {}};
    call_words words = to_words(r, p);
    if (current.in) put_places(words, current.in.word(), current.out.word());
    board.name(rank_, r.type, type);
    board.name(rank_, r.op, op);
    board.introduce(rank_, current.number, words);
    if (current.in) board.introduce(rank_, end_of(current), words);
    board.note(rank_, ++sequence_, current.number);
  }

  // Peers read the buffer in place, unless it is overwritten before they have finished.
  void find_registered(untyped_call const& c, request const& r, call& out) const {
    if (r.ragged || r.what == collective::scatter || r.what == collective::barrier) return;
    void const* const data = r.what == collective::broadcast && c.in == nullptr ? c.out : c.in;
    std::size_t const bytes = c.given.end() * c.in_bytes, out_bytes = c.got.end() * c.out_bytes;
    if (bytes == 0) return;
    registered_place const in = group_.memory().find_registered(data, bytes);
    if (!in)
      refuse(rank_, join({"a symmetric ", name(r.what), " got memory that the ranks have not registered"}),
             "pass memory from allocate or register_buffer, or leave device_options::symmetric false", c.where);
    if (r.algorithm == algorithm_id::two_shot) {
      out.out = group_.memory().find_registered(c.out, out_bytes);
      if (out.out) out.in = in;
      return;
    }
    auto const *const a = static_cast<std::byte const*>(data), *const b = static_cast<std::byte const*>(c.out);
    bool const apart = b == nullptr || a + bytes <= b || b + out_bytes <= a;
    // Nobody reads the output of a collecting root.
    if (apart || r.what == collective::broadcast || r.what == collective::reduce || r.what == collective::gather)
      out.in = in;
  }

  void write(call& current, std::atomic<std::uint32_t>& word, std::uint32_t value) {
    current.signals.push_back({stream_signal::kind::write, group_.on_device(word), value});
  }
  void wait(call& current, std::atomic<std::uint32_t>& word, std::uint32_t value) {
    current.signals.push_back({stream_signal::kind::wait, group_.on_device(word), value});
  }
  device_words& between(int from, int to) const { return group_.board().between(from, to); }

  D const& on_;
  int rank_, size_;
  group_type group_;
  std::uint64_t sequence_ = 0;
};

}  // namespace tutti::detail
