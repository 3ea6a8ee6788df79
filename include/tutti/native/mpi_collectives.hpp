// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algorithm `native`: calls on the memory of a request, made by the collectives of the MPI.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <mpi.h>
#include <utility>
#include <vector>

#include "tutti/algorithm/collective.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/body.hpp"
#include "tutti/execute/layout.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/execute/surfaces.hpp"
#include "tutti/native/mpi_progress.hpp"
#include "tutti/native/mpi_types.hpp"
#include "tutti/transport/mpi/mpi.hpp"

namespace tutti::detail {

struct mpi_collectives {
  // In place, MPI puts the result of reduce_scatter elsewhere than tutti, and MPICH 4.0 crashes in a reduce to a root other than
  // 0. An MPI all_to_all must be in place on all ranks or none, whereas in tutti each rank chooses.
  static constexpr bool works_in_place(collective c) {
    return c != collective::reduce_scatter && c != collective::reduce && c != collective::all_to_all;
  }

  // For a _v form: throws before any rank calls MPI if an int cannot hold the end of a block.
  template <collective C, class T>
  static void expect_countable(mpi const& transport, request const& r, surfaces<T> const& memory) {
    if constexpr (!reduces(C)) {
      auto const size = static_cast<std::size_t>(r.element_bytes);
      int const rank = transport.rank();
      bool const root = rank == r.root;
      for (int q = 0; q < transport.ranks(); ++q) {
        if (C == collective::all_to_all || (C == collective::scatter ? root : q == rank))
          narrow(memory.input.where.at(0, q).end() / size);
        if (C == collective::all_to_all || C == collective::all_gather || (C == collective::gather ? root : q == rank))
          narrow(memory.output.where.at(0, q).end() / size);
      }
    }
  }

  // Raises errors of the MPI on the notice board. `elements`: the length of the message, unless it consists of blocks.
  // `drive(work)` polls a collective until it has ended, or throws. Then the MPI may use the arrays of the call, and what this
  // class has made for it, as long as the process calls the MPI.
  template <collective C, class Body, class Drive>
  static void call(mpi& transport, request const& r, surfaces<typename Body::element> const& memory,
                   std::size_t elements, Body const& body, Drive const& drive) {
    in_call<Drive> const on{transport, drive};
    if constexpr (C == collective::barrier)
      on.run("MPI_Ibarrier", std::make_unique<nothing>(),
             [&](auto&, MPI_Request* to) { return MPI_Ibarrier(on.comm(), to); });
    else if constexpr (C == collective::broadcast) broadcast(on, memory.output.data, elements, r.root);
    else if constexpr (C == collective::reduce_scatter) reduce_blocks(on, memory, body);
    else if constexpr (reduces(C)) reduce_message<C>(on, memory, elements, body, r.root);
    else if (r.ragged) move_ragged<C>(on, memory, r);
    else move_blocks<C>(on, memory, r.root);
  }

 private:
  static constexpr std::size_t max_count = std::numeric_limits<int>::max();
  struct nothing {};

  template <class Drive>
  struct in_call {
    mpi& transport;
    Drive const& drive;

    MPI_Comm comm() const { return transport.communicator(); }

    // begin(used, &request) starts a collective, which refers to `used` until it has ended.
    template <class Used, class Begin>
    void run(char const* name, std::unique_ptr<Used> used, Begin&& begin) const {
      mpi_progress collective(transport, name);
      collective.begin(begin(*used, collective.request()));
      try {
        drive(collective);
      } catch (...) {
        if (!collective.settle()) static_cast<void>(used.release());
        throw;
      }
    }
  };

  // `n` bytes as an MPI count and datatype.
  struct message {
    explicit message(std::size_t n) : type(n <= max_count ? 1 : n), count(n <= max_count ? static_cast<int>(n) : 1) {}
    mpi_bytes type;
    int count;
  };

