// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks agree by messages though some of them end in the middle: what transport/ballot.hpp does in memory that they share.
#pragma once

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

// Every rank tells all others its vote. Who knows the votes of all that are left has an opinion of the outcome, and then
// the ranks take turns, in their order: each tells all its opinion, and all take it for theirs. A turn is waited for
// until that rank is known to have ended or left, so nobody has an outcome before all that are left had their turns: the
// opinion of the first who gets that far is by then that of all who come after it, and no later turn brings another.
// (Consensus with a detector that accuses nobody who lives, "hierarchical consensus": Guerraoui and Rodrigues, 2006.) That
// takes 2 p messages a rank and the time of p messages in a row.
//
// Who has no more time says so, and all others give up with it. Those who did not vote get no turn, and learn from the
// turns of the others, which the MPI keeps for them, that they were late. Who stands still in the middle for as long as the
// time limit may think otherwise of the outcome.
class mpi_ballot {
 public:
  // Copies are handles of one ballot.
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
    u.take(u.rank, l);
    u.tell_all(l);
  }
  std::optional<vote> of(int rank, std::uint64_t number) const noexcept {
    page const& p = urn_->at(rank, number);
    return p.voted ? std::optional(p.said) : std::nullopt;
  }
  void propose(std::uint64_t number, resolution const& r) {
    urn& u = *urn_;
    if (number != u.number || u.opinion) return;
    u.opinion = r;
    if (r.outcome == resolution::timed_out) u.tell_all(u.blank(letter::hurry));
  }
  std::optional<resolution> decision(std::uint64_t number) {
    urn& u = *urn_;
    if (number == u.number) u.go_on();
    return number == u.decided.first ? std::optional(u.decided.second) : std::nullopt;
  }
  // Peers may have decided on more, without this rank.
  std::uint64_t last_decided() const noexcept {
    std::uint64_t out = urn_->decided.first;
    for (auto const& pages : urn_->pages)
      for (page const& p : pages)
        if (p.voted && p.number > out + 1) out = p.number - 1;
    return out;
  }

  // Ends the ballot. False where messages are still on their way: then `abandon` leaves their memory to the MPI.
  bool close() noexcept { return urn_->close(); }
  void abandon() noexcept { static_cast<void>(new std::shared_ptr<urn>(urn_)); }
  bool was_used() const noexcept { return urn_->number != 0; }

 private:
  using set = std::array<std::uint64_t, max_ranks / 64>;

  struct letter {
    enum kinds : std::uint32_t { vote, hurry, turn } kind;
    motion on;
    std::uint32_t flags;
    resolution::outcomes outcome;
    std::uint64_t number;
    set gone, left, named;
  };
  // What a rank has said in an agreement.
  struct page {
    std::uint64_t number = 0;
    bool voted = false, hurries = false, had_turn = false;
    ballot::vote said{};
    resolution opinion{};
  };

  struct urn {
    urn(MPI_Comm c, int t, int r, int n, mpi_board const& b)
        : comm(c), tag(t), rank(r), ranks(n), board(b), pages(static_cast<std::size_t>(n)) {}
    urn(urn const&) = delete;
    urn& operator=(urn const&) = delete;

    letter blank(letter::kinds kind) const { return {kind, {}, {}, {}, number, {}, {}, {}}; }

    page const& at(int from, std::uint64_t n) const noexcept {
      static page const empty;
      page const& p = pages[static_cast<std::size_t>(from)][n % kept];
      return p.number == n ? p : empty;
    }
    void take(int from, letter const& l) {
      page& p = pages[static_cast<std::size_t>(from)][l.number % kept];
      if (p.number > l.number) return;
      if (p.number < l.number) p = {.number = l.number};
      if (l.kind == letter::vote) {
        p.voted = true;
        p.said = {l.on, l.flags};
      } else if (l.kind == letter::hurry) {
        p.hurries = true;
      } else {
        p.had_turn = true;
        p.opinion = {l.outcome, l.flags, list(l.gone), list(l.left), list(l.named)};
      }
    }

    void tell_all(letter const& l) {
      auto const text = std::make_shared<letter const>(l);
      for (int r = 0; r < ranks; ++r)
        if (r != rank && !gone(r)) {
          on_their_way.push_back({text, MPI_REQUEST_NULL});
          MPI_Isend(text.get(), sizeof *text, MPI_BYTE, r, tag, comm, &on_their_way.back().request);
        }
    }
    void listen() {
      board.listen();
      std::erase_if(on_their_way, [](sending& s) { return s.ended(); });
      while (true) {
        int arrived = 0;
        MPI_Status status;
        int const code = mpi_receive_any(comm, tag, &heard, sizeof heard, arrived, status);
        if (mpi_is_loss(code)) board.look_for_lost();
        if (code != MPI_SUCCESS || arrived == 0) return;
        take(status.MPI_SOURCE, heard);
      }
    }

    bool gone(int r) { return board.lost(r) || board.left(r); }
    bool was_late(int r) const { return opinion->outcome == resolution::timed_out && contains(opinion->named, r); }

    void go_on() {
      if (decided.first == number) return;
      listen();
      // The others have gone on without this rank, further than pages are kept.
      for (auto const& said : pages)
        if (said[number % kept].number > number) return decide({resolution::timed_out, 0, {}, {}, {rank}});
      if (!opinion) give_up_with_others();
      if (!opinion) return;
      for (; turn < ranks; ++turn) {
        page const& p = at(turn, number);
        if (turn == rank) tell_opinion();
        else if (p.had_turn) opinion = p.opinion;
        else if (!gone(turn) && !was_late(turn)) return;
      }
      decide(*opinion);
    }
    void decide(resolution const& r) { decided = {number, r}; }

    void give_up_with_others() {
      bool hurried = false;
      resolution out{resolution::timed_out, 0, {}, {}, {}};
      for (int r = 0; r < ranks; ++r) {
        hurried |= at(r, number).hurries;
        if (at(r, number).voted) continue;
        if (gone(r)) out.gone.push_back(r);
        else out.named.push_back(r);
      }
      if (hurried && !out.named.empty()) opinion = out;
    }
    void tell_opinion() {
      letter l = blank(letter::turn);
      l.outcome = opinion->outcome;
      l.flags = opinion->flags;
      l.gone = bits(opinion->gone);
      l.left = bits(opinion->left);
      l.named = bits(opinion->named);
      tell_all(l);
    }

    bool close() noexcept {
      std::erase_if(on_their_way, [](sending& s) { return s.ended(); });
      return on_their_way.empty();
    }

    static bool contains(std::vector<int> const& ranks, int r) {
      for (int const each : ranks)
        if (each == r) return true;
      return false;
    }
    static set bits(std::vector<int> const& ranks) {
      set out{};
      for (int const r : ranks) out[static_cast<std::size_t>(r) / 64] |= std::uint64_t{1} << r % 64;
      return out;
    }
    std::vector<int> list(set const& from) const {
      std::vector<int> out;
      for (int r = 0; r < ranks; ++r)
        if ((from[static_cast<std::size_t>(r) / 64] >> r % 64 & 1) != 0) out.push_back(r);
      return out;
    }

    // A peer is one agreement ahead of this rank at most, or this rank was late.
    static constexpr std::size_t kept = 2;

    // Those who are told the same share the text. A message to a rank that has ended fails, and nobody minds.
    struct sending {
      std::shared_ptr<letter const> text;
      MPI_Request request;

      bool ended() noexcept {
        int done = 1;
        return request == MPI_REQUEST_NULL || MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
      }
    };

    MPI_Comm comm;
    int tag;
    int rank;
    int ranks;
    mpi_board board;
    std::vector<std::array<page, kept>> pages;  // of all ranks
    std::uint64_t number = 0;                   // the agreement that this rank is in, or was last
    std::optional<resolution> opinion;
    int turn = 0;  // whose it is
    std::pair<std::uint64_t, resolution> decided{};
    letter heard{};
    std::vector<sending> on_their_way;
  };

  std::shared_ptr<urn> urn_;
};

}  // namespace tutti::detail
