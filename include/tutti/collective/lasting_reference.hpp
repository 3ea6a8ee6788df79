// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A reference to a communicator that may be moved or destroyed meanwhile.
#pragma once

#include <memory>

#include "tutti/call/communicator.hpp"
#include "tutti/call/engine.hpp"

namespace tutti::detail {

template <transport Transport>
class lasting_reference {
 public:
  explicit lasting_reference(communicator<Transport> const& comm)
      : same_(comm.engine_.get(), comm.rank_, comm.size_), refers_(comm.engine_ != nullptr) {
    if (refers_) open_ = comm.engine_->reference();
  }
  lasting_reference(lasting_reference&&) noexcept = default;
  lasting_reference& operator=(lasting_reference&&) = delete;
  ~lasting_reference() { static_cast<void>(same_.engine_.release()); }

  int rank() const noexcept { return same_.rank_; }
  int size() const noexcept { return same_.size_; }
  bool expired() const noexcept { return refers_ && open_.expired(); }
  bool was_moved_from() const noexcept { return refers_ && rank() == moved_from; }
  // Only while it has not expired.
  communicator<Transport>& get() const noexcept { return same_; }

 private:
  mutable communicator<Transport> same_;  // a second owner, which closes nothing
  bool refers_;
  std::weak_ptr<engine<Transport>> open_;
};

}  // namespace tutti::detail
