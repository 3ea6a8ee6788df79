// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of tune/text.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/tune/text.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string bytes_up_to(std::size_t limit) {
  return limit == device_limits::no_limit ? std::string("any") : join({limit});
}

TUTTI_INLINE std::string to_text(rule const& r) {
  std::string ranks = join({r.min_ranks});
  if (r.max_ranks != r.min_ranks) ranks = join({ranks, "-", r.max_ranks});
  return join({name(r.what), " ", ranks, " ", name(r.cores), " ", name(r.memory), " ", bytes_up_to(r.most_bytes()), " ",
               name(r.algorithm), " ", name(r.how), " ", r.nanoseconds, " ", r.measured_at});
}

TUTTI_INLINE std::string to_text(costs const& c) { return join({c.hop, " ", c.message, " ", c.sent, " ", c.combined}); }

TUTTI_INLINE std::string to_text(tuning_table const& t) {
  std::string out = join({complete_version, "\nmachine ", t.machine, "\ndate ", t.date, "\ncommand ", t.command, "\n"});
  append(out, {"# ps a hop, ps a message, fs a byte sent, fs a byte combined\napart ", to_text(t.apart), "\ncrowded ",
               to_text(t.crowded), "\n"});
  out += "# ps a message, fs a byte\n";
  for (distance const d : every_distance)
    if (t.links[d].known()) append(out, {"link ", name(d), " ", t.links[d].latency, " ", t.links[d].byte, "\n"});
  for (auto const& [what, value] : every_device_limit)
    if (t.devices.*value != device_limits{}.*value)
      append(out, {"device ", what, " ", bytes_up_to(t.devices.*value), "\n"});
  out += "# collective ranks cores reach up-to-bytes algorithm protocol ns at-bytes\n";
  for (std::span<rule const> const some : t.all_rules())
    for (rule const& r : some) append(out, {"rule ", to_text(r), "\n"});
  return out += "end\n";
}

// Reads a table line by line; errors name the source and the line.
class table_parser {
 public:
  table_parser(std::string_view text, std::string_view source) : left_(text), source_(source) {}

  [[gnu::cold]] owned_table parse() {
    owned_table out;
    bool is_whole = next_line() && line_ == tuning_version;
    if (!is_whole && line_ != complete_version)
      refuse(join({"it does not begin with \"", complete_version, "\", but with \"", line_.substr(0, 40), "\""}));
    while (next_line()) {
      std::string_view const key = word();
      if (key.empty() || key.front() == '#') continue;
      if (key == "machine") out.machine = line_;
      else if (key == "date") out.date = line_;
      else if (key == "command") out.command = line_;
      else if (key == "apart") out.apart = read_costs();
      else if (key == "crowded") out.crowded = read_costs();
      else if (key == "link") read_link(out.links);
      else if (key == "device") read_device(out.devices);
      else if (key == "rule") out.rules.push_back(read_rule());
      else if (key == "end") is_whole = true;
      else refuse(join({"\"", key, "\" is not one of machine, date, command, apart, crowded, link, device, rule"}));
    }
    if (!is_whole) refuse("\"end\" is missing");
    return out;
  }

 private:
  [[gnu::cold]] bool next_line() {
    if (left_.empty()) return false;
    std::size_t const end = left_.find('\n');
    line_ = left_.substr(0, end);
    left_.remove_prefix(end == std::string_view::npos ? left_.size() : end + 1);
    line_ = line_.substr(0, line_.find_last_not_of('\r') + 1);
    ++number_;
    return true;
  }
  // The next word of the line, and the blanks around it.
  [[gnu::cold]] std::string_view word() {
    skip_blanks();
    std::string_view const out = line_.substr(0, line_.find_first_of(" \t"));
    line_.remove_prefix(out.size());
    skip_blanks();
    return out;
  }
  [[gnu::cold, gnu::noinline]] void skip_blanks() {
    line_.remove_prefix(std::min(line_.size(), line_.find_first_not_of(" \t")));
  }

