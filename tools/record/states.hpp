// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds out from flight records which ranks are behind, and in which call ranks disagree: for each communicator of each job.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "read.hpp"

namespace record {

// The state of a rank, from its own record or from what its peers observed.
struct state {
  std::uint64_t called = 0, finished = 0;
  std::map<std::uint64_t, json> calls;
  std::string awaits;          // the message that peers saw it wait for
  std::optional<json> record;  // its own
  std::string file;            // in which it is

  std::string doing() const {
    if (called == 0) return "has not made a call";
    auto const call = calls.find(called);
    std::string const what = call == calls.end() ? "" : ", " + call->second.at("call").get<std::string>();
    std::string const where = call != calls.end() && call->second.contains("where")
                                  ? fmt::format(" ({})", call->second.at("where").get<std::string>())
                                  : "";
    return fmt::format("{} call #{}{}{}", finished >= called ? "has completed" : "is in", called, what, where);
  }
};

// Adds what a record tells of its own rank and of the others. Throws where a field is missing or of another type.
inline void add_record(std::vector<state>& ranks, json const& written, std::string const& file) {
  auto const count = written.at("ranks").get<std::uint64_t>();
  if (count != written.at("peers").size() + 1) throw std::runtime_error("it does not describe every rank");
  if (ranks.empty()) ranks.resize(count);
  if (ranks.size() != count)
    throw std::runtime_error(
        fmt::format("its communicator has {} ranks, but that of the other records has {}", count, ranks.size()));
  auto const state_of = [&](json const& rank) -> state& {
    auto const r = rank.get<std::int64_t>();
    if (r < 0 || static_cast<std::uint64_t>(r) >= count)
      throw std::runtime_error(fmt::format("it names rank {}, but its communicator has {} ranks", r, count));
    return ranks[static_cast<std::size_t>(r)];
  };
  state& own = state_of(written.at("rank"));
  if (own.record)
    throw std::runtime_error(
        fmt::format("it is of rank {}, and so is {}, so they are {}", written.at("rank").get<int>(), own.file,
                    written.contains("identity")
                        ? "of different times; pass one of them"
                        : "of different communicators or runs; pass the files of one communicator of one run"));
  own.record = written;
  own.file = file;
  for (json const& call : written.at("calls")) {
    auto const number = call.at("sequence").get<std::uint64_t>();
    own.called = std::max(own.called, number);
    if (call.at("ended").get<bool>()) own.finished = std::max(own.finished, number);
    own.calls[number] = call;
  }
  for (json const& peer : written.at("peers")) {
    state& other = state_of(peer.at("rank"));
    auto const called = peer.at("called").get<std::uint64_t>();
    other.called = std::max(other.called, called);
    other.finished = std::max(other.finished, peer.at("finished").get<std::uint64_t>());
    if (peer.contains("call")) other.calls.try_emplace(called, peer);
    if (peer.contains("awaits")) other.awaits = peer.at("awaits").get<std::string>();
  }
}

// Tells the first recorded call in which ranks disagree.
inline std::string disagreement(std::vector<state> const& ranks) {
  std::map<std::uint64_t, std::map<std::uint32_t, std::vector<std::size_t>>> who;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (auto const& [number, call] : ranks[r].calls)
      who[number][call.at("fingerprint").get<std::uint32_t>()].push_back(r);
  for (auto const& [number, parties] : who) {
    if (parties.size() == 1) continue;
    std::string out = fmt::format("ranks disagree in call #{}:\n", number);
    for (auto const& [fingerprint, members] : parties)
      out += fmt::format("  {} {}: {}\n", members.size() == 1 ? "rank" : "ranks", fmt::join(members, ", "),
                         ranks[members.front()].calls.at(number).at("call").get<std::string>());
    return out;
  }
  return {};
}

// Tells the sends and receives that have not completed, from the rank's own record or from what its peers observed.
inline std::string messages_of(std::size_t rank, state const& s) {
  if (!s.record) return s.awaits.empty() ? "" : fmt::format("rank {} is waiting in {}\n", rank, s.awaits);
  std::string out;
  for (json const& m : s.record->value("messages", json::array()))
    if (!m.at("ended").get<bool>())
      out += fmt::format("rank {} has not completed {} ({})\n", rank, m.at("message").get<std::string>(),
                         m.at("where").get<std::string>());
  return out;
}

// Ranks that fail write their records at about the same time. A rank that has written none leaves the file of an earlier run.
inline std::string doubt_about_times(std::vector<state> const& ranks) {
  static constexpr std::uint64_t plausible = 60;  // seconds
  state const *first = nullptr, *last = nullptr;
  auto const time = [](state const* s) { return s->record->at("time").get<std::int64_t>(); };
  for (state const& s : ranks) {
    if (!s.record || !s.record->contains("time")) continue;
    if (first == nullptr || time(&s) < time(first)) first = &s;
    if (last == nullptr || time(&s) > time(last)) last = &s;
  }
  // A difference of any two times, without overflow.
  std::uint64_t const apart =
      first == nullptr ? 0 : static_cast<std::uint64_t>(time(last)) - static_cast<std::uint64_t>(time(first));
  if (apart <= plausible) return {};
  return fmt::format("warning: {} was written {} s before {}; {}\n", first->file, apart, last->file,
                     first->record->contains("identity") ? "the rank may have gone on meanwhile"
                                                         : "if it is of an earlier run, leave it out");
}

inline std::string describe(std::vector<state> const& ranks) {
  std::string out = doubt_about_times(ranks);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    out += fmt::format("rank {} {}{}\n", r, ranks[r].doing(), ranks[r].record ? "" : " (no record of this rank)");
  for (std::size_t r = 0; r < ranks.size(); ++r) out += messages_of(r, ranks[r]);
  auto const latest = std::ranges::max_element(ranks, {}, &state::called)->called;
  std::vector<std::size_t> behind;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r].called < latest) behind.push_back(r);
  if (behind.size() == 1) out += fmt::format("behind: rank {} has not reached call #{}\n", behind[0], latest);
  else if (!behind.empty())
    out += fmt::format("behind: ranks {} have not reached call #{}\n", fmt::join(behind, ", "), latest);
  else if (std::ranges::all_of(ranks, [&](state const& s) { return s.finished == latest; }))
    out += fmt::format("no rank is behind: all have completed call #{}\n", latest);
  else out += fmt::format("no rank is behind: all have reached call #{}\n", latest);
  out += disagreement(ranks);
  for (state const& s : ranks)
    if (s.record) {
      out += fmt::format("rank {} reports: {}\n", s.record->at("rank").get<int>(),
                         s.record->at("reason").get<std::string>());
      break;
    }
  return out;
}

