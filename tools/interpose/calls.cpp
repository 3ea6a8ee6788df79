// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The collectives of MPI, each for its blocking function and for the one that returns a request.
#include <algorithm>
#include <mpi.h>
#include <numeric>
#include <vector>

#include "call.hpp"
#include "callers.hpp"
#include "messages.hpp"

using namespace interpose;

namespace {

std::size_t elements(int count, int ranks = 1) {
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(ranks);
}

bool none_negative(int const* counts, int n) {
  if (counts == nullptr) return false;
  for (int i = 0; i < n; ++i)
    if (counts[i] < 0) return false;
  return true;
}

bool any_positive(int const* counts, int n) {
  return std::any_of(counts, counts + n, [](int count) { return count > 0; });
}

// The bytes of each rank's block.
std::vector<std::size_t> in_bytes(int const* counts, int ranks, std::size_t element_bytes) {
  std::vector<std::size_t> out;
  for (int q = 0; q < ranks; ++q) out.push_back(elements(counts[q]) * element_bytes);
  return out;
}

// -- Call is `blocking` or `starting`; `ranks` is the communicator, and `kept` owns objects until the call has ended.

template <class Call>
int call_barrier(Call c) {
  if (c.passes()) return c.pass(c.comm());
  return c.run([](auto& ranks, keepsakes&) { return barrier(ranks); });
}

template <class Call>
int call_bcast(Call c, void* data, int count, MPI_Datatype type, int root) {
  c.expect(count, type);
  c.expect_memory(data);
  c.expect_root(root);
  if (c.passes()) return c.pass(data, count, type, root, c.comm());
  return c.run([&](auto& ranks, keepsakes& kept) {
    message const& all = kept.add(c.rank() == root ? use::reads : use::writes, data, elements(count), type);
    kept.bytes = all.size();
    return broadcast(ranks, all.write(), root);
  });
}

template <class Call>
int call_gather(Call c, void const* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                int root) {
  c.expect_root(root);
  bool const is_root = !c.passes() && c.rank() == root, in_place = is_root && in == MPI_IN_PLACE;
  if (is_root) c.expect(out_count, out_type);
  if (is_root) c.expect_memory(out);
  if (!in_place) c.expect(count, type), c.expect_memory(in);
  if (is_root) c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, count, type, out, out_count, out_type, root, c.comm());
  return c.run([&](auto& ranks, keepsakes& kept) {
    if (!is_root) {
      message const& mine = kept.add(use::reads, in, elements(count), type);
      kept.bytes = mine.size();
      return gather(ranks, mine.read(), {}, root);
    }
    message const& all = kept.add(use::writes, out, elements(out_count, c.ranks()), out_type);
    kept.bytes = all.size() / elements(c.ranks());
    if (in_place) return gather(ranks, all.read_block(root, c.ranks()), all.write(), root);
    return gather(ranks, kept.add(use::reads, in, elements(count), type).read(), all.write(), root);
  });
}

template <class Call>
int call_gatherv(Call c, void const* in, int count, MPI_Datatype type, void* out, int const counts[],
                 int const begins[], MPI_Datatype out_type, int root) {
  c.expect_root(root);
  bool const is_root = !c.passes() && c.rank() == root, in_place = is_root && in == MPI_IN_PLACE;
  if (is_root) c.expect(begins != nullptr && none_negative(counts, c.ranks()) && is_usable(out_type));
  if (is_root) c.expect_memory(out);
  if (!in_place) c.expect(count, type), c.expect_memory(in);
  if (is_root) c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, count, type, out, counts, begins, out_type, root, c.comm());
  return c.run([&](auto& ranks, keepsakes& kept) {
    if (!is_root) {
      message const& mine = kept.add(use::reads, in, elements(count), type);
      kept.bytes = mine.size();
      return gather_v(ranks, mine.read(), {}, {}, {}, root);
    }
    blocks const& all = kept.add(use::writes, out, c.ranks(), counts, begins, out_type);
    kept.bytes = all.block(root).size();
    if (in_place) return gather_v(ranks, all.read_block(root), all.write(), all.counts(), all.offsets(), root);
    message const& mine = kept.add(use::reads, in, elements(count), type);
    return gather_v(ranks, kept.add_apart(mine.read(), all.write()), all.write(), all.counts(), all.offsets(), root);
  });
}