  [[gnu::cold]] std::uint64_t number(std::string_view text, char const* what,
                                     std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
    std::uint64_t out = 0;
    std::size_t const digits = read_number(text, most, out);
    if (digits == 0 || digits < text.size()) refuse(join({"\"", text, "\" is not ", what}));
    return out;
  }
  // A number for a field of a rule, or the greatest that fits there.
  template <class Field>
  [[gnu::cold]] void read(Field& out, std::string_view text, char const* what) {
    out = static_cast<Field>(std::min<std::uint64_t>(number(text, what), std::numeric_limits<Field>::max()));
  }
  // The value of an enumeration whose name is the next word.
  template <class Value, std::size_t N>
  [[gnu::cold]] Value named(std::array<Value, N> const& values, char const* what) {
    std::array<std::string_view, N> known;
    for (std::size_t i = 0; i < N; ++i) known[i] = name(values[i]);
    return values[place_among(word(), known, what)];
  }
  [[gnu::cold]] std::size_t place_among(std::string_view text, std::span<std::string_view const> known,
                                        char const* what) {
    std::string all;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i] == text) return i;
      append(all, {all.empty() ? "" : ", ", known[i]});
    }
    refuse(join({"\"", text, "\" is not ", what, "; there are ", all}));
  }

  [[gnu::cold]] costs read_costs() {
    costs out;
    for (std::uint64_t* const value : {&out.hop, &out.message, &out.sent, &out.combined})
      *value = number(word(), "a number of picoseconds or femtoseconds");
    expect_end();
    return out;
  }
  [[gnu::cold]] void read_link(link_times& out) {
    link_time& time = out[named(every_distance, "what lies between ranks")];
    time.latency = number(word(), "a number of picoseconds");
    time.byte = number(word(), "a number of femtoseconds");
    if (time.latency == 0 || time.byte == 0) refuse("a link cannot take no time");
    expect_end();
  }
  [[gnu::cold]] void read_device(device_limits& out) {
    std::array<std::string_view, every_device_limit.size()> known;
    for (std::size_t i = 0; i < known.size(); ++i) known[i] = every_device_limit[i].name;
    std::string_view const ranks = word(), limited = word();
    std::size_t const at = place_among(join({ranks, " ", limited}), known, "a limit of devices");
    out.*every_device_limit[at].value = read_limit();
    expect_end();
  }
  std::size_t read_limit() {
    std::string_view const text = word();
    return text == "any" ? device_limits::no_limit : number(text, "a number of bytes, or any");
  }
  [[gnu::cold]] rule read_rule() {
    rule r;
    r.what = named(every_collective, "a collective");
    std::string_view const range = word(), least = range.substr(0, range.find('-'));
    read(r.min_ranks, least, "a number of ranks");
    r.max_ranks = r.min_ranks;
    if (least.size() < range.size())
      read(r.max_ranks, range.substr(least.size() + 1), "a number of ranks, or a range such as 3-5");
    if (r.min_ranks < 2 || r.max_ranks < r.min_ranks)
      refuse(join({"\"", range, "\" is not a range of at least 2 ranks"}));
    r.cores = named(std::array{occupancy::any, occupancy::apart, occupancy::crowded}, "how ranks share cores");
    r.memory =
        named(std::array{reach::any, reach::pulls, reach::closed, reach::messages, reach::nodes, reach::scattered},
              "what ranks can read");
    r.up_to = rule::size_field(read_limit());
    std::string_view const algorithm = word();
    r.algorithm = find_algorithm(algorithm);
    if (r.algorithm == algorithm_id::automatic) refuse(join({"\"", algorithm, "\" is not an algorithm"}));
    r.how = named(std::array{protocol::automatic, protocol::pull}, "a protocol of a rule");
    read(r.nanoseconds, word(), "a number of nanoseconds");
    read(r.measured_at, word(), "a number of bytes");
    expect_end();
    if (!is_served(r.algorithm, r.what)) refuse(join({algorithm, " does not serve ", name(r.what)}));
    if (r.how == protocol::pull && !may_pull(r.algorithm, r.what))
      refuse(join({"protocol pull does not serve ", name(r.what), " by ", algorithm}));
    return r;
  }
  [[gnu::cold]] void expect_end() {
    if (!line_.empty()) refuse(join({"\"", line_, "\" is unexpected at the end of the line"}));
  }

  [[noreturn, gnu::cold]] void refuse(std::string_view what) const {
    throw error(
        {.code = error_code::bad_argument,
         .what = join({"tuning table ", source_, ", line ", std::max(number_, 1), ": ", what}),
         .way_out = "write it again with `tutti-tune`, or set TUTTI_TUNING to another file, or to an empty value"});
  }

  std::string_view left_, source_, line_{};
  int number_ = 0;
};

TUTTI_INLINE owned_table parse_table(std::string_view text, std::string_view source) {
  return detail::table_parser(text, source).parse();
}

}  // namespace tutti::detail