// The ranks of a communicator of one job.
struct group {
  std::string identity;  // random; empty for all records of versions of tutti that wrote none
  std::vector<state> ranks{};

  // Before its states, where there are several.
  std::string heading() const {
    std::vector<std::string> files;
    std::string transport;
    for (state const& s : ranks)
      if (s.record) {
        files.push_back(s.file);
        transport = s.record->value("transport", "");
      }
    return fmt::format("{} ranks{}{}: {}\n", ranks.size(), transport.empty() ? "" : " over ", transport,
                       fmt::join(files, ", "));
  }
};
inline constexpr int newest_version = 2;  // that of records without one is 1

inline std::vector<state>& ranks_of(std::vector<group>& all, json const& written) {
  if (int const version = written.value("version", 1); version > newest_version)
    throw std::runtime_error(fmt::format(
        "it has version {} of the format, and this tutti-record knows those up to {}; use that of the tutti "
        "that wrote it",
        version, newest_version));
  std::string const identity = written.value("identity", "");
  auto const known = std::ranges::find(all, identity, &group::identity);
  return known != all.end() ? known->ranks : all.emplace_back(identity).ranks;
}

inline std::string describe(std::vector<group> const& all) {
  if (all.size() == 1) return describe(all.front().ranks);
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i)
    out += fmt::format("{}communicator {} of {}, {}{}", i == 0 ? "" : "\n", i + 1, all.size(), all[i].heading(),
                       describe(all[i].ranks));
  return out;
}

// What `tutti-record show` prints of these records. Throws if one is something else.
inline std::string show(std::vector<source> const& sources) {
  std::vector<group> all;
  for (auto const& [name, text] : sources) {
    json written = parse_file(text);
    if (events_in(written) != nullptr)
      throw std::runtime_error(
          fmt::format("{} is a trace, not a flight record: read it with `tutti-record draw` or "
                      "`tutti-record join`",
                      name));
    if (written.is_discarded())
      throw std::runtime_error(
          fmt::format("{} is not a flight record: it is not valid JSON, or deeper than any that ranks write", name));
    if (!is_record(written))
      throw std::runtime_error(
          fmt::format("{} is not a flight record: show reads the files that ranks write if TUTTI_RECORD is set", name));
    try {
      add_record(ranks_of(all, written), written, name);
    } catch (json::exception const&) {
      throw std::runtime_error(fmt::format("{} is not a flight record: a field is missing or of the wrong type", name));
    } catch (std::exception const& e) {
      throw std::runtime_error(fmt::format("{} does not fit: {}", name, e.what()));
    }
  }
  try {
    return describe(all);
  } catch (json::exception const&) {
    throw std::runtime_error("a call or message in these flight records lacks a field, or has one of the wrong type");
  }
}

}  // namespace record