  template <class On>
  static void broadcast(On const& on, std::byte* data, std::size_t bytes, int root) {
    on.run("MPI_Ibcast", std::make_unique<message>(bytes), [&](message const& all, MPI_Request* to) {
      return MPI_Ibcast(data, all.count, all.type.get(), root, on.comm(), to);
    });
  }

  // Elements are independent, so a message that exceeds an int count is reduced in several calls.
  template <collective C, class On, class Body>
  static void reduce_message(On const& on, surfaces<typename Body::element> const& memory, std::size_t elements,
                             Body const& body, int root) {
    using reduction = mpi_reduction<Body>;
    MPI_Comm const comm = on.comm();
    for (std::size_t begin = 0; begin < elements; begin += max_count) {
      int const count = static_cast<int>(elements - begin < max_count ? elements - begin : max_count);
      void const* const in = memory.in_place ? MPI_IN_PLACE : memory.input.data + begin;
      auto* const out = memory.output.data == nullptr ? nullptr : memory.output.data + begin;
      auto how = std::make_unique<reduction>(body);
      if constexpr (C == collective::all_reduce)
        on.run("MPI_Iallreduce", std::move(how), [&](reduction const& by, MPI_Request* to) {
          return MPI_Iallreduce(in, out, count, by.type(), by.op(), comm, to);
        });
      else if constexpr (C == collective::reduce)
        on.run("MPI_Ireduce", std::move(how), [&](reduction const& by, MPI_Request* to) {
          return MPI_Ireduce(in, out, count, by.type(), by.op(), root, comm, to);
        });
      else if constexpr (C == collective::scan)
        on.run("MPI_Iscan", std::move(how), [&](reduction const& by, MPI_Request* to) {
          return MPI_Iscan(in, out, count, by.type(), by.op(), comm, to);
        });
      else {
        static_assert(C == collective::exclusive_scan, "name the function of MPI that does this collective");
        on.run("MPI_Iexscan", std::move(how), [&](reduction const& by, MPI_Request* to) {
          return MPI_Iexscan(in, out, count, by.type(), by.op(), comm, to);
        });
      }
    }
  }

  // Not in place. If an int cannot count the blocks, reduces each to its rank, one after the other.
  template <class On, class Body>
  static void reduce_blocks(On const& on, surfaces<typename Body::element> const& memory, Body const& body) {
    struct reduction {
      mpi_reduction<Body> by;
      std::vector<int> counts;
    };
    std::unique_ptr<reduction> how(new reduction{mpi_reduction<Body>(body), {}});
    int const ranks = on.transport.ranks();
    for (int q = 0; q < ranks; ++q) {
      std::size_t const n = memory.input.where.at(0, q).count;
      if (n <= max_count) how->counts.push_back(static_cast<int>(n));
    }
    if (how->counts.size() == static_cast<std::size_t>(ranks) && memory.input.where.end() <= max_count)
      return on.run("MPI_Ireduce_scatter", std::move(how), [&](reduction const& r, MPI_Request* to) {
        return MPI_Ireduce_scatter(memory.input.data, memory.output.data, r.counts.data(), r.by.type(), r.by.op(),
                                   on.comm(), to);
      });
    for (int q = 0; q < ranks; ++q) {
      extent const block = memory.input.where.at(0, q);
      reduce_message<collective::reduce>(
          on, {.input = {memory.input.data + block.begin}, .output = {memory.output.data}, .scratch = {}}, block.count,
          body, q);
    }
  }

