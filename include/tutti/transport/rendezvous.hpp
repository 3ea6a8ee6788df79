// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks that share no parent find the same shared memory: rank 0 makes it and hands it to the others over a local
// socket with an abstract name, which vanishes with its process.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/shm.hpp"

namespace tutti {

// One rank's part in the meeting of a job. `job` is the same at its ranks and different from other jobs of this machine.
// Both sides look at the user of the other: a name can be guessed, an owner cannot be forged.
class rendezvous {
 public:
  rendezvous(std::string const& job, int rank, int ranks, deadline until) : rank_(rank), ranks_(ranks), until_(until) {
    std::string const name = "tutti-" + std::to_string(::geteuid()) + "-" + job;
    address_.sun_family = AF_UNIX;
    std::size_t const length = std::min(name.size(), sizeof address_.sun_path - 1);
    std::memcpy(address_.sun_path + 1, name.data(), length);  // a first byte of 0 makes the name abstract
    address_bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }

  // The file of the shared memory.
  descriptor meet(int tracks) { return rank_ == 0 ? hand_out(shm::create(ranks_, tracks)) : fetch(); }

 private:
  static descriptor make_socket() {
    descriptor out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!out) throw_system("cannot make a local socket", "raise the limit of open files (ulimit -n)");
    return out;
  }

  descriptor hand_out(descriptor file) {
    descriptor const listener = make_socket();
    if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address_), address_bytes_) != 0 || ::listen(listener.get(), ranks_) != 0)
      throw_system("cannot listen for the other ranks", "see whether another program with the same job name runs");
    std::vector<bool> here(static_cast<std::size_t>(ranks_));
    here[0] = true;
    for (int missing = ranks_ - 1; missing > 0;) {
      pollfd waiting{listener.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 10) <= 0) {
        if (until_.passed()) report_absent(here);
        continue;
      }
      descriptor const guest(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      int guest_rank = -1;
      if (!guest || !same_user(guest) || !limit_time(guest) ||
          ::recv(guest.get(), &guest_rank, sizeof guest_rank, MSG_WAITALL) != sizeof guest_rank)
        continue;
      if (guest_rank < 1 || guest_rank >= ranks_ || here[static_cast<std::size_t>(guest_rank)])
        throw error({.code = error_code::mismatch, .rank = 0, .peer = guest_rank,
                     .what = "a process joined as rank " + std::to_string(guest_rank) + " of " + std::to_string(ranks_) +
                             ", which is taken or does not exist",
                     .way_out = "start all ranks by one launcher, with one number of ranks"});
      if (!send_file(guest, file)) continue;
      here[static_cast<std::size_t>(guest_rank)] = true;
      --missing;
    }
    return file;
  }

  descriptor fetch() {
    while (true) {
      descriptor const host = make_socket();
      if (::connect(host.get(), reinterpret_cast<sockaddr*>(&address_), address_bytes_) == 0) {
        if (!same_user(host))
          throw error({.code = error_code::system, .rank = rank_, .what = "the meeting point of this job belongs to another user",
                       .way_out = "start the job anew; if that does not help, another user occupies the name on purpose"});
        if (limit_time(host) && ::send(host.get(), &rank_, sizeof rank_, MSG_NOSIGNAL) == sizeof rank_)
          if (descriptor file = receive_file(host)) return file;
      }
      if (until_.passed())
        throw error({.code = error_code::timeout, .rank = rank_, .peer = 0, .what = "rank 0 did not open the meeting point of this job",
                     .way_out = "see whether rank 0 was started on this machine and reached init(), or raise TUTTI_TIMEOUT"});
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  [[noreturn]] void report_absent(std::vector<bool> const& here) {
    std::string absent;
    for (std::size_t r = 0; r < here.size(); ++r)
      if (!here[r]) absent += (absent.empty() ? "" : ", ") + std::to_string(r);
    throw error({.code = error_code::timeout, .rank = 0, .what = "waited for ranks to join that did not: " + absent,
                 .way_out = "see whether they were started on this machine and reached init(), or raise TUTTI_TIMEOUT"});
  }

  static bool same_user(descriptor const& peer) {
    ucred who{};
    socklen_t bytes = sizeof who;
    return ::getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == ::geteuid();
  }
  // A peer that says nothing is given up after a second, and may come again.
  static bool limit_time(descriptor const& peer) {
    timeval const second{1, 0};
    return ::setsockopt(peer.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second) == 0;
  }

  struct file_message {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr head{};

    file_message() {
      head.msg_iov = &data;
      head.msg_iovlen = 1;
      head.msg_control = control;
      head.msg_controllen = sizeof control;
    }
  };

  static bool send_file(descriptor const& to, descriptor const& file) {
    file_message message;
    cmsghdr* const part = CMSG_FIRSTHDR(&message.head);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    int const number = file.get();
    std::memcpy(CMSG_DATA(part), &number, sizeof number);
    return ::sendmsg(to.get(), &message.head, MSG_NOSIGNAL) == 1;
  }
  static descriptor receive_file(descriptor const& from) {
    file_message message;
    if (::recvmsg(from.get(), &message.head, MSG_CMSG_CLOEXEC) != 1) return {};
    cmsghdr* const part = CMSG_FIRSTHDR(&message.head);
    if (part == nullptr || part->cmsg_type != SCM_RIGHTS) return {};
    int number = -1;
    std::memcpy(&number, CMSG_DATA(part), sizeof number);
    return descriptor(number);
  }

  int rank_;
  int ranks_;
  deadline until_;
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
};

}  // namespace tutti
