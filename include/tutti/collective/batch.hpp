// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// batch: sends and receives that are made at once.
#pragma once

#include <source_location>
#include <vector>

#include "tutti/collective/point_to_point.hpp"

namespace tutti {

// Lists sends and receives, which run() starts together: their order in the list cannot make ranks wait for each other. It
// may be run again. Arguments are those of send and recv, which throw the same.
//
//   tutti::batch halos(comm);
//   for (auto& side : sides) halos.send(side.edge, side.rank).recv(side.halo, side.rank);
//   halos.run();
template <transport Transport>
class batch {
 public:
  explicit batch(communicator<Transport>& comm) : comm_(comm) {}

  template <buffer In>
  batch& send(In const& in, int to, int tag = 0, std::source_location where = std::source_location::current()) {
    detail::check_message(comm_, "batch::send", to, tag, false, where);
    return add(detail::send_of(in, to, tag));
  }
  template <mutable_buffer Out>
  batch& recv(Out&& out, int from, int tag = 0, std::source_location where = std::source_location::current()) {
    detail::check_message(comm_, "batch::recv", from, tag, true, where);
    return add(detail::receive_of(out, from, tag));
  }

  // Returns when all have ended: what the receives have got, in their order.
  std::vector<received> run(options const& o = {}, std::source_location where = std::source_location::current()) {
    detail::check_options(comm_, "batch::run", o, where);
    std::vector<transfer> all = list_;
    detail::run_transfers(comm_, all, o, where);
    std::vector<received> out;
    for (transfer const& t : all)
      if (t.what == transfer::receive) out.push_back(detail::received_of(t));
    return out;
  }

 private:
  batch& add(transfer const& t) {
    list_.push_back(t);
    return *this;
  }

  communicator<Transport>& comm_;
  std::vector<transfer> list_;
};

}  // namespace tutti
