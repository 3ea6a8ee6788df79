// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Agreement by messages among ranks, some of which may end meanwhile. transport/ballot.hpp does the same in shared memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/transport/ballot.hpp"
#include "tutti/transport/mpi/board.hpp"

namespace tutti::detail {

// Every rank sends its vote to all others. A rank that knows the votes of all survivors forms an opinion of the outcome. Then
// the ranks take turns in rank order: each sends its opinion to all, and all adopt it. Ranks wait for each turn until its rank
// is known to have ended or left, so none has an outcome before every survivor has had its turn. By then all later ranks share
// the opinion of the first survivor, and no later turn can change it. This is hierarchical consensus with a perfect failure
// detector (Guerraoui and Rodrigues, 2006). It takes 2 p messages per rank and the time of p consecutive messages.
//
// A rank whose time is up says so, and all others time out with it. Ranks that did not vote get no turn; they learn that they
// were late from the turns of the others, which the MPI keeps for them. A rank that stalls in the middle for as long as the
// timeout may see another outcome.
class mpi_ballot {
 public:
  // Copies share one ballot.
  mpi_ballot(MPI_Comm comm, int tag, int rank, int ranks, mpi_board const& board)
      : urn_(std::make_shared<urn>(comm, tag, rank, ranks, board)) {}

  using vote = ballot::vote;

  void cast(std::uint64_t number, vote const& v) {
    urn& u = *urn_;
    u.board.look_for_lost();
    u.number = number;
    u.opinion.reset();
    u.turn = 0;
    letter l = u.blank(letter::vote);
    l.on = v.on;
    l.flags = v.flags;
    u.store(u.rank, l);
    u.send_to_all(l);
  }
  std::optional<vote> of(int rank, std::uint64_t number) const noexcept {
    page const& p = urn_->at(rank, number);
    return p.voted ? std::optional(p.said) : std::nullopt;
  }
  void propose(std::uint64_t number, resolution const& r) {
    urn& u = *urn_;
    if (number != u.number || u.opinion) return;
    u.opinion = r;
    if (r.outcome == resolution::timed_out) u.send_to_all(u.blank(letter::timed_out));
  }
  std::optional<resolution> decision(std::uint64_t number) {
    urn& u = *urn_;
    if (number == u.number) u.advance();
    return number == u.decided.first ? std::optional(u.decided.second) : std::nullopt;
  }
  // Includes agreements that peers have decided without this rank.
  std::uint64_t last_decided(std::uint64_t) const noexcept {
    std::uint64_t out = urn_->decided.first;
    for (auto const& pages : urn_->pages)
      for (page const& p : pages)
        if (p.voted && p.number > out + 1) out = p.number - 1;
    return out;
  }

  // Ends the ballot. False while messages are in flight: abandon() then leaves their memory to the MPI.
  bool close() noexcept { return urn_->close(); }
  void abandon() noexcept { urn_->kept_for_ever = urn_; }
  bool was_used() const noexcept { return urn_->number != 0; }

 private:
  struct letter {
    enum kinds : std::uint32_t { vote, timed_out, turn } kind;
    motion on;
    std::uint32_t flags;
    resolution::outcomes outcome;
    std::uint64_t number;
    rank_set gone, left, named;
  };
  // The letters of a rank in one agreement.
  struct page {
    std::uint64_t number = 0;
    bool voted = false, has_timed_out = false, had_turn = false;
    ballot::vote said{};
    resolution opinion{};
  };

  struct urn {
    urn(MPI_Comm c, int t, int r, int n, mpi_board const& b) : comm(c), tag(t), rank(r), ranks(n), board(b) {}
    urn(urn const&) = delete;
    urn& operator=(urn const&) = delete;

    letter blank(letter::kinds kind) const { return {kind, {}, {}, {}, number, {}, {}, {}}; }

