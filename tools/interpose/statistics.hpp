// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the program's calls by how they were carried out; TUTTI_MPI_STATS=1 prints the counts when MPI is finalized.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "environment.hpp"
#include "tutti/core/text.hpp"

namespace interpose {

// clang-format off
enum class function {
  allgather, allgatherv, allreduce, alltoall, alltoallv, alltoallw, barrier, bcast, exscan, gather, gatherv, reduce,
  reduce_scatter, reduce_scatter_block, scan, scatter, scatterv,
  iallgather, iallgatherv, iallreduce, ialltoall, ialltoallv, ialltoallw, ibarrier, ibcast, iexscan, igather, igatherv,
  ireduce, ireduce_scatter, ireduce_scatter_block, iscan, iscatter, iscatterv,
};
inline constexpr auto function_names = std::to_array<std::string_view>({
  "MPI_Allgather", "MPI_Allgatherv", "MPI_Allreduce", "MPI_Alltoall", "MPI_Alltoallv", "MPI_Alltoallw", "MPI_Barrier",
  "MPI_Bcast", "MPI_Exscan", "MPI_Gather", "MPI_Gatherv", "MPI_Reduce", "MPI_Reduce_scatter",
  "MPI_Reduce_scatter_block", "MPI_Scan", "MPI_Scatter", "MPI_Scatterv",
  "MPI_Iallgather", "MPI_Iallgatherv", "MPI_Iallreduce", "MPI_Ialltoall", "MPI_Ialltoallv", "MPI_Ialltoallw",
  "MPI_Ibarrier", "MPI_Ibcast", "MPI_Iexscan", "MPI_Igather", "MPI_Igatherv", "MPI_Ireduce", "MPI_Ireduce_scatter",
  "MPI_Ireduce_scatter_block", "MPI_Iscan", "MPI_Iscatter", "MPI_Iscatterv",
});
// clang-format on

// The reason why a call goes to the MPI.
// clang-format off
enum class reason {
  none, first_calls, first_use, own_operation, not_served, intercommunicator, several_machines, operation, gaps, bad_argument,
  same_buffer, in_place, not_started, no_memory, handed_back, broken,
};
inline constexpr auto reason_texts = std::to_array<std::string_view>({
  "", "first calls of a communicator", "non-blocking before the first blocking one", "non-blocking by an operation of the program's", "not served",
  "intercommunicator", "ranks on several machines", "operation or type", "type with gaps",
  "an invalid argument", "one buffer as input and output", "MPI_IN_PLACE in place of a buffer", "outside of MPI_Init and MPI_Finalize",
  "no shared memory left", "after an error", "it could not be taken over",
});
// clang-format on

class statistics {
 public:
  bool wanted() const { return wanted_; }

  void ran(function f, std::size_t bytes) {
    if (!wanted_) return;
    row& r = of(f);
    r.ran.fetch_add(1, std::memory_order_relaxed);
    r.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void passed(function f, reason why) {
    if (wanted_) of(f).passed[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }

  // One line per function that was called.
  std::string text() const {
    std::string out = line("function", "on tutti", "bytes", "passed to the MPI");
    for (std::size_t f = 0; f < rows_.size(); ++f) {
      row const& r = rows_[f];
      std::uint64_t passed = 0;
      std::string why;
      for (std::size_t i = 0; i < r.passed.size(); ++i) {
        if (r.passed[i] == 0) continue;
        passed += r.passed[i];
        why += tutti::detail::join({why.empty() ? ": " : ", ", reason_texts[i]});
      }
      if (r.ran + passed > 0)
        out += line(function_names[f], std::to_string(r.ran), std::to_string(r.bytes), std::to_string(passed) + why);
    }
    return out;
  }

 private:
  struct row {
    std::atomic<std::uint64_t> ran{0}, bytes{0};
    std::array<std::atomic<std::uint64_t>, reason_texts.size()> passed{};
  };

  row& of(function f) { return rows_[static_cast<std::size_t>(f)]; }
  static std::string line(std::string_view name, std::string_view ran, std::string_view bytes,
                          std::string_view passed) {
    auto const right = [](std::string_view text, std::size_t width) {
      return std::string(text.size() < width ? width - text.size() : 0, ' ').append(text);
    };
    std::string out("tutti: ");
    out.append(name).append(27 - name.size(), ' ');
    return out.append(right(ran, 10)).append(right(bytes, 16)).append("  ").append(passed).append("\n");
  }

  bool const wanted_ = is_switched_on("TUTTI_MPI_STATS");
  std::array<row, function_names.size()> rows_{};
};

inline statistics counted;

}  // namespace interpose