template <class Call>
int call_scatter(Call c, void const* in, int in_count, MPI_Datatype in_type, void* out, int count, MPI_Datatype type,
                 int root) {
  c.expect_root(root);
  bool const is_root = !c.passes() && c.rank() == root, in_place = is_root && out == MPI_IN_PLACE;
  if (is_root) c.expect(in_count, in_type);
  if (is_root) c.expect_memory(in);
  if (!in_place) c.expect(count, type), c.expect_memory(out);
  if (is_root) c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, in_count, in_type, out, count, type, root, c.comm());
  return c.run([&](auto& ranks, keepsakes& kept) {
    message const& all =
        kept.add(use::reads, in, is_root ? elements(in_count, c.ranks()) : 0, is_root ? in_type : MPI_BYTE);
    if (in_place) {
      output const own = all.block(root, c.ranks());
      kept.bytes = own.size();
      return scatter(ranks, all.read(), own, root);
    }
    message const& mine = kept.add(use::writes, out, elements(count), type);
    kept.bytes = mine.size();
    return scatter(ranks, all.read(), mine.write(), root);
  });
}

template <class Call>
int call_scatterv(Call c, void const* in, int const counts[], int const begins[], MPI_Datatype in_type, void* out,
                  int count, MPI_Datatype type, int root) {
  c.expect_root(root);
  bool const is_root = !c.passes() && c.rank() == root, in_place = is_root && out == MPI_IN_PLACE;
  if (is_root) c.expect(begins != nullptr && none_negative(counts, c.ranks()) && is_usable(in_type));
  if (is_root) c.expect_memory(in);
  if (!in_place) c.expect(count, type), c.expect_memory(out);
  if (is_root) c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, counts, begins, in_type, out, count, type, root, c.comm());
  return c.run([&](auto& ranks, keepsakes& kept) {
    if (!is_root) {
      message const& mine = kept.add(use::writes, out, elements(count), type);
      kept.bytes = mine.size();
      return scatter_v(ranks, {}, {}, mine.write(), {}, root);
    }
    blocks const& all = kept.add(use::reads, in, c.ranks(), counts, begins, in_type);
    kept.bytes = all.block(root).size();
    if (in_place) return scatter_v(ranks, all.read(), all.counts(), all.block(root), all.offsets(), root);
    message const& mine = kept.add(use::writes, out, elements(count), type);
    return scatter_v(ranks, kept.add_apart(all.read(), mine.write()), all.counts(), mine.write(), all.offsets(), root);
  });
}

template <class Call>
int call_allgather(Call c, void const* in, int count, MPI_Datatype type, void* out, int out_count,
                   MPI_Datatype out_type) {
  bool const in_place = in == MPI_IN_PLACE;
  c.expect(out_count, out_type);
  if (!in_place) c.expect(count, type);
  c.expect_memory(out);
  c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, count, type, out, out_count, out_type, c.comm());
  return c.run([&](auto& ranks, keepsakes& kept) {
    message const& all = kept.add(use::writes, out, elements(out_count, c.ranks()), out_type);
    kept.bytes = all.size() / elements(c.ranks());
    if (in_place) return all_gather(ranks, all.read_block(c.rank(), c.ranks()), all.write());
    return all_gather(ranks, kept.add(use::reads, in, elements(count), type).read(), all.write());
  });
}

template <class Call>
int call_allgatherv(Call c, void const* in, int count, MPI_Datatype type, void* out, int const counts[],
                    int const begins[], MPI_Datatype out_type) {
  bool const in_place = in == MPI_IN_PLACE;
  c.expect(c.passes() || (begins != nullptr && none_negative(counts, c.ranks()) && is_usable(out_type)));
  if (!in_place) c.expect(count, type);
  c.expect_memory(out);
  c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, count, type, out, counts, begins, out_type, c.comm());
  return c.run([&](auto& ranks, keepsakes& kept) {
    blocks const& all = kept.add(use::writes, out, c.ranks(), counts, begins, out_type);
    kept.bytes = all.block(c.rank()).size();
    if (in_place) return all_gather_v(ranks, all.read_block(c.rank()), all.write(), all.counts(), all.offsets());
    message const& mine = kept.add(use::reads, in, elements(count), type);
    return all_gather_v(ranks, kept.add_apart(mine.read(), all.write()), all.write(), all.counts(), all.offsets());
  });
}

template <class Call>
int call_alltoall(Call c, void const* in, int count, MPI_Datatype type, void* out, int out_count,
                  MPI_Datatype out_type) {
  bool const in_place = in == MPI_IN_PLACE;
  c.expect(out_count, out_type);
  if (!in_place) c.expect(count, type);
  c.expect_memory(out);
  c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, count, type, out, out_count, out_type, c.comm());
  return c.run([&](auto& ranks, keepsakes& kept) {
    message const& all = kept.add(in_place ? use::both : use::writes, out, elements(out_count, c.ranks()), out_type);
    kept.bytes = all.size() / elements(c.ranks());
    if (in_place) return all_to_all(ranks, all.read(), all.write());
    return all_to_all(ranks, kept.add(use::reads, in, elements(count, c.ranks()), type).read(), all.write());
  });
}

