// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm `native`: calls on the memory of a request, made by the collectives of the MPI.
#pragma once

#include <cstddef>
#include <limits>
#include <mpi.h>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/execute/surfaces.hpp"
#include "tutti/native/mpi_types.hpp"
#include "tutti/transport/mpi/mpi.hpp"

namespace tutti::detail {

struct mpi_collectives {
  // In place, MPI puts the result of reduce_scatter elsewhere than tutti, and MPICH 4.0 crashes in a reduce to a root other than
  // 0. An MPI all_to_all must be in place on all ranks or none, whereas in tutti each rank chooses.
  static constexpr bool works_in_place(collective c) {
    return c != collective::reduce_scatter && c != collective::reduce && c != collective::all_to_all;
  }

  // Raises errors of the MPI on the notice board. `elements`: the length of the message, unless it consists of blocks. Calls enter() once,
  // after everything that may throw; what it returns exists while this rank is in the MPI's collective.
  template <collective C, class Body, class Enter>
  static void call(mpi& transport, request const& r, surfaces<typename Body::element> const& memory,
                   std::size_t elements, Body const& body, Enter const& enter) {
    if constexpr (C == collective::barrier) meet(transport, enter);
    else if constexpr (C == collective::broadcast) broadcast(transport, memory.output.data, elements, r.root, enter);
    else if constexpr (C == collective::reduce_scatter) reduce_blocks(transport, memory, body, enter);
    else if constexpr (reduces(C)) reduce_message<C>(transport, memory, elements, body, r.root, enter);
    else if (r.ragged) move_ragged<C>(transport, memory, r, enter);
    else move_blocks<C>(transport, memory, r.root, enter);
  }

 private:
  static constexpr std::size_t max_count = std::numeric_limits<int>::max();

  // `n` bytes as an MPI count and datatype.
  struct message {
    explicit message(std::size_t n) : type(n <= max_count ? 1 : n), count(n <= max_count ? static_cast<int>(n) : 1) {}
    mpi_bytes type;
    int count;
  };

  template <class Enter>
  static void meet(mpi& transport, Enter const& enter) {
    auto const inside = enter();
    transport.expect(MPI_Barrier(transport.communicator()), "MPI_Barrier");
  }

  template <class Enter>
  static void broadcast(mpi& transport, std::byte* data, std::size_t bytes, int root, Enter const& enter) {
    message const all(bytes);
    auto const inside = enter();
    transport.expect(MPI_Bcast(data, all.count, all.type.get(), root, transport.communicator()), "MPI_Bcast");
  }

  template <collective C, class Body, class Enter>
  static void reduce_message(mpi& transport, surfaces<typename Body::element> const& memory, std::size_t elements,
                             Body const& body, int root, Enter const& enter) {
    mpi_reduction<Body> how(body);
    auto const inside = enter();
    how.begin();
    reduce_parts<C>(transport, memory, elements, how, root);
  }
  // Elements are independent, so a message that exceeds an int count is reduced in several calls.
  template <collective C, class Body>
  static void reduce_parts(mpi& transport, surfaces<typename Body::element> const& memory, std::size_t elements,
                           mpi_reduction<Body> const& how, int root) {
    MPI_Comm const comm = transport.communicator();
    for (std::size_t begin = 0; begin < elements; begin += max_count) {
      int const count = static_cast<int>(elements - begin < max_count ? elements - begin : max_count);
      void const* const in = memory.in_place ? MPI_IN_PLACE : memory.input.data + begin;
      auto* const out = memory.output.data == nullptr ? nullptr : memory.output.data + begin;
      if constexpr (C == collective::all_reduce)
        transport.expect(MPI_Allreduce(in, out, count, how.type(), how.op(), comm), "MPI_Allreduce");
      else if constexpr (C == collective::reduce)
        transport.expect(MPI_Reduce(in, out, count, how.type(), how.op(), root, comm), "MPI_Reduce");
      else if constexpr (C == collective::scan)
        transport.expect(MPI_Scan(in, out, count, how.type(), how.op(), comm), "MPI_Scan");
      else {
        static_assert(C == collective::exclusive_scan, "name the function of MPI that does this collective");
        transport.expect(MPI_Exscan(in, out, count, how.type(), how.op(), comm), "MPI_Exscan");
      }
    }
  }

