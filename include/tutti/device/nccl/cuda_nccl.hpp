// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives on device memory among the ranks of any communicator: by NCCL where it has them, and as in cuda_staged otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tutti/call/check_arguments.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/accessible.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/front/work.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/model/growth.hpp"
#include "tutti/device/nccl/blocks.hpp"
#include "tutti/device/nccl/calls.hpp"
#include "tutti/device/nccl/messages.hpp"
#include "tutti/device/nccl/types.hpp"
#include "tutti/device/staged/cuda_staged.hpp"

namespace tutti {
namespace detail {

enum class nccl_use : std::uint8_t { never, if_possible, required };

// A device without CUDA's streams has no calls by NCCL.
template <class D, transport Transport>
struct nccl_calls_of {
  struct type {};
  struct messages {};
};
template <lending_device D, transport Transport>
struct nccl_calls_of<D, Transport> {
  using type = nccl_calls<D, Transport>;
  using messages = nccl_messages<D, Transport>;
};

}  // namespace detail

// The ranks of a communicator, each with buffers in memory of its own device. All ranks create and destroy it together, and make the
// same calls in the same order. Communicator and device must outlive it.
//
// by NCCL   all_reduce, reduce and reduce_scatter of the types and operations in device/nccl/types.hpp, with an epilogue or without;
//           broadcast, all_gather, gather, scatter and all_to_all; _v forms of all that have one. All other calls, and those that name
//           another algorithm than `native`, go as in cuda_staged
// order     NCCL's, which rounds partial results to the type of the elements; an epilogue follows in a pass of its own. All ranks get
//           the same bits
// streams   a call waits for the other ranks to make it, and returns when NCCL has given it to the stream. It may be captured into
//           a graph, which all ranks then launch in place of the call
// errors    of all ranks: mismatch, timeout, rank_lost, rank_left, system. Calls in flight then end, and their outputs are undefined
template <detail::staging_device D, transport Transport>
class cuda_nccl {
 public:
  using device_type = D;

  // Throws error: what cuda_staged throws; system, at all ranks, if NCCL is required and one of them cannot use it.
  [[gnu::cold]] cuda_nccl(communicator<Transport>& comm, D const& on, staging const& slices, detail::nccl_use use,
                          std::source_location where)
      : comm_{comm}, staged_(comm, on, slices, where) {
    if (use != detail::nccl_use::never) find_nccl(use == detail::nccl_use::required, where);
  }
  // Waits for the continuations of its works, at most for TUTTI_TIMEOUT, and not during an exception.
  ~cuda_nccl() { works_.close(comm_.engine().environment.timeout); }
  // Ends the calls in flight of all ranks, because of an exception.
  [[gnu::cold]] void give_up() noexcept {
    if constexpr (detail::lending_device<D>)
      if (calls_) calls_->give_up();
  }

  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }
  D const& on() const noexcept { return staged_.on(); }
  bool has_nccl() const noexcept { return calls_.has_value(); }

  // Completes when everything that the stream was given so far has run, or at a fault, which it then throws.
  tutti::work work(detail::stream_of<D> stream, std::source_location where) {
    if constexpr (detail::lending_device<D>)
      if (calls_)
        return works_.add(std::make_shared<detail::device_work<D, calls_type>>(works_, on(), &*calls_, stream, where));
    return works_.add(std::make_shared<detail::device_work<D>>(works_, on(), nullptr, stream, where));
  }

  // How data travel, as the rest of a sentence.
  std::string explain() const {
    std::string_view const staged =
        staged_.hands_over() ? "the MPI gets device memory" : "data travel through pinned host memory";
    if constexpr (detail::lending_device<D>)
      if (calls_)
        return detail::join(
            {"NCCL ", calls_->version_text(), " carries out the calls that it has; in others, ", staged});
    return std::string(staged);
  }
  // Why NCCL carries out no calls; empty if it does, or was not wanted.
  std::string const& why_not() const noexcept { return why_not_; }

  // -- For messages with `native`: returns the results of the receives, in their order, when all are on the stream.
  std::vector<received> run(char const* name, std::span<detail::transfer const> all, device_options<D> const& how,
                            std::source_location where) {
    if constexpr (detail::lending_device<D>)
      if (messages_) return messages_->run(name, all, how, where);
    refuse_native(name, where);
  }