template <class Call>
int call_alltoallv(Call c, void const* in, int const counts[], int const begins[], MPI_Datatype type, void* out,
                   int const out_counts[], int const out_begins[], MPI_Datatype out_type) {
  bool const in_place = in == MPI_IN_PLACE;
  c.expect(c.passes() || (out_begins != nullptr && none_negative(out_counts, c.ranks()) && is_usable(out_type)));
  if (!in_place) c.expect(c.passes() || (begins != nullptr && none_negative(counts, c.ranks()) && is_usable(type)));
  c.expect_memory(out);
  if (!in_place && !c.passes()) c.expect_apart(in, out, any_positive(counts, c.ranks()));
  if (c.passes()) return c.pass(in, counts, begins, type, out, out_counts, out_begins, out_type, c.comm());
  return c.run([&](auto& ranks, keepsakes& kept) {
    blocks const& received =
        kept.add(in_place ? use::both : use::writes, out, c.ranks(), out_counts, out_begins, out_type);
    blocks const& sent = in_place ? received : kept.add(use::reads, in, c.ranks(), counts, begins, type);
    kept.bytes = received.write().size();
    return all_to_all_v(ranks, kept.add_apart(sent.read(), received.write()), sent.counts(), received.write(),
                        received.counts(), sent.offsets(), received.offsets());
  });
}

template <class Call>
int call_allreduce(Call c, void const* in, void* out, int count, MPI_Datatype type, MPI_Op op) {
  reduction const r(c, count, type, op);
  r.expect_whole(c, count);
  c.expect_memory(out);
  c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, out, count, type, op, c.comm());
  input const from = r.read(in, out, elements(count));
  output const to = r.write(out, elements(count));
  return r.run(c, to.size(), [&](auto& with, keepsakes&) { return with.all_reduce(from, to); });
}

template <class Call>
int call_reduce(Call c, void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root) {
  reduction const r(c, count, type, op);
  r.expect_whole(c, count);
  c.expect_root(root);
  if (!c.passes()) c.expect_memory(c.rank() == root ? out : in);
  if (!c.passes() && c.rank() == root) c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, out, count, type, op, root, c.comm());
  input const from = r.read(in, out, elements(count));
  output const to = c.rank() == root ? r.write(out, elements(count)) : output();
  return r.run(c, from.size(), [&](auto& with, keepsakes&) { return with.reduce(from, to, root); });
}

template <class Call>
int call_reduce_scatter(Call c, void const* in, void* out, int const counts[], MPI_Datatype type, MPI_Op op) {
  reduction const r(c, 0, type, op);
  c.expect(c.passes() || none_negative(counts, c.ranks()));
  c.expect_memory(out);
  if (!c.passes()) c.expect_apart(in, out, any_positive(counts, c.ranks()));
  if (c.passes()) return c.pass(in, out, counts, type, op, c.comm());
  auto const bytes = in_bytes(counts, c.ranks(), r.element_bytes());
  std::size_t const count = std::accumulate(counts, counts + c.ranks(), std::size_t{0},
                                            [](std::size_t n, int block) { return n + elements(block); });
  input const from = r.read(in, out, count);
  output const to = r.write(out, elements(counts[c.rank()]));
  return r.run(c, from.size(), [&](auto& with, keepsakes& kept) {
    return with.reduce_scatter(from, kept.add_result(from, to), bytes);
  });
}

template <class Call>
int call_reduce_scatter_block(Call c, void const* in, void* out, int count, MPI_Datatype type, MPI_Op op) {
  reduction const r(c, count, type, op);
  c.expect_memory(out);
  c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, out, count, type, op, c.comm());
  output const to = r.write(out, elements(count));
  std::vector<std::size_t> const bytes(elements(c.ranks()), to.size());
  input const from = r.read(in, out, elements(count, c.ranks()));
  return r.run(c, from.size(), [&](auto& with, keepsakes& kept) {
    return with.reduce_scatter(from, kept.add_result(from, to), bytes);
  });
}

template <class Call>
int call_scan(Call c, void const* in, void* out, int count, MPI_Datatype type, MPI_Op op) {
  reduction const r(c, count, type, op);
  r.expect_whole(c, count);
  c.expect_memory(out);
  c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, out, count, type, op, c.comm());
  input const from = r.read(in, out, elements(count));
  output const to = r.write(out, elements(count));
  return r.run(c, to.size(), [&](auto& with, keepsakes&) { return with.scan(from, to); });
}

