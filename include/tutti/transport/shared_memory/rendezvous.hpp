// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks that share no parent get the same file: rank 0 creates it and sends it to the others over a local socket
// with an abstract name, which vanishes with its process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/system/descriptor.hpp"
#include "tutti/transport/system/local_socket.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti::detail {

// Names, liveness and advice that depend on how the ranks were started.
struct acquaintance {
  std::vector<int> names{};         // of ranks in error messages; empty: their numbers
  std::function<bool(int)> gone{};  // whether a rank that has not arrived can no longer do so, if that is known
  std::string way_out =
      "make sure that all ranks were started on this machine, by one user, in one network namespace and with the same "
      "TUTTI_SIZE and TUTTI_JOB, and reached init(), or raise TUTTI_TIMEOUT";
  // Watches the processes of ranks although `gone` is given, because that may tell less once they have arrived.
  bool watch_all = false;
  // Where rank 0 keeps the name after the meeting, so that no other job can meet under it; null: it does not.
  descriptor* kept_name = nullptr;

  int name_of(int rank) const { return names.empty() ? rank : names[static_cast<std::size_t>(rank)]; }
};

// What a rank says when it has connected.
struct greeting {
  static constexpr std::uint64_t word = 0x747574746921;  // "tutti!"
  std::uint64_t sender = word;
  std::uint64_t layout = segment_layout;
  std::int32_t rank;
  std::int32_t ranks;
};

// One rank's part in the meeting of a job. `job` is the same at all its ranks and differs from other jobs on this
// machine. Both sides check the user id of the other, because a name can be guessed but an owner cannot be forged.
//
// Each of the others keeps its connection until rank 0 has heard from all of them. So rank 0 learns at once if one of
// them ends, and they learn at once if rank 0 does. If rank 0 or the first of them runs out of time, rank 0 tells all
// of them why, and all ranks report the same error.
class rendezvous {
 public:
  [[gnu::cold]] rendezvous(std::string const& job, int rank, int ranks, countdown& until, acquaintance others = {});

  // Returns the file that `make` creates at rank 0. Throws error: timeout with the ranks that did not arrive, rank_lost
  // if one of them ended meanwhile, mismatch if two claim the same rank, system, and the exceptions of `make`.
  descriptor meet(function_ref<descriptor()> make);

  // Of the ranks that this one has a connection to: rank 0 watches all, and they watch rank 0. So the loss of a rank is
  // noticed even before it has recorded its process in the segment, and where process numbers have different meanings.
  std::vector<process_watch> take_watches() noexcept { return std::move(watches_); }

 private:
  static constexpr int look_around = 100;  // milliseconds between two checks of the deadline
  static int next_look() noexcept;
  // between two attempts to connect before rank 0 listens
  static constexpr std::chrono::microseconds longest_pause{2000};

  // The answer of rank 0: the file, or the reason why there is none.
  struct answer {
    std::int32_t code = 0;
    std::int32_t peer = 0;
    char text[1016] = {};
  };

  // -- Rank 0.

  [[gnu::cold]] descriptor be_host(function_ref<descriptor()> make);

  [[gnu::cold]] descriptor listen() const;
  // Returns when every other rank has connected and sent its number.
  [[gnu::cold]] void gather(descriptor const& listener, std::vector<descriptor>& guests);
  // From now on nobody can connect. Those that have, beside the ranks, are of another job.
  [[gnu::cold]] static void stop_listening(descriptor const& listener, std::vector<descriptor> others);

  // A message from a rank that has connected means that its time is up; its connection may also have closed.
  [[noreturn, gnu::cold]] void fail_because_of(int rank, std::vector<descriptor> const& guests) const;
  // Reads the number of a rank. False if the connection has closed, or is not that of a rank.
  [[gnu::cold]] bool seat(std::vector<descriptor>& guests, descriptor& connection);
  descriptor& place_of(std::vector<descriptor>& guests, greeting const& guest) const;
  [[noreturn, gnu::cold]] void fail_to_accept(int code) const;

  [[gnu::cold]] std::vector<int> absent(std::vector<descriptor> const& guests) const;

  [[gnu::cold]] static void send_file(descriptor const& guest, descriptor const& file);
  [[gnu::cold]] static void send_refusal(descriptor const& guest, error const& why);

  // -- The other ranks.

  [[gnu::cold]] descriptor be_guest();

  [[gnu::cold]] descriptor receive_file(descriptor const& host) const;

  // -- All ranks.

  int name_of(int rank) const { return others_.name_of(rank); }
  std::string called(int rank) const;

  void expect_to_come(int rank) const;
  void expect_all_to_come() const;

  // Waits for a process whose connection has closed to end. The connection of a killed process closes a moment before
  // the system reports its end, and this rank's peers must find the same cause.
  void expect_end() const;

  void watch(int rank, descriptor const& connection);

  int rank_;
  int ranks_;
  countdown& until_;
  acquaintance others_;
  std::vector<process_watch> watches_;
  std::string job_;
  local_address address_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/rendezvous_impl.hpp"
#endif
