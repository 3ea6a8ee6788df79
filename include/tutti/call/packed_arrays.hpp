// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls on ranges that are not contiguous: inputs are copied to memory of the library when the call begins, and outputs
// from there when it has succeeded. The rest of a call sees contiguous arrays alone. Arrays with strides are not copied;
// see call/gapped_arrays.hpp.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/call/lent_memory.hpp"
#include "tutti/call/noncontiguous.hpp"

namespace tutti::detail {

// Whether the input and the output of every rank are one array: schedules pass the array of a broadcast on.
template <collective C>
inline constexpr bool has_one_array = C == collective::broadcast;

// In place of packed_arrays where the arrays of a call are contiguous.
struct nothing_to_pack {
  void pack() const {}
  void unpack() const {}
};
// The same for arrays that a batch must not group with others: all ranks group alike, but only its own rank knows whether an
// array has gaps.
struct never_grouped : nothing_to_pack {};

// An array of a call, and the memory that it is copied to.
template <class Array>
class packed_array {
 public:
  using element = typename Array::value_type;

  // `used`: whether this rank has such an array in the call.
  packed_array(Array const& array, bool used) : array_(array), used_(used) {}

  // The memory that it needs.
  std::size_t bytes() const { return used_ && array_.contiguous() == nullptr ? array_.size() * sizeof(element) : 0; }
  void place(std::byte* memory) {
    if (bytes() > 0) copy_ = reinterpret_cast<element*>(memory);
  }
  auto elements() const {
    auto* const own = array_.contiguous();
    return std::span(copy_ != nullptr ? copy_ : own, used_ ? array_.size() : 0);
  }
  void pack() const {
    if (copy_ != nullptr) array_.copy_to(copy_);
  }
  void unpack() const { unpack(array_.size()); }
  // The first `count` elements.
  void unpack(std::size_t count) const {
    if constexpr (Array::writable)
      if (copy_ != nullptr) array_.copy_from(copy_, count);
  }
  // Calls f(data, count) for the memory of the caller.
  template <class F>
  void for_each_run(F&& f) const {
    array_.for_each_run(f);
  }

 private:
  Array array_;
  bool used_;
  element* copy_ = nullptr;
};
template <class T, std::size_t Extent>
class packed_array<std::span<T, Extent>> {
 public:
  packed_array(std::span<T> array, bool used) : array_(used ? array : std::span<T>()) {}

  std::size_t bytes() const { return 0; }
  void place(std::byte*) {}
  std::span<T> elements() const { return array_; }
  void pack() const {}
  void unpack() const {}
  template <class F>
  void for_each_run(F&& f) const {
    f(array_.data(), array_.size());
  }

 private:
  std::span<T> array_;
};

// The arrays of a call of which at least one is not contiguous.
template <collective C, class In, class Out>
class packed_arrays {
 public:
  static constexpr bool are_compared = true;
  template <class Memory>
  using memory_of = Memory;

  // `keeps`: the call may leave parts of the output as they were.
  template <class Comm>
  packed_arrays(Comm& comm, In const& in, Out const& out, int root, bool keeps)
      : gives_(row_of(C).input.at(comm.rank() == root) != holding::none),
        gets_(row_of(C).output.at(comm.rank() == root) != holding::none),
        keeps_(keeps),
        in_(in, gives_ && !one_array),
        out_(out, gets_ || one_array) {
    std::size_t const in_bytes = in_.bytes(), gap = in_bytes % cache_line == 0 ? 0 : cache_line - in_bytes % cache_line;
    std::size_t const all = in_bytes + gap + out_.bytes();
    if constexpr (is_communicator<Comm>) {
      comm.expect_usable({});
      memory_ = comm.engine().packed.at_least(all);
    } else {
      memory_ = borrowed_memory(all);  // the call may outlive its communicator
    }
    in_.place(memory_.data());
    out_.place(memory_.data() + in_bytes + gap);
  }

  auto input() const {
    using element = typename In::value_type;
    if constexpr (one_array) return std::span<element const>(out_.elements());
    else return std::span<element const>(in_.elements());
  }
  auto output() const { return out_.elements(); }
  packed_arrays&& packing() && { return std::move(*this); }

  void pack() const {
    in_.pack();
    if (one_array ? gives_ : gets_ && keeps_) out_.pack();
  }
  void unpack() const {
    if (gets_) out_.unpack();
  }
  template <class Use>
  void list_buffers(Use& use) const {
    if (gives_) in_.for_each_run([&](auto* data, std::size_t count) { use.reads(data, count * sizeof *data); });
    if (gets_) out_.for_each_run([&](auto* data, std::size_t count) { use.writes(data, count * sizeof *data); });
  }

 private:
  static constexpr bool one_array = has_one_array<C>;

  bool gives_, gets_, keeps_;
  packed_array<In> in_;
  packed_array<Out> out_;
  borrowed_memory memory_;
};

// Arrays of which each is a std::span.
template <class T>
struct contiguous_arrays {
  static constexpr bool are_compared = true;
  template <class Memory>
  using memory_of = Memory;

  std::span<T const> in;
  std::span<T> out;

  std::span<T const> input() const { return in; }
  std::span<T> output() const { return out; }
  nothing_to_pack packing() const { return {}; }
};

// Inlined before g++ 12 analyses which arguments of a function are written to: it takes a function that returns its arguments
// in a struct, as this one does, for one that lets no pointer escape. With -O1 it then went on with the values that local
// arrays had before the call.
template <collective C, class Comm, class T>
[[gnu::always_inline]] inline contiguous_arrays<T> arrays_for(Comm&, std::span<T const> in, std::span<T> out, int,
                                                              bool) {
  return {in, out};
}
template <collective C, class Comm, class In, class Out>
packed_arrays<C, In, Out> arrays_for(Comm& comm, In const& in, Out const& out, int root, bool keeps) {
  return {comm, in, out, root, keeps};
}

}  // namespace tutti::detail
