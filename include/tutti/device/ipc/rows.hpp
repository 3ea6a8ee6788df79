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
  void combine(D const& on, int rank, ipc_calls<D, Transport>& calls, ipc_words<D, Transport> words,
               device_call<D, In, Out> const& c, request const& r, row_wise<How, Epilogue> const& op) {
    auto& group = calls.group();
    In* sums = nullptr;
    if constexpr (std::is_same_v<In, Out>) sums = c.out;
    else sums = sums_of<In>(rank, group, c.given.at(0, 0).count, c.how.stream, c.where);
    words.template combine<collective::all_reduce>(call_for_sums(c, sums), r, op.how,
                                                   name_of<row_wise<How, Epilogue>>());
    calls.or_fault_of_all(c.where, [&] {
      finish_rows(on, c, sums, op, group.guarded().word_for(c.how.stream, c.got.at(0, 0).count));
      group.note_end(c.how.stream);
    });
  }

 private:
  // Memory for sums, of the same size at all ranks.
  template <class T, class Group>
  T* sums_of(int rank, Group& group, std::size_t n, stream_of<D> stream, std::source_location where) {
    if (sums_ == nullptr) sums_ = &group.memory().add_growing();
    sums_->expect_allocated(n * sizeof(T), stream, rank, "rows of this size", where);
    return reinterpret_cast<T*>(group.memory().grow(*sums_, n * sizeof(T), where));
  }

  growing_memory<D>* sums_ = nullptr;
};

}  // namespace tutti::detail
