// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call of the program: whether tutti takes it, which all ranks of the communicator answer alike, and how it ends.
#pragma once

#include <cstdio>
#include <exception>
#include <mpi.h>
#include <mutex>

#include "binding.hpp"
#include "datatypes.hpp"
#include "user_reduction.hpp"

namespace interpose {

class call {
 public:
  call(function what, MPI_Comm comm)
      : what_(what),
        comm_(comm),
        bound_(find_binding(comm)),
        why_(bound_ != nullptr ? bound_->why : reason::not_started) {}

  // An argument that makes no sense, which the MPI tells the program in its own way.
  call& expect(bool right) {
    if (!right) pass_for(reason::bad_argument);
    return *this;
  }
  call& expect(int count, MPI_Datatype type) { return expect(count >= 0 && type != MPI_DATATYPE_NULL); }
  call& expect_root(int root) { return expect(why_ != reason::none || (root >= 0 && root < ranks())); }

  bool passes() const { return why_ != reason::none; }
  int rank() const { return bound_->ranks->rank(); }
  int ranks() const { return bound_->ranks->size(); }

  template <class... Parameters, class... Arguments>
  int pass(int (*function)(Parameters...), Arguments... arguments) const {
    counted.passed(what_, why_);
    return function(arguments...);
  }

  // Calls work(communicator), which returns the bytes of this rank's part.
  template <class Work>
  int run(Work&& work) const {
    try {
      std::unique_lock const lock =
          threads_call_at_once() ? std::unique_lock(bound_->calls) : std::unique_lock<std::mutex>();
      counted.ran(what_, work(*bound_->ranks));
      return MPI_SUCCESS;
    } catch (std::exception const& e) {
      std::fprintf(stderr, "%s\n", e.what());
      if (ranks() > 1) bound_->ranks->group().give_up();  // where the others do not know
      PMPI_Comm_call_errhandler(comm_, MPI_ERR_INTERN);
      return MPI_ERR_INTERN;
    }
  }

 protected:
  void pass_for(reason why) {
    if (why_ == reason::none) why_ = why;
  }

 private:
  function what_;
  MPI_Comm comm_;
  binding* bound_;
  reason why_;
};

// A call that combines: the standard demands the same count, type and operation of all ranks.
class reduction : public call {
 public:
  reduction(function what, MPI_Comm comm, int count, MPI_Datatype type, MPI_Op op);

  // `count` elements of the program's memory.
  input read(void const* in, void const* in_place, std::size_t count) const {
    return {static_cast<std::byte const*>(in == MPI_IN_PLACE ? in_place : in), count * element_bytes_};
  }
  output write(void* out, std::size_t count) const { return {static_cast<std::byte*>(out), count * element_bytes_}; }
  std::size_t element_bytes() const { return element_bytes_; }

  // Calls work(reducer), a user_reduction or what looks like one.
  template <class Work>
  int reduce(std::size_t bytes, Work&& work) const {
    return run([&](communicator& comm) {
      if (how_.run != nullptr) work(predefined{comm, how_});
      else work(user_reduction(comm, op_, type_, element_bytes_));
      return bytes;
    });
  }

 private:
  struct predefined {
    communicator& comm;
    combination const& how;

    void all_reduce(input in, output out) const { interpose::all_reduce(comm, how, in, out); }
    void reduce(input in, output out, int root) const { interpose::reduce(comm, how, in, out, root); }
    void reduce_scatter(input in, output out, sizes counts) const;
    void scan(input in, output out) const { interpose::scan(comm, how, in, out); }
    void exclusive_scan(input in, output out) const { interpose::exclusive_scan(comm, how, in, out); }
  };

  MPI_Datatype type_;
  MPI_Op op_;
  combination how_;
  std::size_t element_bytes_ = 0;
};

}  // namespace interpose
