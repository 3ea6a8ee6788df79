// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The blocking collectives of MPI.
#include <mpi.h>
#include <numeric>
#include <vector>

#include "call.hpp"
#include "messages.hpp"

using namespace interpose;

namespace {

std::size_t elements(int count, int ranks = 1) {
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(ranks);
}

bool none_negative(int const* counts, int n) {
  for (int i = 0; i < n; ++i)
    if (counts[i] < 0) return false;
  return true;
}

// The bytes of each rank's block.
std::vector<std::size_t> in_bytes(int const* counts, int ranks, std::size_t element_bytes) {
  std::vector<std::size_t> out;
  for (int q = 0; q < ranks; ++q) out.push_back(elements(counts[q]) * element_bytes);
  return out;
}

}  // namespace

extern "C" {

int MPI_Barrier(MPI_Comm comm) {
  call c(function::barrier, comm);
  if (c.passes()) return c.pass(PMPI_Barrier, comm);
  return c.run([](communicator& ranks) {
    barrier(ranks);
    return std::size_t{0};
  });
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  call c(function::bcast, comm);
  if (c.expect(count, type).expect_root(root).passes()) return c.pass(PMPI_Bcast, data, count, type, root, comm);
  return c.run([&](communicator& ranks) {
    message const all(c.rank() == root ? use::reads : use::writes, data, elements(count), type);
    broadcast(ranks, all.write(), root);
    all.deliver();
    return all.size();
  });
}

int MPI_Gather(void const* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type, int root,
               MPI_Comm comm) {
  call c(function::gather, comm);
  c.expect_root(root);
  bool const is_root = !c.passes() && c.rank() == root, in_place = is_root && in == MPI_IN_PLACE;
  if (is_root) c.expect(out_count, out_type);
  if (!in_place) c.expect(count, type);
  if (c.passes()) return c.pass(PMPI_Gather, in, count, type, out, out_count, out_type, root, comm);
  return c.run([&](communicator& ranks) {
    if (!is_root) {
      message const mine(use::reads, in, elements(count), type);
      gather(ranks, mine.read(), {}, root);
      return mine.size();
    }
    message const all(in_place ? use::both : use::writes, out, elements(out_count, c.ranks()), out_type);
    if (in_place) gather(ranks, all.block(root, c.ranks()), all.write(), root);
    else gather(ranks, message(use::reads, in, elements(count), type).read(), all.write(), root);
    all.deliver();
    return all.size() / elements(c.ranks());
  });
}

int MPI_Gatherv(void const* in, int count, MPI_Datatype type, void* out, int const counts[], int const begins[],
                MPI_Datatype out_type, int root, MPI_Comm comm) {
  call c(function::gatherv, comm);
  c.expect_root(root);
  bool const is_root = !c.passes() && c.rank() == root, in_place = is_root && in == MPI_IN_PLACE;
  if (is_root) c.expect(none_negative(counts, c.ranks()) && out_type != MPI_DATATYPE_NULL);
  if (!in_place) c.expect(count, type);
  if (c.passes()) return c.pass(PMPI_Gatherv, in, count, type, out, counts, begins, out_type, root, comm);
  return c.run([&](communicator& ranks) {
    if (!is_root) {
      message const mine(use::reads, in, elements(count), type);
      gather_v(ranks, mine.read(), {}, {}, {}, root);
      return mine.size();
    }
    blocks const all(in_place ? use::both : use::writes, out, c.ranks(), counts, begins, out_type);
    if (in_place) {
      gather_v(ranks, all.block(root), all.write(), all.counts(), all.offsets(), root);
    } else {
      message const mine(use::reads, in, elements(count), type);
      gather_v(ranks, apart(mine.read(), all.write()).read(), all.write(), all.counts(), all.offsets(), root);
    }
    all.deliver();
    return all.block(root).size();
  });
}

int MPI_Scatter(void const* in, int in_count, MPI_Datatype in_type, void* out, int count, MPI_Datatype type, int root,
                MPI_Comm comm) {
  call c(function::scatter, comm);
  c.expect_root(root);
  bool const is_root = !c.passes() && c.rank() == root, in_place = is_root && out == MPI_IN_PLACE;
  if (is_root) c.expect(in_count, in_type);
  if (!in_place) c.expect(count, type);
  if (c.passes()) return c.pass(PMPI_Scatter, in, in_count, in_type, out, count, type, root, comm);
  return c.run([&](communicator& ranks) {
    message const all(use::reads, in, is_root ? elements(in_count, c.ranks()) : 0, is_root ? in_type : MPI_BYTE);
    if (in_place) {
      scatter(ranks, all.read(), all.block(root, c.ranks()), root);
      return all.block(root, c.ranks()).size();
    }
    message const mine(use::writes, out, elements(count), type);
    scatter(ranks, all.read(), mine.write(), root);
    mine.deliver();
    return mine.size();
  });
}

int MPI_Scatterv(void const* in, int const counts[], int const begins[], MPI_Datatype in_type, void* out, int count,
                 MPI_Datatype type, int root, MPI_Comm comm) {
  call c(function::scatterv, comm);
  c.expect_root(root);
  bool const is_root = !c.passes() && c.rank() == root, in_place = is_root && out == MPI_IN_PLACE;
  if (is_root) c.expect(none_negative(counts, c.ranks()) && in_type != MPI_DATATYPE_NULL);
  if (!in_place) c.expect(count, type);
  if (c.passes()) return c.pass(PMPI_Scatterv, in, counts, begins, in_type, out, count, type, root, comm);
  return c.run([&](communicator& ranks) {
    if (!is_root) {
      message const mine(use::writes, out, elements(count), type);
      scatter_v(ranks, {}, {}, {}, mine.write(), root);
      mine.deliver();
      return mine.size();
    }
    blocks const all(use::reads, in, c.ranks(), counts, begins, in_type);
    if (in_place) {
      scatter_v(ranks, all.read(), all.counts(), all.offsets(), all.block(root), root);
    } else {
      message const mine(use::writes, out, elements(count), type);
      scatter_v(ranks, apart(all.read(), mine.write()).read(), all.counts(), all.offsets(), mine.write(), root);
      mine.deliver();
    }
    return all.block(root).size();
  });
}

int MPI_Allgather(void const* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm) {
  call c(function::allgather, comm);
  bool const in_place = in == MPI_IN_PLACE;
  c.expect(out_count, out_type);
  if (!in_place) c.expect(count, type);
  if (c.passes()) return c.pass(PMPI_Allgather, in, count, type, out, out_count, out_type, comm);
  return c.run([&](communicator& ranks) {
    message const all(in_place ? use::both : use::writes, out, elements(out_count, c.ranks()), out_type);
    if (in_place) all_gather(ranks, all.block(c.rank(), c.ranks()), all.write());
    else all_gather(ranks, message(use::reads, in, elements(count), type).read(), all.write());
    all.deliver();
    return all.size() / elements(c.ranks());
  });
}

int MPI_Allgatherv(void const* in, int count, MPI_Datatype type, void* out, int const counts[], int const begins[],
                   MPI_Datatype out_type, MPI_Comm comm) {
  call c(function::allgatherv, comm);
  bool const in_place = in == MPI_IN_PLACE;
  c.expect(out_type != MPI_DATATYPE_NULL && (c.passes() || none_negative(counts, c.ranks())));
  if (!in_place) c.expect(count, type);
  if (c.passes()) return c.pass(PMPI_Allgatherv, in, count, type, out, counts, begins, out_type, comm);
  return c.run([&](communicator& ranks) {
    blocks const all(in_place ? use::both : use::writes, out, c.ranks(), counts, begins, out_type);
    if (in_place) {
      all_gather_v(ranks, all.block(c.rank()), all.write(), all.counts(), all.offsets());
    } else {
      message const mine(use::reads, in, elements(count), type);
      all_gather_v(ranks, apart(mine.read(), all.write()).read(), all.write(), all.counts(), all.offsets());
    }
    all.deliver();
    return all.block(c.rank()).size();
  });
}

int MPI_Alltoall(void const* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                 MPI_Comm comm) {
  call c(function::alltoall, comm);
  bool const in_place = in == MPI_IN_PLACE;
  c.expect(out_count, out_type);
  if (!in_place) c.expect(count, type);
  if (c.passes()) return c.pass(PMPI_Alltoall, in, count, type, out, out_count, out_type, comm);
  return c.run([&](communicator& ranks) {
    message const all(in_place ? use::both : use::writes, out, elements(out_count, c.ranks()), out_type);
    if (in_place) all_to_all(ranks, all.read(), all.write());
    else all_to_all(ranks, message(use::reads, in, elements(count, c.ranks()), type).read(), all.write());
    all.deliver();
    return all.size() / elements(c.ranks());
  });
}

int MPI_Alltoallv(void const* in, int const counts[], int const begins[], MPI_Datatype type, void* out,
                  int const out_counts[], int const out_begins[], MPI_Datatype out_type, MPI_Comm comm) {
  call c(function::alltoallv, comm);
  bool const in_place = in == MPI_IN_PLACE;
  c.expect(out_type != MPI_DATATYPE_NULL && (c.passes() || none_negative(out_counts, c.ranks())));
  if (!in_place) c.expect(type != MPI_DATATYPE_NULL && (c.passes() || none_negative(counts, c.ranks())));
  if (c.passes()) return c.pass(PMPI_Alltoallv, in, counts, begins, type, out, out_counts, out_begins, out_type, comm);
  return c.run([&](communicator& ranks) {
    blocks const received(in_place ? use::both : use::writes, out, c.ranks(), out_counts, out_begins, out_type);
    if (in_place) {
      apart const copy(received.read(), received.write());
      all_to_all_v(ranks, copy.read(), received.counts(), received.offsets(), received.write(), received.counts(),
                   received.offsets());
    } else {
      blocks const sent(use::reads, in, c.ranks(), counts, begins, type);
      apart const read(sent.read(), received.write());
      all_to_all_v(ranks, read.read(), sent.counts(), sent.offsets(), received.write(), received.counts(),
                   received.offsets());
    }
    received.deliver();
    return received.write().size();
  });
}

int MPI_Allreduce(void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  reduction c(function::allreduce, comm, count, type, op);
  if (c.passes()) return c.pass(PMPI_Allreduce, in, out, count, type, op, comm);
  output const to = c.write(out, elements(count));
  return c.reduce(to.size(), [&](auto&& with) { with.all_reduce(c.read(in, out, elements(count)), to); });
}

int MPI_Reduce(void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  reduction c(function::reduce, comm, count, type, op);
  if (c.expect_root(root).passes()) return c.pass(PMPI_Reduce, in, out, count, type, op, root, comm);
  input const from = c.read(in, out, elements(count));
  output const to = c.rank() == root ? c.write(out, elements(count)) : output();
  return c.reduce(from.size(), [&](auto&& with) { with.reduce(from, to, root); });
}

int MPI_Reduce_scatter(void const* in, void* out, int const counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  reduction c(function::reduce_scatter, comm, 0, type, op);
  if (c.expect(c.passes() || none_negative(counts, c.ranks())).passes())
    return c.pass(PMPI_Reduce_scatter, in, out, counts, type, op, comm);
  auto const bytes = in_bytes(counts, c.ranks(), c.element_bytes());
  std::size_t const count = std::accumulate(counts, counts + c.ranks(), std::size_t{0},
                                            [](std::size_t n, int block) { return n + elements(block); });
  input const from = c.read(in, out, count);
  output const to = c.write(out, elements(counts[c.rank()]));
  return c.reduce(from.size(), [&](auto&& with) { with.reduce_scatter(from, to, bytes); });
}

int MPI_Reduce_scatter_block(void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  reduction c(function::reduce_scatter_block, comm, count, type, op);
  if (c.passes()) return c.pass(PMPI_Reduce_scatter_block, in, out, count, type, op, comm);
  output const to = c.write(out, elements(count));
  std::vector<std::size_t> const bytes(elements(c.ranks()), to.size());
  input const from = c.read(in, out, elements(count, c.ranks()));
  return c.reduce(from.size(), [&](auto&& with) { with.reduce_scatter(from, to, bytes); });
}

int MPI_Scan(void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  reduction c(function::scan, comm, count, type, op);
  if (c.passes()) return c.pass(PMPI_Scan, in, out, count, type, op, comm);
  output const to = c.write(out, elements(count));
  return c.reduce(to.size(), [&](auto&& with) { with.scan(c.read(in, out, elements(count)), to); });
}

int MPI_Exscan(void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  reduction c(function::exscan, comm, count, type, op);
  if (c.passes()) return c.pass(PMPI_Exscan, in, out, count, type, op, comm);
  output const to = c.write(out, elements(count));
  return c.reduce(to.size(), [&](auto&& with) { with.exclusive_scan(c.read(in, out, elements(count)), to); });
}

}  // extern "C"