  // -- For the collectives.
  template <class Algorithm, collective C>
  static constexpr bool has_algorithm = cuda_staged<D, Transport>::template has_algorithm<Algorithm, C>;

  template <class Algorithm, collective C, class Word>
  void move(detail::device_call<D, Word, Word> const& call) {
    if constexpr (detail::lending_device<D> && std::is_same_v<Algorithm, automatic> && C != collective::barrier)
      if (serves(call.what)) return move_by_nccl<C>(call);
    expect_not_native(call.what, call.where);
    staged_.template move<Algorithm, C>(call);
  }
  template <class Algorithm, collective C, class In, class Out, class Op>
  void combine(detail::device_call<D, In, Out> const& call, Op const& op) {
    if constexpr (detail::lending_device<D> && std::is_same_v<Algorithm, automatic> && combines<C, In, Out, Op>())
      if (serves(call.what)) return combine_by_nccl<C>(call, detail::in_stages<In>(op, size()));
    expect_not_native(call.what, call.where);
    staged_.template combine<Algorithm, C>(call, op);
  }

 private:
  using calls_type = typename detail::nccl_calls_of<D, Transport>::type;

  void find_nccl(bool required, std::source_location where) {
    if (size() == 1 && !required) return;
    try {
      if constexpr (detail::lending_device<D>) {
        calls_.emplace(comm_, on(), where);
        messages_.emplace(comm_, on(), *calls_);
      } else {
        throw error({.code = error_code::system, .what = "its streams are not CUDA's", .way_out = "use another path"});
      }
    } catch (error const& e) {  // at all ranks
      if (required || e.code() != error_code::system) throw;
      why_not_ = e.happened();
    }
  }

  // -- Which calls NCCL carries out, the same at all ranks.
  template <collective C, class In, class Out, class Op>
  static consteval bool combines() {
    if constexpr ((C != collective::all_reduce && C != collective::reduce && C != collective::reduce_scatter) ||
                  !std::is_same_v<In, Out> || detail::is_a<Op, detail::on_wire> || detail::is_row_wise<Op> ||
                  detail::has_shards<Op>) {
      return false;
    } else {
      auto const before_and_after = []<class How, class Before, class After>(fused<How, Before, After>*) {
        return std::is_same_v<Before, detail::unchanged> &&
               detail::nccl::operation_of<In, How>() != detail::nccl::operation::none;
      };
      using stages = decltype(detail::in_stages<In>(std::declval<Op const&>(), 1));
      return before_and_after(static_cast<stages*>(nullptr));
    }
  }
  bool serves(detail::request const& r) const {
    return calls_ && (r.algorithm == algorithm_id::automatic || r.algorithm == algorithm_id::native);
  }
  void expect_not_native(detail::request const& r, std::source_location where) const {
    if (r.algorithm == algorithm_id::native) refuse_native(name(r.what), where);
  }
  [[noreturn, gnu::cold]] void refuse_native(std::string_view what, std::source_location where) const {
    detail::refuse(rank(),
                   calls_ ? detail::join({"NCCL has no such ", what})
                          : detail::join({"NCCL carries out no calls of these ranks: ",
                                          why_not_.empty() ? "the path is another, or there is one rank" : why_not_}),
                   "leave the algorithm automatic", where);
  }

  template <collective C, class T, class Op, class After>
  void combine_by_nccl(detail::device_call<D, T, T> const& c, fused<Op, detail::unchanged, After> const& how) {
    using namespace detail::nccl;
    constexpr data_type type = type_of<T>();
    constexpr detail::nccl::operation op = operation_of<T, Op>();
    detail::expect_accessible<C>(on(), rank(), c);
    auto const n = static_cast<std::size_t>(c.what.count);
    calls_->template run<C>(c.what, c.type, detail::name_of<Op>(), c.how, c.where, {},
                            [&](functions const& api, communicator_of_nccl* comm, void* stream) {
                              if constexpr (C == collective::all_reduce)
                                return api.all_reduce(c.in, c.out, n, type, op, comm, stream);
                              else if constexpr (C == collective::reduce)
                                return api.reduce(c.in, c.out, n, type, op, c.what.root, comm, stream);
                              else if (!c.what.ragged)
                                return api.reduce_scatter(c.in, c.out, n, type, op, comm, stream);
                              else
                                return each_rank([&](int q) {
                                  extent const block = c.given.at(0, q);
                                  return api.reduce(c.in + block.begin, c.out, block.count, type, op, q, comm, stream);
                                });
                            });
    if constexpr (!std::is_same_v<After, detail::unchanged>) {
      std::size_t const got = C == collective::reduce_scatter ? c.got.at(0, 0).count : n;
      T const* const from[] = {c.out};
      T* const to[] = {c.out};
      if (c.out != nullptr && got > 0)
        cuda_combine(on(), c.how.stream, std::span<T const* const>(from), std::span<T* const>(to), got, how);
    }
  }

