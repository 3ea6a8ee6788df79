// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rows of a benchmark: as a table for a person, as JSON lines for a program, and merged over settings of the peer.
#pragma once

#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace bench {

// One of ours beside the peer.
struct entry {
  std::string name;       // which memory, and which algorithm if it was asked for
  std::string algorithm;  // what ran
  double us = 0;
  double ratio = 0, ratio_min = 0, ratio_max = 0;  // the peer's time over ours: median and extremes of the repeats
  double algbw = 0, busbw = 0;                     // GB/s, as nccl-tests defines them
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(entry, name, algorithm, us, ratio, ratio_min, ratio_max, algbw, busbw)

struct row {
  std::string collective, mode, place;
  int ranks = 0;
  std::size_t bytes = 0;
  std::string peer;
  double peer_us = 0;
  std::vector<entry> ours;

  std::string table() const { return fmt::format("{}, {} ranks, {}, {}", collective, ranks, place, mode); }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(row, collective, mode, place, ranks, bytes, peer, peer_us, ours)

inline std::string size_text(std::size_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

// Prints rows as Markdown; a new table where the title or the contenders change.
class printer {
 public:
  void operator()(row const& r) {
    std::string heading = fmt::format("\n### {}\n\n| size | peer | us |", r.table()), rule = "|---:|---|---:|";
    for (entry const& e : r.ours) {
      heading += fmt::format(" {} us | ratio | min..max |", e.name);
      rule += "---:|---:|:---:|";
    }
    heading += " algorithm | busbw GB/s |\n" + rule + "---|---:|";
    if (heading != last_) fmt::print("{}\n", last_ = heading);
    fmt::print("| {} | {} | {} |", size_text(r.bytes), r.peer, time_text(r.peer_us));
    for (entry const& e : r.ours)
      fmt::print(" {} | **{:.2f}** | {:.2f}..{:.2f} |", time_text(e.us), e.ratio, e.ratio_min, e.ratio_max);
    if (!r.ours.empty()) fmt::print(" {} | {:.2f} |\n", r.ours.front().algorithm, r.ours.front().busbw);
    std::fflush(stdout);
  }

 private:
  static std::string time_text(double us) {
    return us < 10 ? fmt::format("{:.3f}", us) : us < 100 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
  }

  std::string last_;
};

// Of runs against several settings of the peer, the strongest peer at each size: the row whose first ratio is lowest.
// Ratios of one row are of one run, so nothing is divided across runs.
inline std::vector<row> merge(std::vector<std::string> const& files) {
  std::vector<row> out;
  for (std::string const& name : files) {
    std::ifstream file(name);
    if (!file) throw std::runtime_error("cannot read " + name);
    for (std::string line; std::getline(file, line);) {
      row const r = nlohmann::json::parse(line).get<row>();
      bool known = false;
      for (row& best : out) {
        if (best.table() != r.table() || best.bytes != r.bytes) continue;
        known = true;
        if (r.ours.front().ratio < best.ours.front().ratio) best = r;
      }
      if (!known) out.push_back(r);
    }
  }
  return out;
}

}  // namespace bench
