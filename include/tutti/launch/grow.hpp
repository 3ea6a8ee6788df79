// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// grow: a larger communicator, of these ranks and of processes that have been started later.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/launch/newcomers.hpp"
#include "tutti/transport/shared_memory/shm.hpp"

namespace tutti {

// Processes that wait to join, as one rank sees them. Each has asked for a number, by a join_request.
class newcomers {
 public:
  newcomers() = default;
  newcomers(newcomers&&) = default;  // it holds connections, which have no copies
  newcomers& operator=(newcomers&&) = default;
  std::size_t size() const noexcept { return all_.size(); }
  std::vector<int> numbers() const;
  // Tells them that nobody will ask them to join: their join_request throws bad_argument.
  void turn_away() const;

 private:
  friend newcomers find_newcomers(std::string const&, std::span<int const>, std::size_t);
  friend struct detail::newcomers_of;
  std::vector<detail::newcomer> all_;
};

// Those of these numbers that wait under this name, `most` at most, in the order of the numbers. It takes a system call for each
// number, and does not wait. Rank 0 calls it between two steps; on other ranks, it shows who waits.
// Throws error: system, if this process may open no more files.
newcomers find_newcomers(std::string const& name, std::span<int const> numbers,
                         std::size_t most = std::numeric_limits<std::size_t>::max());

// The options of grow. All ranks pass the same, but for `word` and `flags`.
struct grow_options {
  std::chrono::nanoseconds within = std::chrono::seconds(5);  // how long ranks and newcomers wait for each other: not 0
  std::uint64_t word = 0;  // for the newcomers, from rank 0: the number of a step, say
  // This rank's flags in the vote at the end, as of communicator::agree. Bit 0: it is willing to grow; grow clears it on a rank that
  // has not met the others. Bit 1: it has not failed. If a rank clears either, no rank gets the larger communicator, and without bit 1,
  // grown::intact() is false. Other bits are the program's. If nobody waits to join, there is no vote, and no rank learns of the others'.
  int flags = ~0;
  std::chrono::nanoseconds exclude_after{0};
};

// The result of grow.
struct grown {
  std::optional<communicator<shm>> comm{};  // the larger one, if all ranks have it
  agreement vote{};   // of the ranks of the old one. If nobody waits there is no vote, and flags are this rank's own
  std::string why{};  // what has kept this rank from meeting the others, if anything

  // Whether no rank of the old communicator is lost or has failed; the same answer on all ranks. Otherwise, shrink() it.
  bool intact() const noexcept { return vote.gone.empty() && (vote.flags & 2) != 0; }
};

// Makes a communicator of the ranks of `comm`, with the same numbers, and of the newcomers that rank 0 has found, which follow in
// their order. Collective; the newcomers are in join_request::wait(). All ranks pass the same name, and only rank 0 passes newcomers.
// If there are none, it returns no communicator, at the cost of a broadcast of 16 bytes. If a newcomer has ended or does not come in
// time, or if a rank is lost, it returns no communicator on any rank: continue with the old one if it is intact(), otherwise shrink it.
// Over shared memory only; all processes have the same user.
// Throws error: as a broadcast and communicator::agree; bad_argument if `within` is not positive; mismatch if names differ. A rank
// that catches an error, of grow or of another call while others may be in grow, calls comm.agree(0) once, and then shrink(): the
// others' grow ends with that vote, and is not intact().
//
//   auto larger = tutti::grow(comm, "my-run", waiting);
//   if (larger.comm) comm = *std::move(larger.comm);
//   else if (!larger.intact()) comm = comm.shrink();
grown grow(communicator<shm>& comm, std::string const& name, newcomers const& found, grow_options const& options = {},
           std::source_location where = std::source_location::current());

// In a process that is to join ranks: while this exists, they find it under this name and number. Destroy it once a call on the new
// communicator has succeeded: ranks that still find it invite it again, and their grow() then waits for nothing.
class join_request {
 public:
  // Throws error: system if another process has the same name and number.
  join_request(std::string name, int number);

  struct joined {
    communicator<shm> comm;
    std::uint64_t word;  // grow_options::word of the ranks
  };
  // Waits until the ranks have called grow, and this process is one of them; if a meeting fails, until the next one. The ranks may
  // have kept the old communicator although this process has the new one, whose first call then throws (rank_left, or timeout). So
  // begin with a call that all make, such as a barrier, and call wait() again if it throws.
  // Throws error: timeout after `most`; bad_argument if the ranks turn this process away; mismatch if they use another version of
  // tutti.
  joined wait(std::chrono::nanoseconds most);

 private:
  detail::open_door door_;
};

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/grow_impl.hpp"
#endif
