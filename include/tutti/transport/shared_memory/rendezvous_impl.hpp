// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/shared_memory/rendezvous.hpp.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tutti/core/background.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/absence.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"

namespace tutti::detail {

inline constexpr char name_the_jobs[] =
    "start each rank once, and give each job that runs at the same time another TUTTI_JOB";

TUTTI_INLINE rendezvous::rendezvous(std::string const& job, int rank, int ranks, countdown& until, acquaintance others)
    : rank_(rank),
      ranks_(ranks),
      until_(until),
      others_(std::move(others)),
      watches_(static_cast<std::size_t>(ranks)),
      job_(job),
      address_(job) {}

TUTTI_INLINE descriptor rendezvous::meet(function_ref<descriptor()> make) {
  return rank_ == 0 ? be_host(make) : be_guest();
}

TUTTI_INLINE int rendezvous::next_look() noexcept {
  work_in_background();
  return background_work.load(std::memory_order_relaxed) == nullptr ? look_around : 1;
}

TUTTI_INLINE descriptor rendezvous::listen() const {
  descriptor out = make_local_socket();
  if (::bind(out.get(), address_.get(), address_.bytes()) == 0 && ::listen(out.get(), ranks_) == 0) return out;
  if (errno != EADDRINUSE) throw_system("cannot listen for the other ranks", allow_sockets);
  // Of two jobs that meet at once, either might get ranks of the other, so the one that came first has to know.
  descriptor const other = make_local_socket(SOCK_NONBLOCK);  // it may be another user's, who accepts nothing
  greeting const mine{.rank = rank_, .ranks = ranks_};
  if (::connect(other.get(), address_.get(), address_.bytes()) == 0 && process_of(other))
    ::send(other.get(), &mine, sizeof mine, MSG_NOSIGNAL);
  throw error({.code = error_code::mismatch,
               .rank = name_of(0),
               .what = "another job has this job's name, or another user holds its meeting point",
               .way_out = name_the_jobs});
}

TUTTI_INLINE descriptor rendezvous::be_host(function_ref<descriptor()> make) {
  descriptor listener = listen();
  std::vector<descriptor> guests(static_cast<std::size_t>(ranks_));
  try {
    gather(listener, guests);  // first, so that a failure below is reported to all
    descriptor file = make();
    if (others_.kept_name != nullptr) *others_.kept_name = std::move(listener);
    listener = descriptor();  // before any answer: a rank that has one may come to the next meeting
    for (descriptor const& guest : guests)
      if (guest) send_file(guest, file);  // one that has just ended is detected when joining
    return file;
  } catch (error const& e) {
    listener = descriptor();
    for (descriptor const& guest : guests)
      if (guest) send_refusal(guest, e);
    throw;
  }
}

TUTTI_INLINE void rendezvous::gather(descriptor const& listener, std::vector<descriptor>& guests) {
  std::vector<descriptor> nameless;  // connected, but have not sent their rank yet
  running_clock::rest rest;
  for (int missing = ranks_ - 1; missing > 0;) {
    std::vector<pollfd> waiting(1 + guests.size() + nameless.size(), {listener.get(), POLLIN, 0});
    for (std::size_t r = 0; r < guests.size(); ++r) waiting[1 + r].fd = guests[r].get();
    for (std::size_t i = 0; i < nameless.size(); ++i) waiting[1 + guests.size() + i].fd = nameless[i].get();
    int const events = ::poll(waiting.data(), waiting.size(), next_look());
    rest.end();
    // poll takes no more entries than the process may open files
    if (events < 0 && errno == EINVAL) fail_to_accept(EMFILE);
    if (until_.passed()) throw absent_ranks(name_of(0), absent(guests), others_.way_out);
    for (int r = 1; r < ranks_; ++r)
      if (!guests[static_cast<std::size_t>(r)]) expect_to_come(r);
    if (events <= 0) continue;
    for (std::size_t r = 0; r < guests.size(); ++r)
      if (waiting[1 + r].revents != 0) fail_because_of(static_cast<int>(r), guests);
    std::vector<descriptor> still_nameless;
    for (std::size_t i = 0; i < nameless.size(); ++i)
      if (waiting[1 + guests.size() + i].revents == 0) still_nameless.push_back(std::move(nameless[i]));
      else if (seat(guests, nameless[i])) --missing;
    nameless = std::move(still_nameless);
    if (waiting[0].revents == 0) continue;
    descriptor guest(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!guest && errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) fail_to_accept(errno);
    if (guest && process_of(guest)) nameless.push_back(std::move(guest));
  }
  stop_listening(listener, std::move(nameless));
}

TUTTI_INLINE void rendezvous::fail_to_accept(int code) const {
  throw_system(join({"cannot accept connections of ", ranks_, " ranks"}), allow_sockets, code);
}

TUTTI_INLINE void rendezvous::fail_because_of(int rank, std::vector<descriptor> const& guests) const {
  char word = 0;
  if (::recv(guests[static_cast<std::size_t>(rank)].get(), &word, 1, MSG_DONTWAIT) == 1)
    throw absent_ranks(name_of(0), absent(guests), others_.way_out);
  expect_end();
  throw error({.code = error_code::rank_lost,
               .rank = name_of(0),
               .peer = name_of(rank),
               .what = join({called(rank), " ended or gave up while these had not joined: ", list_of(absent(guests))}),
               .way_out = "check the output of that rank"});
}

TUTTI_INLINE void rendezvous::stop_listening(descriptor const& listener, std::vector<descriptor> others) {
  ::shutdown(listener.get(), SHUT_RDWR);
  ::fcntl(listener.get(), F_SETFL, O_NONBLOCK);
  while (descriptor one{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)}) others.push_back(std::move(one));
  error const why({.code = error_code::mismatch,
                   .what = "all ranks had joined already, so another job has this job's name",
                   .way_out = name_the_jobs});
  for (descriptor const& one : others)
    if (process_of(one)) send_refusal(one, why);
}

