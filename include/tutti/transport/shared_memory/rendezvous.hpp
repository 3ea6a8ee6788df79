// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks that share no parent get the same file: rank 0 makes it and hands it to the others over a local socket with an
// abstract name, which vanishes with its process.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tutti/core/background.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/absence.hpp"
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
  [[gnu::cold]] rendezvous(std::string const& job, int rank, int ranks, deadline until, acquaintance others = {})
      : rank_(rank), ranks_(ranks), until_(until), others_(std::move(others)) {
    std::string const name = fitting("tutti-" + std::to_string(::geteuid()) + "-" + job);
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path + 1, name.data(), name.size());  // a first byte of 0 makes the name abstract
    address_bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }

  // The file that `make` gives at rank 0. Throws error: timeout with the ranks that did not come, rank_lost where one of
  // them ended meanwhile, mismatch where two say that they are the same rank, system, and what `make` throws.
  descriptor meet(std::function<descriptor()> const& make) { return rank_ == 0 ? be_host(make) : be_guest(); }

 private:
  static constexpr int look_around = 100;  // milliseconds between two looks at the deadline
  static int next_look() noexcept {
    work_in_background();
    return background_work.load(std::memory_order_relaxed) == nullptr ? look_around : 1;
  }
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

  [[gnu::cold]] descriptor be_host(std::function<descriptor()> const& make) {
    descriptor listener = make_socket();
    if (::bind(listener.get(), address(), address_bytes_) != 0 || ::listen(listener.get(), ranks_) != 0)
      throw_system("cannot listen for the other ranks", "see whether another program with the same job name runs");
    std::vector<descriptor> guests(static_cast<std::size_t>(ranks_));
    try {
      gather(listener, guests);  // first, so that all are told if the rest goes wrong
      listener = descriptor();   // before any answer, after which somebody may come to the next meeting
      descriptor file = make();
      for (descriptor const& guest : guests)
        if (guest) send_file(guest, file);  // one that ended just now is missed at the joining
      return file;
    } catch (error const& e) {
      listener = descriptor();
      for (descriptor const& guest : guests)
        if (guest) send_refusal(guest, e);
      throw;
    }
  }

  // Returns when every guest has come and said its rank.
  [[gnu::cold]] void gather(descriptor const& listener, std::vector<descriptor>& guests) {
    std::vector<descriptor> nameless;  // connected, and have not said their rank
    for (int missing = ranks_ - 1; missing > 0;) {
      std::vector<pollfd> waiting{{listener.get(), POLLIN, 0}};
      for (descriptor const& guest : guests) waiting.push_back({guest.get(), POLLIN, 0});
      for (descriptor const& guest : nameless) waiting.push_back({guest.get(), POLLIN, 0});
      int const events = ::poll(waiting.data(), waiting.size(), next_look());
      if (until_.passed()) throw ranks_absent(name_of(0), absent(guests), others_.way_out);
      for (int r = 1; r < ranks_; ++r)
        if (!guests[static_cast<std::size_t>(r)]) expect_to_come(r);
      if (events <= 0) continue;

      for (std::size_t r = 0; r < guests.size(); ++r) {  // a guest says nothing more, but that its time is over
        if (waiting[1 + r].revents == 0) continue;
        char word = 0;
        if (::recv(guests[r].get(), &word, 1, MSG_DONTWAIT) == 1)
          throw ranks_absent(name_of(0), absent(guests), others_.way_out);
        expect_end();
        throw error({.code = error_code::rank_lost,
                     .rank = name_of(0),
                     .peer = name_of(static_cast<int>(r)),
                     .what = called(static_cast<int>(r)) +
                             " ended or gave up while these had not joined: " + list_of(absent(guests)),
                     .way_out = "see the output of that rank"});
      }
      std::vector<descriptor> still_nameless;
      for (std::size_t i = 0; i < nameless.size(); ++i) {
        int rank = -1;
        if (waiting[1 + guests.size() + i].revents == 0) still_nameless.push_back(std::move(nameless[i]));
        else if (::recv(nameless[i].get(), &rank, sizeof rank, MSG_DONTWAIT) == sizeof rank) {
          seat(guests, rank) = std::move(nameless[i]);
          --missing;
        }
      }
      nameless = std::move(still_nameless);
      if (waiting[0].revents != 0) {
        descriptor guest(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!guest && (errno == EMFILE || errno == ENFILE))
          throw_system("cannot take in " + std::to_string(ranks_) + " ranks",
                       "raise the limit of open files (ulimit -n)");
        if (guest && same_user(guest)) nameless.push_back(std::move(guest));
      }
    }
  }

  descriptor& seat(std::vector<descriptor>& guests, int rank) const {
    if (rank < 1 || rank >= ranks_ || guests[static_cast<std::size_t>(rank)])
      throw error({.code = error_code::mismatch,
                   .rank = 0,
                   .peer = rank,
                   .what = "a process joined as rank " + std::to_string(rank) + " of " + std::to_string(ranks_) +
                           ", which is taken or does not exist",
                   .way_out = "start all ranks by one launcher, with one number of ranks"});
    return guests[static_cast<std::size_t>(rank)];
  }

  [[gnu::cold]] std::vector<int> absent(std::vector<descriptor> const& guests) const {
    std::vector<int> out;
    for (int r = 1; r < ranks_; ++r)
      if (!guests[static_cast<std::size_t>(r)]) out.push_back(name_of(r));
    return out;
  }

  [[gnu::cold]] static void send_file(descriptor const& guest, descriptor const& file) {
    envelope message;
    message.head.msg_control = message.control;
    message.head.msg_controllen = sizeof message.control;
    cmsghdr* const part = CMSG_FIRSTHDR(&message.head);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    int const number = file.get();
    std::memcpy(CMSG_DATA(part), &number, sizeof number);
    ::sendmsg(guest.get(), &message.head, MSG_NOSIGNAL);
  }
  [[gnu::cold]] static void send_refusal(descriptor const& guest, error const& why) {
    envelope message;
    message.content.code = static_cast<std::int32_t>(why.code());
    message.content.peer = why.peer();
    std::snprintf(message.content.text, sizeof message.content.text, "%s", why.what());
    ::sendmsg(guest.get(), &message.head, MSG_NOSIGNAL);
  }

  // -- The others.

  [[gnu::cold]] descriptor be_guest() {
    for (std::chrono::microseconds pause{50};; pause = std::min(2 * pause, longest_pause)) {
      descriptor const host = make_socket();
      if (::connect(host.get(), address(), address_bytes_) == 0) {
        if (!same_user(host))
          throw error(
              {.code = error_code::system,
               .rank = name_of(rank_),
               .what = "the meeting point of this job belongs to another user",
               .way_out = "start the job anew; if that does not help, another user occupies the name on purpose"});
        if (::send(host.get(), &rank_, sizeof rank_, MSG_NOSIGNAL) == sizeof rank_) return receive_file(host);
      }
      if (until_.passed())
        throw error({.code = error_code::timeout,
                     .rank = name_of(rank_),
                     .peer = name_of(0),
                     .what = called(0) + " did not open the meeting point of this job",
                     .way_out = others_.way_out});
      expect_all_to_come();
      std::this_thread::sleep_for(pause);
    }
  }

  descriptor receive_file(descriptor const& host) const {
    // Rank 0, which knows who is missing, is told that this rank's time is over, and given half a second to answer.
    std::optional<deadline> last_moment;
    pollfd waiting{host.get(), POLLIN, 0};
    while (::poll(&waiting, 1, next_look()) <= 0) {
      if (!last_moment && until_.passed()) {
        last_moment = deadline::after(std::chrono::milliseconds(500));
        ::send(host.get(), "", 1, MSG_NOSIGNAL);
      }
      if (last_moment && last_moment->passed())
        throw error({.code = error_code::timeout,
                     .rank = name_of(rank_),
                     .what = called(0) + " still waits for other ranks to join",
                     .way_out = others_.way_out});
    }
    envelope message;
    message.head.msg_control = message.control;
    message.head.msg_controllen = sizeof message.control;
    if (::recvmsg(host.get(), &message.head, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof message.content) {
      expect_end();  // or rank 0 has given up before it knew of this one
      throw error({.code = error_code::rank_lost,
                   .rank = name_of(rank_),
                   .peer = name_of(0),
                   .what = called(0) + " ended or gave up before all ranks had joined",
                   .way_out = "see the output of that rank"});
    }
    if ((message.head.msg_flags & MSG_CTRUNC) != 0)
      throw_system("cannot take the shared memory's file", "raise the limit of open files (ulimit -n)", EMFILE);
    if (cmsghdr const* const part = CMSG_FIRSTHDR(&message.head); part != nullptr && part->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part), sizeof number);
      return descriptor(number);
    }
    message.content.text[sizeof message.content.text - 1] = '\0';
    throw error({.code = static_cast<error_code>(message.content.code),
                 .rank = name_of(rank_),
                 .peer = message.content.peer == name_of(rank_) ? name_of(0) : message.content.peer,
                 .what = called(0) + " gave up: " + message.content.text,
                 .way_out = ""});
  }

  // -- Both.

  int name_of(int rank) const { return others_.names.empty() ? rank : others_.names[static_cast<std::size_t>(rank)]; }
  std::string called(int rank) const { return "rank " + std::to_string(name_of(rank)); }

  void expect_to_come(int rank) const {
    if (rank != rank_ && others_.gone && others_.gone(rank)) throw rank_gone(name_of(rank_), name_of(rank));
  }
  void expect_all_to_come() const {
    for (int r = 0; r < ranks_; ++r) expect_to_come(r);
  }

  // A connection has ended. That of a process that is killed does so a moment before the system says that this has ended,
  // and whoever hears of this rank's error is to find the same.
  void expect_end() const {
    if (!others_.gone) return;
    for (auto const soon = deadline::after(std::chrono::milliseconds(200)); !soon.passed();) {
      expect_all_to_come();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // A name that is too long for a socket keeps its beginning and gets a hash of all of it (FNV-1a).
  [[gnu::cold]] static std::string fitting(std::string name) {
    constexpr std::size_t room = sizeof(sockaddr_un::sun_path) - 1;
    if (name.size() <= room) return name;
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    char text[18];
    std::snprintf(text, sizeof text, "-%016llx", static_cast<unsigned long long>(hash));
    return name.substr(0, room - 17) + text;
  }

  [[gnu::cold]] static descriptor make_socket() {
    descriptor out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!out) throw_system("cannot make a local socket", "raise the limit of open files (ulimit -n)");
    return out;
  }

  static bool same_user(descriptor const& peer) {
    ucred who{};
    socklen_t bytes = sizeof who;
    return ::getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == ::geteuid();
  }

  sockaddr const* address() const { return reinterpret_cast<sockaddr const*>(&address_); }

  int rank_;
  int ranks_;
  deadline until_;
  acquaintance others_;
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
};

}  // namespace tutti::detail
