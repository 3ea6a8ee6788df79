// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks that share no parent get the same file: rank 0 makes it and hands it to the others over a local socket with an
// abstract name, which vanishes with its process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/system/descriptor.hpp"

namespace tutti::detail {

// What ranks know of each other before they meet.
struct acquaintance {
  std::vector<int> names;         // what messages call them; empty: their ranks
  std::function<bool(int)> gone;  // whether a rank that has not come cannot come any more, where that is known
  std::string way_out = "see whether all ranks were started on this machine and reached init(), or raise TUTTI_TIMEOUT";
};

// One rank's part in the meeting of a job. `job` is the same at its ranks and different from other jobs of this machine.
// Both sides look at the user of the other: a name can be guessed, an owner cannot be forged.
//
// Guests keep their connection until rank 0 has heard of all of them. So it learns at once of a guest that ends, they
// learn at once when it does, and where it or the first of them has no more time it tells everyone why: all ranks report
// the same.
class rendezvous {
 public:
  [[gnu::cold]] rendezvous(std::string const& job, int rank, int ranks, deadline until, acquaintance others = {});

  // The file that `make` gives at rank 0. Throws error: timeout with the ranks that did not come, rank_lost where one of
  // them ended meanwhile, mismatch where two say that they are the same rank, system, and what `make` throws.
  descriptor meet(std::function<descriptor()> const& make);

 private:
  static constexpr int look_around = 100;  // milliseconds between two looks at the deadline
  static int next_look() noexcept;
  static constexpr std::chrono::microseconds longest_pause{2000};  // between two knocks at a door that is not open yet

  // What rank 0 sends: the file, or why there is none.
  struct answer {
    std::int32_t code = 0;
    std::int32_t peer = -1;
    char text[1016] = {};
  };

  // A message with an answer, and room for a file.
  struct envelope {
    answer content{};
    iovec data{&content, sizeof content};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr head{};

    envelope() {
      head.msg_iov = &data;
      head.msg_iovlen = 1;
    }
    envelope(envelope const&) = delete;
    envelope& operator=(envelope const&) = delete;
  };

  // -- Rank 0.

  [[gnu::cold]] descriptor be_host(std::function<descriptor()> const& make);

  // Returns when every guest has come and said its rank.
  [[gnu::cold]] void gather(descriptor const& listener, std::vector<descriptor>& guests);

  descriptor& seat(std::vector<descriptor>& guests, int rank) const;

  [[gnu::cold]] std::vector<int> absent(std::vector<descriptor> const& guests) const;

  [[gnu::cold]] static void send_file(descriptor const& guest, descriptor const& file);
  [[gnu::cold]] static void send_refusal(descriptor const& guest, error const& why);

  // -- The others.

  [[gnu::cold]] descriptor be_guest();

  descriptor receive_file(descriptor const& host) const;

  // -- Both.

  int name_of(int rank) const { return others_.names.empty() ? rank : others_.names[static_cast<std::size_t>(rank)]; }
  std::string called(int rank) const;

  void expect_to_come(int rank) const;
  void expect_all_to_come() const;

  // A connection has ended. That of a process that is killed does so a moment before the system says that this has ended,
  // and whoever hears of this rank's error is to find the same.
  void expect_end() const;

  // A name that is too long for a socket keeps its beginning and gets a hash of all of it (FNV-1a).
  [[gnu::cold]] static std::string fitting(std::string name);

  [[gnu::cold]] static descriptor make_socket();

  static bool same_user(descriptor const& peer);

  sockaddr const* address() const { return reinterpret_cast<sockaddr const*>(&address_); }

  int rank_;
  int ranks_;
  deadline until_;
  acquaintance others_;
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/rendezvous_impl.hpp"
#endif
