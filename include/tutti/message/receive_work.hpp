// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The result of a receive, and the handles that give it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "tutti/fault/transfer.hpp"
#include "tutti/message/started_transfer.hpp"
#include "tutti/started/work.hpp"

namespace tutti {

// The result of a receive: who sent, with which tag, and how much. For no_rank: no elements, from no_rank.
struct received {
  int source;
  int tag;
  std::size_t count;  // elements

  friend bool operator==(received const&, received const&) = default;
};

namespace detail {

inline received received_of(transfer const& t) { return {t.source, t.source_tag, t.got / t.element_bytes}; }

// A handle of a receive, which gives its result.
template <class Handle>
class TUTTI_NODISCARD("keep it, and call get() or wait()") receiving : public Handle {
 public:
  receiving() = default;
  template <class... Arguments>
  explicit receiving(std::shared_ptr<started_transfer> call, Arguments... arguments)
      : Handle(std::move(call), arguments...) {}
  receiving(begun_transfer const& begun, std::size_t element_bytes)
      : Handle(begun.call), got_{begun.source, begun.tag, begun.bytes / element_bytes} {}

  // Waits like wait().
  received get() {
    this->wait();
    return this->call() ? received_of(static_cast<started_transfer const&>(*this->call()).message) : got_;
  }

 private:
  received got_{no_rank, any_tag, 0};  // if the receive has ended at once
};

}  // namespace detail

// A receive that was started, by default from no_rank. get() waits for it and returns sender, tag and count.
using receive_work = detail::receiving<work>;

// A receive that was prepared. get() waits for its last start.
using persistent_receive = detail::receiving<persistent>;

}  // namespace tutti