TUTTI_INLINE bool rendezvous::seat(std::vector<descriptor>& guests, descriptor& connection) {
  greeting guest{.rank = -1, .ranks = 0};
  if (::recv(connection.get(), &guest, sizeof guest, MSG_DONTWAIT) != sizeof guest || guest.sender != greeting::word)
    return false;
  descriptor& place = place_of(guests, guest) = std::move(connection);
  try {
    watch(guest.rank, place);
  } catch (error const&) {  // it needs a file
    fail_to_accept(EMFILE);
  }
  return true;
}

TUTTI_INLINE descriptor& rendezvous::place_of(std::vector<descriptor>& guests, greeting const& guest) const {
  auto const refuse = [&](std::string const& what, char const* way_out) {
    throw error({.code = error_code::mismatch,
                 .rank = name_of(0),
                 .peer = guest.rank,
                 .what = join({"a process joined as rank ", guest.rank, what}),
                 .way_out = way_out});
  };
  if (guest.layout != segment_layout)
    refuse(" that was built with another version of tutti", "build all programs of a job with the same tutti");
  if (guest.ranks != ranks_)
    refuse(join({" of ", guest.ranks, ", but this job has ", ranks_, " ranks"}),
           "start all ranks with one launcher and the same number of ranks");
  if (guest.rank < 1 || guest.rank >= ranks_ || guests[static_cast<std::size_t>(guest.rank)])
    refuse(join({" of ", ranks_, ", which is taken or does not exist"}), name_the_jobs);
  return guests[static_cast<std::size_t>(guest.rank)];
}

TUTTI_INLINE std::vector<int> rendezvous::absent(std::vector<descriptor> const& guests) const {
  std::vector<int> out;
  for (int r = 1; r < ranks_; ++r)
    if (!guests[static_cast<std::size_t>(r)]) out.push_back(name_of(r));
  return out;
}

TUTTI_INLINE void rendezvous::send_file(descriptor const& guest, descriptor const& file) {
  answer content;
  descriptor_message message(&content, sizeof content);
  message.put(file);
  ::sendmsg(guest.get(), &message.head, MSG_NOSIGNAL);
}

TUTTI_INLINE void rendezvous::send_refusal(descriptor const& guest, error const& why) {
  answer content;
  content.code = static_cast<std::int32_t>(why.code());
  content.peer = why.peer();
  write_terminated(content.text, join({why.happened(), why.way_out().empty() ? "" : "; ", why.way_out()}));
  ::send(guest.get(), &content, sizeof content, MSG_NOSIGNAL);
}

