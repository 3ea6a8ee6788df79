// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The team of an MPI, compiled for each installed MPI. Types and operations that MPI lacks go through MPI_Op_create.
#include <mpi.h>

#include "team.hpp"

namespace {

using namespace bench;

class team {
 public:
  team(int, int) { MPI_Init(nullptr, nullptr); }
  ~team() { MPI_Finalize(); }

  static std::string version() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string const all(text, static_cast<std::size_t>(length));
    // "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\nMPICH Release date: ..."
    std::string out = all.substr(0, all.find_first_of(",\n"));
    out.erase(std::remove(out.begin(), out.end(), '\t'), out.end());
    return out;
  }

  template <class Kind>
  contender prepare(task t, json const&) {
    t.result_first = true;
    using T = typename Kind::element;
    MPI_Datatype type = MPI_FLOAT;
    MPI_Op op = MPI_SUM;
    if constexpr (Kind::name == complex_sum::name) {
      type = MPI_C_FLOAT_COMPLEX;
    } else if constexpr (Kind::name != float_sum::name) {
      // Created once and kept for the life of the team.
      static auto const made = [] {
        std::pair<MPI_Datatype, MPI_Op> out;
        MPI_Type_contiguous(static_cast<int>(sizeof(T)), MPI_BYTE, &out.first);
        MPI_Type_commit(&out.first);
        MPI_Op_create(
            [](void* in, void* in_out, int* count, MPI_Datatype*) {
              auto* const to = static_cast<T*>(in_out);
              combine<Kind>(to, static_cast<T const*>(in), to, static_cast<std::size_t>(*count));
            },
            1, &out.second);
        return out;
      }();
      std::tie(type, op) = made;
    }
    if (t.how == manner::started) return on_private_memory<Kind>(t, started_sum{type, op, t.in_place});
    return on_private_memory<Kind>(t, [=](arrays<T> const& a) { run(t, a, type, op); });
  }

 private:
  struct started_sum {
    MPI_Datatype type;
    MPI_Op op;
    bool in_place;

    template <class T>
    MPI_Request start(arrays<T> const& a) const {
      MPI_Request out;
      MPI_Iallreduce(in_place ? MPI_IN_PLACE : a.in.data(), a.out.data(), static_cast<int>(a.out.size()), type, op,
                     MPI_COMM_WORLD, &out);
      return out;
    }
    static void test(MPI_Request& request) {
      int ended = 0;
      MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
    }
    static void wait(MPI_Request& request) { MPI_Wait(&request, MPI_STATUS_IGNORE); }
  };

  template <class T>
  static void run_window(task const& t, arrays<T> const& a, MPI_Datatype type) {
    MPI_Comm const comm = MPI_COMM_WORLD;
    std::size_t const n = a.in.size() / window_length;
    std::array<MPI_Request, window_length> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      T* const at = a.in.data() + i * n;
      if (t.root()) MPI_Isend(at, static_cast<int>(n), type, t.partner(), 0, comm, &all[i]);
      else MPI_Irecv(at, static_cast<int>(n), type, t.partner(), 0, comm, &all[i]);
    }
    MPI_Waitall(window_length, all.data(), MPI_STATUSES_IGNORE);
    char end = 0;
    if (t.root()) MPI_Recv(&end, 1, MPI_CHAR, t.partner(), 1, comm, MPI_STATUS_IGNORE);
    else MPI_Send(&end, 1, MPI_CHAR, t.partner(), 1, comm);
  }

  template <class T>
  static void run(task const& t, arrays<T> const& a, MPI_Datatype type, MPI_Op op) {
    MPI_Comm const comm = MPI_COMM_WORLD;
    extent<T> const e(t);
    int const n = static_cast<int>(e.count), block = static_cast<int>(e.block);
    void const* const in = t.in_place ? MPI_IN_PLACE : a.in.data();
    T* const out = a.out.data();
    if (t.how == manner::window) return run_window(t, a, type);
    if (t.how == manner::there_and_back) {
      if (t.root()) MPI_Send(out, n, type, t.partner(), 0, comm);
      MPI_Recv(out, n, type, t.partner(), 0, comm, MPI_STATUS_IGNORE);
      if (!t.root()) MPI_Send(out, n, type, t.partner(), 0, comm);
      return;
    }
    switch (t.what) {
      case tutti::collective::all_reduce: MPI_Allreduce(in, out, n, type, op, comm); return;
      case tutti::collective::reduce: MPI_Reduce(t.root() ? in : a.in.data(), out, n, type, op, 0, comm); return;
      case tutti::collective::reduce_scatter: MPI_Reduce_scatter_block(in, out, block, type, op, comm); return;
      case tutti::collective::broadcast: MPI_Bcast(out, n, type, 0, comm); return;
      case tutti::collective::all_gather: MPI_Allgather(in, block, type, out, block, type, comm); return;
      case tutti::collective::gather:
        MPI_Gather(t.root() ? in : a.in.data(), block, type, out, block, type, 0, comm);
        return;
      case tutti::collective::scatter:
        MPI_Scatter(a.in.data(), block, type, t.in_place && t.root() ? MPI_IN_PLACE : static_cast<void*>(out), block,
                    type, 0, comm);
        return;
      case tutti::collective::all_to_all: MPI_Alltoall(in, block, type, out, block, type, comm); return;
      default: MPI_Barrier(comm); return;
    }
  }
};

}  // namespace

int main(int argc, char** argv) { return bench::run_team<team>(argc, argv); }