template <class Call>
int call_exscan(Call c, void const* in, void* out, int count, MPI_Datatype type, MPI_Op op) {
  reduction const r(c, count, type, op);
  r.expect_whole(c, count);
  c.expect_memory(out);
  c.expect_apart(in, out, count > 0);
  if (c.passes()) return c.pass(in, out, count, type, op, c.comm());
  input const from = r.read(in, out, elements(count));
  // Rank 0 has no result. Its output is not significant, so it may be null; tutti takes the input for it and changes nothing there.
  bool const unused = out == nullptr && in != MPI_IN_PLACE && c.rank() == 0;
  output const to = r.write(unused ? const_cast<void*>(in) : out, elements(count));
  return r.run(c, to.size(), [&](auto& with, keepsakes&) { return with.exclusive_scan(from, to); });
}

}  // namespace

// INTERPOSE(blocking function, the one that returns a request, their enumerators, parameters, arguments of call_...)
#define INTERPOSE(now, later, now_id, later_id, parameters, ...)                                                \
  int MPI_##now(INTERPOSE_PARAMETERS parameters MPI_Comm comm) {                                                \
    return call_##now_id(blocking(function::now_id, comm, PMPI_##now) __VA_OPT__(, ) __VA_ARGS__);              \
  }                                                                                                             \
  int MPI_##later(INTERPOSE_PARAMETERS parameters MPI_Comm comm, MPI_Request* request) {                        \
    return call_##now_id(starting(function::later_id, comm, PMPI_##later, request) __VA_OPT__(, ) __VA_ARGS__); \
  }                                                                                                             \
  INTERPOSE_PMPI(now, (INTERPOSE_PARAMETERS parameters MPI_Comm comm), __VA_ARGS__ __VA_OPT__(, ) comm)         \
  INTERPOSE_PMPI(later, (INTERPOSE_PARAMETERS parameters MPI_Comm comm, MPI_Request * request),                 \
                 __VA_ARGS__ __VA_OPT__(, ) comm, request)
#define INTERPOSE_PARAMETERS(...) __VA_ARGS__ __VA_OPT__(, )

extern "C" {

// clang-format off
INTERPOSE(Barrier, Ibarrier, barrier, ibarrier, ())
INTERPOSE(Bcast, Ibcast, bcast, ibcast, (void* a, int b, MPI_Datatype c, int root), a, b, c, root)
INTERPOSE(Gather, Igather, gather, igather,
          (void const* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f, int root), a, b, c, d, e, f, root)
INTERPOSE(Gatherv, Igatherv, gatherv, igatherv,
          (void const* a, int b, MPI_Datatype c, void* d, int const e[], int const f[], MPI_Datatype g, int root),
          a, b, c, d, e, f, g, root)
INTERPOSE(Scatter, Iscatter, scatter, iscatter,
          (void const* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f, int root), a, b, c, d, e, f, root)
INTERPOSE(Scatterv, Iscatterv, scatterv, iscatterv,
          (void const* a, int const b[], int const c[], MPI_Datatype d, void* e, int f, MPI_Datatype g, int root),
          a, b, c, d, e, f, g, root)
INTERPOSE(Allgather, Iallgather, allgather, iallgather,
          (void const* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f), a, b, c, d, e, f)
INTERPOSE(Allgatherv, Iallgatherv, allgatherv, iallgatherv,
          (void const* a, int b, MPI_Datatype c, void* d, int const e[], int const f[], MPI_Datatype g),
          a, b, c, d, e, f, g)
INTERPOSE(Alltoall, Ialltoall, alltoall, ialltoall,
          (void const* a, int b, MPI_Datatype c, void* d, int e, MPI_Datatype f), a, b, c, d, e, f)
INTERPOSE(Alltoallv, Ialltoallv, alltoallv, ialltoallv,
          (void const* a, int const b[], int const c[], MPI_Datatype d, void* e, int const f[], int const g[],
           MPI_Datatype h), a, b, c, d, e, f, g, h)
INTERPOSE(Allreduce, Iallreduce, allreduce, iallreduce,
          (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e), a, b, c, d, e)
INTERPOSE(Reduce, Ireduce, reduce, ireduce,
          (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e, int root), a, b, c, d, e, root)
INTERPOSE(Reduce_scatter, Ireduce_scatter, reduce_scatter, ireduce_scatter,
          (void const* a, void* b, int const c[], MPI_Datatype d, MPI_Op e), a, b, c, d, e)
INTERPOSE(Reduce_scatter_block, Ireduce_scatter_block, reduce_scatter_block, ireduce_scatter_block,
          (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e), a, b, c, d, e)
INTERPOSE(Scan, Iscan, scan, iscan, (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e), a, b, c, d, e)
INTERPOSE(Exscan, Iexscan, exscan, iexscan, (void const* a, void* b, int c, MPI_Datatype d, MPI_Op e), a, b, c, d, e)
// clang-format on

}  // extern "C"
