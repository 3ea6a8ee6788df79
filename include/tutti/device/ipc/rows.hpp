// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An all_reduce with an epilogue on rows among processes whose kernels do not wait for each other.
#pragma once

#include <cstddef>
#include <source_location>
#include <type_traits>

#include "tutti/device/front/algorithms.hpp"
#include "tutti/device/front/rows.hpp"
#include "tutti/device/ipc/words.hpp"
#include "tutti/device/model/growth.hpp"

namespace tutti::detail {

// Sums the rows, and finishes them by a kernel that follows.
template <sharing_device D, transport Transport>
class ipc_rows {
 public:
  template <class In, class Out, class How, class Epilogue>
  void combine(D const& on, ipc_calls<D, Transport>& calls, ipc_words<D, Transport> words,
               device_call<D, In, Out> const& c, request const& r, row_wise<How, Epilogue> const& op) {
    auto& group = calls.group();
    In* sums = nullptr;
    if constexpr (std::is_same_v<In, Out>) sums = c.out;
    else sums = sums_of<In>(on, group, c.given.at(0, 0).count, c.how.stream, c.where);
    words.template combine<collective::all_reduce>(call_for_sums(c, sums), r, op.how,
                                                   name_of<row_wise<How, Epilogue>>());
    calls.or_fault_of_all(c.where, [&] {
      finish_rows(on, c, sums, op, group.guarded().word_for(c.how.stream, c.got.at(0, 0).count));
      group.note_end(c.how.stream);
    });
  }

 private:
  // Memory for sums, of the same size at all ranks. It grows; earlier memory stays valid, because graphs may refer to it.
  template <class T, class Group>
  T* sums_of(D const& on, Group& group, std::size_t n, stream_of<D> stream, std::source_location where) {
    if (std::size_t const needed = n * sizeof(T); needed > bytes_) {
      if (on.capturing(stream))
        refuse_call("the first call with rows of this size is being captured into a graph, and needs memory",
                    "make the call once before the capture", where);
      std::size_t const size = grown_size(needed, bytes_);
      sums_ = group.memory().add_at_all_ranks(size, where);
      bytes_ = size;
    }
    return reinterpret_cast<T*>(sums_);
  }

  std::byte* sums_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::detail