  template <collective C, class On>
  static void move_blocks(On const& on, surfaces<std::byte> const& memory, int root) {
    MPI_Comm const comm = on.comm();
    constexpr bool scatters = C == collective::scatter;
    std::size_t const bytes = (scatters ? memory.output.where : memory.input.where).at(0, on.transport.rank()).count;
    void const* const in = memory.in_place && !scatters ? MPI_IN_PLACE : memory.input.data;
    void* const out = memory.in_place && scatters ? MPI_IN_PLACE : memory.output.data;
    auto block = std::make_unique<message>(bytes);
    int const n = block->count;
    if constexpr (C == collective::all_gather)
      on.run("MPI_Iallgather", std::move(block), [&](message const& m, MPI_Request* to) {
        return MPI_Iallgather(in, n, m.type.get(), out, n, m.type.get(), comm, to);
      });
    else if constexpr (C == collective::gather)
      on.run("MPI_Igather", std::move(block), [&](message const& m, MPI_Request* to) {
        return MPI_Igather(in, n, m.type.get(), out, n, m.type.get(), root, comm, to);
      });
    else if constexpr (C == collective::scatter)
      on.run("MPI_Iscatter", std::move(block), [&](message const& m, MPI_Request* to) {
        return MPI_Iscatter(in, n, m.type.get(), out, n, m.type.get(), root, comm, to);
      });
    else {
      static_assert(C == collective::all_to_all, "name the function of MPI that does this collective");
      on.run("MPI_Ialltoall", std::move(block), [&](message const& m, MPI_Request* to) {
        return MPI_Ialltoall(in, n, m.type.get(), out, n, m.type.get(), comm, to);
      });
    }
  }

  // The blocks of a _v form, in elements.
  struct blocks {
    blocks(layout const& where, int ranks, std::size_t element_bytes, bool known) {
      for (int q = 0; q < ranks && known; ++q) {
        extent const block = where.at(0, q);
        counts.push_back(narrow(block.count / element_bytes));
        begins.push_back(narrow(block.begin / element_bytes));
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

  template <collective C, class On>
  static void move_ragged(On const& on, surfaces<std::byte> const& memory, request const& r) {
    struct travel {
      mpi_bytes element;
      blocks sent, received;
    };
    constexpr bool scatters = C == collective::scatter, exchanges = C == collective::all_to_all;
    MPI_Comm const comm = on.comm();
    int const rank = on.transport.rank(), ranks = on.transport.ranks();
    auto const size = static_cast<std::size_t>(r.element_bytes);
    void const* const in = memory.in_place && !scatters ? MPI_IN_PLACE : memory.input.data;
    void* const out = memory.in_place && scatters ? MPI_IN_PLACE : memory.output.data;
    int const mine =
        exchanges ? 0 : narrow((scatters ? memory.output.where : memory.input.where).at(0, rank).count / size);
    bool const sends = exchanges || (scatters && rank == r.root);
    bool const receives = !scatters && (C != collective::gather || rank == r.root);
    std::unique_ptr<travel> how(new travel{mpi_bytes(size), blocks(memory.input.where, ranks, size, sends),
                                           blocks(memory.output.where, ranks, size, receives)});
    if constexpr (scatters)
      on.run("MPI_Iscatterv", std::move(how), [&](travel const& t, MPI_Request* to) {
        MPI_Datatype const type = t.element.get();
        return MPI_Iscatterv(in, t.sent.counts.data(), t.sent.begins.data(), type, out, mine, type, r.root, comm, to);
      });
    else if constexpr (exchanges)
      on.run("MPI_Ialltoallv", std::move(how), [&](travel const& t, MPI_Request* to) {
        MPI_Datatype const type = t.element.get();
        return MPI_Ialltoallv(in, t.sent.counts.data(), t.sent.begins.data(), type, out, t.received.counts.data(),
                              t.received.begins.data(), type, comm, to);
      });
    else if constexpr (C == collective::all_gather)
      on.run("MPI_Iallgatherv", std::move(how), [&](travel const& t, MPI_Request* to) {
        MPI_Datatype const type = t.element.get();
        return MPI_Iallgatherv(in, mine, type, out, t.received.counts.data(), t.received.begins.data(), type, comm, to);
      });
    else
      on.run("MPI_Igatherv", std::move(how), [&](travel const& t, MPI_Request* to) {
        MPI_Datatype const type = t.element.get();
        return MPI_Igatherv(in, mine, type, out, t.received.counts.data(), t.received.begins.data(), type, r.root, comm,
                            to);
      });
  }
};

}  // namespace tutti::detail