    page const& at(int from, std::uint64_t n) const noexcept {
      static page const empty;
      if (pages.empty()) return empty;
      page const& p = pages[static_cast<std::size_t>(from)][n % kept];
      return p.number == n ? p : empty;
    }
    void store(int from, letter const& l) {
      if (pages.empty()) pages.resize(static_cast<std::size_t>(ranks));
      page& p = pages[static_cast<std::size_t>(from)][l.number % kept];
      if (p.number > l.number) return;
      if (p.number < l.number) p = {.number = l.number};
      if (l.kind == letter::vote) {
        p.voted = true;
        p.said = {l.on, l.flags};
      } else if (l.kind == letter::timed_out) {
        p.has_timed_out = true;
      } else {
        p.had_turn = true;
        p.opinion = {l.outcome, l.flags, l.gone.list(ranks), l.left.list(ranks), l.named.list(ranks)};
      }
    }

    void send_to_all(letter const& l) {
      auto const text = std::make_shared<letter const>(l);
      for (int r = 0; r < ranks; ++r)
        if (r != rank && !gone(r)) {
          in_flight.push_back({text, MPI_REQUEST_NULL});
          MPI_Isend(text.get(), sizeof *text, MPI_BYTE, r, tag, comm, &in_flight.back().request);
        }
    }
    void listen() {
      board.listen();
      std::erase_if(in_flight, [](auto& l) { return l.idle(); });
      while (true) {
        int arrived = 0;
        MPI_Status status;
        int const code = mpi_receive_any(comm, tag, &received, sizeof received, arrived, status);
        if (mpi_is_loss(code)) board.look_for_lost();
        if (code != MPI_SUCCESS || arrived == 0) return;
        store(status.MPI_SOURCE, received);
      }
    }

    bool gone(int r) { return board.lost(r) || board.left(r); }
    bool was_late(int r) const {
      return opinion->outcome == resolution::timed_out && std::ranges::count(opinion->named, r) > 0;
    }

    void advance() {
      if (decided.first == number) return;
      listen();
      // The others have continued without this rank, beyond the pages that are kept.
      for (auto const& said : pages)
        if (said[number % kept].number > number) return decide({resolution::timed_out, 0, {}, {}, {rank}});
      if (!opinion) time_out_with_others();
      if (!opinion) return;
      for (; turn < ranks; ++turn) {
        page const& p = at(turn, number);
        if (turn == rank) send_opinion();
        else if (p.had_turn) opinion = p.opinion;
        else if (!gone(turn) && !was_late(turn)) return;
      }
      decide(*opinion);
    }
    void decide(resolution const& r) { decided = {number, r}; }

    void time_out_with_others() {
      bool timed_out = false;
      resolution out{resolution::timed_out, 0, {}, {}, {}};
      for (int r = 0; r < ranks; ++r) {
        timed_out |= at(r, number).has_timed_out;
        if (at(r, number).voted) continue;
        if (gone(r)) out.gone.push_back(r);
        else out.named.push_back(r);
      }
      if (timed_out && !out.named.empty()) opinion = out;
    }
    void send_opinion() {
      letter l = blank(letter::turn);
      l.outcome = opinion->outcome;
      l.flags = opinion->flags;
      l.gone = rank_set::of(opinion->gone);
      l.left = rank_set::of(opinion->left);
      l.named = rank_set::of(opinion->named);
      send_to_all(l);
    }

    bool close() noexcept {
      std::erase_if(in_flight, [](auto& l) { return l.idle(); });
      return in_flight.empty();
    }

    // A peer is at most one agreement ahead, unless this rank was late.
    static constexpr std::size_t kept = 2;

    MPI_Comm comm;
    int tag;
    int rank;
    int ranks;
    mpi_board board;
    std::vector<std::array<page, kept>> pages;  // of all ranks, once there has been a vote
    std::uint64_t number = 0;                   // of the current or last agreement
    std::optional<resolution> opinion;
    int turn = 0;  // the rank whose turn is awaited
    std::pair<std::uint64_t, resolution> decided{};
    letter received{};
    std::vector<mpi_letter<letter>> in_flight;
    std::shared_ptr<urn> kept_for_ever{};  // itself, if letters are still in flight when the ballot closes
  };

  std::shared_ptr<urn> urn_;
};

}  // namespace tutti::detail