TUTTI_INLINE descriptor rendezvous::be_guest() {
  running_clock::rest rest;
  for (std::chrono::microseconds pause{50};; pause = std::min(2 * pause, longest_pause)) {
    descriptor const host = make_local_socket(SOCK_NONBLOCK);  // rank 0 may be stopped, and its queue full
    if (::connect(host.get(), address_.get(), address_.bytes()) == 0) {
      if (!process_of(host))
        throw error({.code = error_code::system,
                     .rank = name_of(rank_),
                     .what = "the meeting point of this job belongs to another user",
                     .way_out = "start the job again; if that does not help, another user holds the name on purpose"});
      watch(0, host);
      greeting const mine{.rank = rank_, .ranks = ranks_};
      if (::send(host.get(), &mine, sizeof mine, MSG_NOSIGNAL) == sizeof mine) return receive_file(host);
    } else if (errno != ECONNREFUSED && errno != EINTR && errno != EAGAIN) {  // not just early
      throw_system(join({"cannot connect to rank ", name_of(0)}), allow_sockets);
    }
    if (until_.passed() && is_taken(address_))
      throw error({.code = error_code::mismatch,
                   .rank = name_of(rank_),
                   .what = "another job of this name is running, or rank 0 of this one is stopped",
                   .way_out = name_the_jobs});
    if (until_.passed()) {
      auto const other = other_user_of(job_);
      std::string const stranger =
          other ? join({"; user ", *other, " has one of this name, but this rank is a process of user ", ::geteuid()})
                : "";
      throw error({.code = error_code::timeout,
                   .rank = name_of(rank_),
                   .peer = name_of(0),
                   .what = join({called(0), " did not open the meeting point of this job in time", stranger}),
                   .way_out = other ? "start all ranks of a job as the same user" : others_.way_out});
    }
    expect_all_to_come();
    std::this_thread::sleep_for(pause);
    rest.end();
  }
}

TUTTI_INLINE descriptor rendezvous::receive_file(descriptor const& host) const {
  // Rank 0 knows which ranks are missing: tell it that this rank's time is up, and give it half a second to answer.
  std::optional<deadline> last_moment;
  pollfd waiting{host.get(), POLLIN, 0};
  for (running_clock::rest rest; ::poll(&waiting, 1, next_look()) <= 0;) {
    rest.end();
    if (!last_moment && until_.passed()) {
      last_moment = deadline::after(std::chrono::milliseconds(500));
      ::send(host.get(), "", 1, MSG_NOSIGNAL);
    }
    if (last_moment && last_moment->passed())
      throw error({.code = error_code::timeout,
                   .rank = name_of(rank_),
                   .what = join({called(0), " is still waiting for other ranks to join"}),
                   .way_out = others_.way_out});
  }
  answer content;
  descriptor_message message(&content, sizeof content);
  if (::recvmsg(host.get(), &message.head, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof content) {
    expect_end();  // or rank 0 has given up before it learned of this rank
    throw error({.code = error_code::rank_lost,
                 .rank = name_of(rank_),
                 .peer = name_of(0),
                 .what = join({called(0), " ended or gave up before all ranks had joined"}),
                 .way_out = "check the output of that rank"});
  }
  if ((message.head.msg_flags & MSG_CTRUNC) != 0)
    throw_system("cannot receive the file of the shared memory", "", EMFILE);
  if (descriptor file = message.take()) return file;
  content.text[sizeof content.text - 1] = '\0';
  auto const code = static_cast<error_code>(content.code);
  int const peer = content.peer;
  bool const its_own = code == error_code::system || peer == name_of(rank_);
  throw error({.code = code,
               .rank = name_of(rank_),
               .peer = its_own ? name_of(0) : peer,
               .what = join({called(0), " gave up: ", content.text}),
               .way_out = ""});
}

TUTTI_INLINE std::string rendezvous::called(int rank) const { return join({"rank ", name_of(rank)}); }
TUTTI_INLINE void rendezvous::expect_to_come(int rank) const {
  if (rank != rank_ && others_.gone && others_.gone(rank)) throw rank_gone(name_of(rank_), name_of(rank));
}
TUTTI_INLINE void rendezvous::expect_all_to_come() const {
  for (int r = 0; r < ranks_; ++r) expect_to_come(r);
}

TUTTI_INLINE void rendezvous::expect_end() const {
  if (!others_.gone) return;
  for (auto const soon = deadline::after(std::chrono::milliseconds(200)); !soon.passed();) {
    expect_all_to_come();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TUTTI_INLINE void rendezvous::watch(int rank, descriptor const& connection) {
  pid_t process = process_of(connection).value_or(0);  // 0: it is in a process namespace that this one does not see
  // One whose namespace is within this one's does not see this process. It watches the connection, which both keep open then.
  std::uint64_t const there = process_namespace_of(process);
  if (there != 0 && there != process_namespace()) process = 0;
  if (others_.gone && !others_.watch_all && process != 0) return;  // its process is watched already
  process_watch seen;  // a new one, because an earlier connection to rank 0 may have failed
  if (process != 0) seen.begin(process);
  else seen.begin(connection);
  watches_[static_cast<std::size_t>(rank)] = std::move(seen);
}

}  // namespace tutti::detail