  template <collective C, class Word>
  void move_by_nccl(detail::device_call<D, Word, Word> const& c) {
    using namespace detail::nccl;
    detail::expect_accessible<C>(on(), rank(), c);
    Word const* in = c.in;
    if (C == collective::all_to_all && static_cast<void const*>(in) == c.out) in = copy_of_input(c);
    detail::nccl_blocks const blocks{c, rank()};
    calls_->template run<C>(
        c.what, c.type, {}, c.how, c.where, blocks.sizes(size()),
        [&](functions const& api, communicator_of_nccl* comm, void* stream) {
          constexpr data_type bytes = data_type::uint8;
          std::size_t const each = c.given.at(0, 0).count * sizeof(Word);
          if constexpr (C == collective::broadcast) {
            Word* const data = c.out != nullptr ? c.out : const_cast<Word*>(in);  // only read at the root
            return api.broadcast(data, data, each, bytes, c.what.root, comm, stream);
          } else if constexpr (C == collective::all_gather) {
            if (!c.what.ragged) return api.all_gather(in, c.out, each, bytes, comm, stream);
            return each_rank([&](int q) {
              extent const block = c.got.at(0, q);
              return api.broadcast(in, c.out + block.begin, block.count * sizeof(Word), bytes, q, comm, stream);
            });
          } else {
            return each_rank([&](int q) {
              extent const given = blocks.given_to(q), got = blocks.got_from(q);
              bool const to = blocks.sends_to(q), from = blocks.receives_from(q);
              if (q == rank() && to && from && in + given.begin == c.out + got.begin) return result::success;
              result out = result::success;
              if (to) out = api.send(in + given.begin, given.count * sizeof(Word), bytes, q, comm, stream);
              if (from && !detail::nccl::failed(out))
                out = api.recv(c.out + got.begin, got.count * sizeof(Word), bytes, q, comm, stream);
              return out;
            });
          }
        });
    if (in != c.in) copy_read_.record(c.how.stream);
  }

  using communicator_of_nccl = detail::nccl::communicator;
  // f(q) for each rank, up to the first that fails.
  template <class F>
  detail::nccl::result each_rank(F const& f) const {
    detail::nccl::result out{};
    for (int q = 0; q < size() && !detail::nccl::failed(out); ++q) out = f(q);
    return out;
  }
  // NCCL would write blocks that it has yet to send.
  template <class Word>
  Word const* copy_of_input(detail::device_call<D, Word, Word> const& c) {
    if (on().capturing(c.how.stream))
      detail::refuse(rank(), "all_to_all in place was called on a stream that is being captured into a graph",
                     "pass two buffers", c.where);
    std::size_t const bytes = c.given.end() * sizeof(Word);
    std::byte* const copy = copy_.get(bytes);  // before the ranks meet, so no kernel waits for this rank meanwhile
    copy_read_.before(c.how.stream);           // by a call on another stream
    on().copy(c.how.stream, copy, c.in, bytes);
    return reinterpret_cast<Word const*>(copy);
  }

  communicator<Transport>& comm_;
  cuda_staged<D, Transport> staged_;
  std::string why_not_;
  detail::growing_memory<D> copy_{on()};
  detail::device_event<D> copy_read_{on()};
  std::optional<calls_type> calls_;
  std::optional<typename detail::nccl_calls_of<D, Transport>::messages> messages_;
  detail::device_works works_;
};

}  // namespace tutti
