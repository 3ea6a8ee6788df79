// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The times of a simulated machine: of a message between two ranks, and of the links that several ranks share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tutti::analyze {

// Consecutive ranks that are nearer to each other than to others: those of a node, of a switch, or of a group of switches.
struct enclosure {
  int ranks = 1;
  double alpha = 0, beta = 0;  // of a message between two of them, unless a smaller enclosure has both
  // Seconds for each byte that leaves it, and for each that enters it, through a link that all of its ranks share; 0: such links are
  // never busy. Of k links like those of single ranks, beta / k.
  double uplink = 0;
};

// The times of a machine, in seconds. A message of n bytes arrives alpha + n * beta after it is sent (Hockney, 1994); n bytes
// are combined in n * gamma. A rank sends one message at a time and receives one at a time, both together. So does a link
// that ranks share.
struct model {
  double alpha = 1e-6;
  double beta = 1e-10;   // per byte
  double gamma = 5e-11;  // per byte combined with another
  double gap = 0;        // how long a message keeps a port busy beside its bytes (LogGP's g)
  // The smallest first; alpha and beta above are for ranks that none has both of. The number of ranks in each is a multiple of
  // that in the one before.
  std::vector<enclosure> enclosures{};
};

// The ports and shared links of the first `ranks` ranks, and when each is free again.
class links {
 public:
  links(model const& m, int ranks) : model_(m), ports_(static_cast<std::size_t>(ranks)) {
    for (enclosure const& e : model_.enclosures)
      shared_.emplace_back(static_cast<std::size_t>((ranks + e.ranks - 1) / e.ranks));
  }

  double alpha(int from, int to) const {
    enclosure const* const both = around(from, to);
    return both != nullptr ? both->alpha : model_.alpha;
  }
  // A message leaves rank `from`, which is among the first ranks, at `now` or later. Returns when it does.
  double send(int from, int to, double bytes, double now) {
    double start = std::max(now, port(from).out);
    for_each_left(from, to, [&](link& l, double) { start = std::max(start, l.out); });
    for_each_left(from, to, [&](link& l, double uplink) { l.out = start + bytes * uplink; });
    port(from).out = start + model_.gap + bytes * beta(from, to);
    return start;
  }
  double free_to_send(int from) const { return ports_[static_cast<std::size_t>(from)].out; }
  // Its first byte is at rank `to`, which is among the first ranks, at `head` or later. Returns when all of it has been received.
  double receive(int from, int to, double bytes, double head) {
    double start = std::max(head, port(to).in);
    for_each_left(to, from, [&](link& l, double) { start = std::max(start, l.in); });
    for_each_left(to, from, [&](link& l, double uplink) { l.in = start + bytes * uplink; });
    return port(to).in = start + bytes * beta(from, to);
  }

 private:
  struct link {
    double out = 0, in = 0;
  };

  link& port(int rank) { return ports_[static_cast<std::size_t>(rank)]; }
  // The smallest enclosure of both; null if there is none.
  enclosure const* around(int a, int b) const {
    for (enclosure const& e : model_.enclosures)
      if (a / e.ranks == b / e.ranks) return &e;
    return nullptr;
  }
  // The slowest link on the way decides.
  double beta(int from, int to) const {
    double slowest = 0;
    for (enclosure const& e : model_.enclosures) {
      if (from / e.ranks == to / e.ranks) return std::max(e.beta, slowest);
      slowest = std::max(slowest, e.uplink);
    }
    return std::max(model_.beta, slowest);
  }
  template <class F>
  void for_each_left(int rank, int other, F&& f) {
    for (std::size_t i = 0; i < shared_.size(); ++i) {
      enclosure const& e = model_.enclosures[i];
      if (rank / e.ranks == other / e.ranks) return;
      if (e.uplink > 0) f(shared_[i][static_cast<std::size_t>(rank / e.ranks)], e.uplink);
    }
  }

  model model_;
  std::vector<link> ports_;
  std::vector<std::vector<link>> shared_;  // of each enclosure
};

}  // namespace tutti::analyze