  // Not in place. If an int cannot count the blocks, reduces each to its rank, one after the other.
  template <class Body, class Enter>
  static void reduce_blocks(mpi& transport, surfaces<typename Body::element> const& memory, Body const& body,
                            Enter const& enter) {
    mpi_reduction<Body> how(body);
    std::vector<int> counts;
    for (int q = 0; q < transport.ranks(); ++q) {
      std::size_t const n = memory.input.where.at(0, q).count;
      if (n <= max_count) counts.push_back(static_cast<int>(n));
    }
    auto const inside = enter();
    how.begin();
    if (counts.size() == static_cast<std::size_t>(transport.ranks()) && memory.input.where.end() <= max_count)
      return transport.expect(MPI_Reduce_scatter(memory.input.data, memory.output.data, counts.data(), how.type(),
                                                 how.op(), transport.communicator()),
                              "MPI_Reduce_scatter");
    for (int q = 0; q < transport.ranks(); ++q) {
      extent const block = memory.input.where.at(0, q);
      reduce_parts<collective::reduce>(
          transport, {.input = {memory.input.data + block.begin}, .output = {memory.output.data}, .scratch = {}},
          block.count, how, q);
    }
  }

  template <collective C, class Enter>
  static void move_blocks(mpi& transport, surfaces<std::byte> const& memory, int root, Enter const& enter) {
    MPI_Comm const comm = transport.communicator();
    constexpr bool scatters = C == collective::scatter;
    message const block((scatters ? memory.output.where : memory.input.where).at(0, transport.rank()).count);
    void const* const in = memory.in_place && !scatters ? MPI_IN_PLACE : memory.input.data;
    void* const out = memory.in_place && scatters ? MPI_IN_PLACE : memory.output.data;
    int const n = block.count;
    MPI_Datatype const type = block.type.get();
    auto const inside = enter();
    if constexpr (C == collective::all_gather)
      transport.expect(MPI_Allgather(in, n, type, out, n, type, comm), "MPI_Allgather");
    else if constexpr (C == collective::gather)
      transport.expect(MPI_Gather(in, n, type, out, n, type, root, comm), "MPI_Gather");
    else if constexpr (C == collective::scatter)
      transport.expect(MPI_Scatter(in, n, type, out, n, type, root, comm), "MPI_Scatter");
    else {
      static_assert(C == collective::all_to_all, "name the function of MPI that does this collective");
      transport.expect(MPI_Alltoall(in, n, type, out, n, type, comm), "MPI_Alltoall");
    }
  }

  // The blocks of a _v form, in elements.
  struct blocks {
    blocks(layout const& where, int ranks, std::size_t element_bytes, bool known) {
      for (int q = 0; q < ranks && known; ++q) {
        extent const block = where.at(0, q);
        narrow(block.end() / element_bytes);
        counts.push_back(static_cast<int>(block.count / element_bytes));
        begins.push_back(static_cast<int>(block.begin / element_bytes));
      }
    }
    std::vector<int> counts, begins;
  };
  static int narrow(std::size_t n) {
    if (n <= max_count) return static_cast<int>(n);
    throw error({.code = error_code::bad_argument,
                 .what = join({"MPI counts the elements of a _v form in an int, which cannot hold ", n}),
                 .way_out = "choose an algorithm other than native"});
  }

  template <collective C, class Enter>
  static void move_ragged(mpi& transport, surfaces<std::byte> const& memory, request const& r, Enter const& enter) {
    MPI_Comm const comm = transport.communicator();
    int const rank = transport.rank(), ranks = transport.ranks();
    auto const size = static_cast<std::size_t>(r.element_bytes);
    mpi_bytes const element(size);
    MPI_Datatype const type = element.get();
    void const* const in = memory.in_place && C != collective::scatter ? MPI_IN_PLACE : memory.input.data;
    void* const out = memory.in_place && C == collective::scatter ? MPI_IN_PLACE : memory.output.data;
    if constexpr (C == collective::scatter) {
      blocks const sent(memory.input.where, ranks, size, rank == r.root);
      int const mine = narrow(memory.output.where.at(0, rank).count / size);
      auto const inside = enter();
      transport.expect(MPI_Scatterv(in, sent.counts.data(), sent.begins.data(), type, out, mine, type, r.root, comm),
                       "MPI_Scatterv");
    } else if constexpr (C == collective::all_to_all) {
      blocks const sent(memory.input.where, ranks, size, true), received(memory.output.where, ranks, size, true);
      auto const inside = enter();
      transport.expect(MPI_Alltoallv(in, sent.counts.data(), sent.begins.data(), type, out, received.counts.data(),
                                     received.begins.data(), type, comm),
                       "MPI_Alltoallv");
    } else {
      blocks const received(memory.output.where, ranks, size, C == collective::all_gather || rank == r.root);
      int const mine = narrow(memory.input.where.at(0, rank).count / size);
      auto const inside = enter();
      if constexpr (C == collective::all_gather)
        transport.expect(
            MPI_Allgatherv(in, mine, type, out, received.counts.data(), received.begins.data(), type, comm),
            "MPI_Allgatherv");
      else
        transport.expect(
            MPI_Gatherv(in, mine, type, out, received.counts.data(), received.begins.data(), type, r.root, comm),
            "MPI_Gatherv");
    }
  }
};

}  // namespace tutti::detail
