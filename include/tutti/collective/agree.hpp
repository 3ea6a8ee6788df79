// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tuning table of rank 0 counts for all ranks: it tells them before their first call.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/collective/group.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/tune/find.hpp"

namespace tutti::detail {

// Rank 0's text at all ranks: messages from rank 0 to each, beside any call. The channels are empty again when all have
// it.
template <class Transport>
class announcement {
 public:
  announcement(Transport& transport, std::string text)
      : transport_(transport), text_(std::move(text)), sent_(static_cast<std::size_t>(transport.ranks())) {}

  progress poll() { return transport_.rank() == 0 ? send() : receive(); }
  std::string take() { return std::move(text_); }

  bool sent_to(int peer) const noexcept { return sent_[static_cast<std::size_t>(peer)] == text_.size(); }

 private:
  static constexpr std::uint32_t tag = 0x74756e65;

  progress send() noexcept {
    progress out = progress::done;
    for (int peer = 1; peer < transport_.ranks(); ++peer) {
      std::size_t& sent = sent_[static_cast<std::size_t>(peer)];
      while (sent < text_.size()) {
        std::size_t const bytes = std::min(text_.size() - sent, Transport::slice_bytes);
        std::byte* const place = transport_.claim(peer, 0, bytes, 1);
        if (place == nullptr) {
          out = progress::stuck;
          break;
        }
        std::memcpy(place, text_.data() + sent, bytes);
        sent += bytes;
        transport_.publish(peer, 0, bytes, sent < text_.size(), tag);
      }
    }
    if constexpr (sends_later<Transport>)
      if (!transport_.all_sent()) out = progress::stuck;
    return out;
  }
  progress receive() {
    while (!complete_) {
      arrival const a = transport_.look(0, 0, tag);
      if (!a) return progress::stuck;
      text_.append(reinterpret_cast<char const*>(a.data), a.bytes);
      complete_ = !a.more;
      transport_.release(0, 0);
    }
    return progress::done;
  }

  Transport& transport_;
  std::string text_;
  std::vector<std::size_t> sent_;  // bytes, to each peer
  bool complete_ = false;
};

// What rank 0 says: a letter, the name of the table, its text. Ranks that can't have it must fail as well.
struct table_news {
  static constexpr char built_in = 'b', table = 't', fault = 'f';

  [[gnu::cold]] static std::string make(tuning_table const& compiled) {
    try {
      bool const own = compiled.rules.data() != shipped.rules.data();
      if (auto const file = find_tuning_file(!own)) {
        parse_table(file->text, file->path);
        return join({"t", file->path, "\n", file->text});
      }
      return own ? join({"tthe program's table\n", to_text(compiled)}) : std::string(1, built_in);
    } catch (std::exception const& e) {
      std::string_view what = e.what();
      if (what.starts_with("tutti: ")) what.remove_prefix(7);
      return join({"f", what});
    }
  }
  [[gnu::cold]] static void read(std::string const& text, int rank, tuning& out) {
    if (text.front() == fault) throw error({.code = error_code::bad_argument, .rank = rank, .what = text.substr(1)});
    if (text.front() != table) return;
    std::size_t const end = text.find('\n');
    std::string source = text.substr(1, end - 1);
    out = tuning(parse_table(std::string_view(text).substr(end + 1), source), std::move(source));
  }
};

// Called by all ranks, before their first call. Rank 0 looks for TUTTI_TUNING, then what the program has compiled in,
// then the usual file.
template <class Transport>
[[gnu::cold]] void agree_on_tuning(group<Transport>& g, tuning_table const& compiled = shipped) {
  if (g.ranks() == 1) return;
  auto& transport = g.transport();
  announcement<Transport> work(transport, g.rank() == 0 ? table_news::make(compiled) : std::string());
  int gone = -1;
  bool const done =
      wait_until_done([&] { return work.poll(); }, transport.waits(), countdown(g.environment.timeout),
                      [&](auto const& ready) {
                        transport.nap(ready);
                        g.expect_no_fault();
                        for (int peer = 0; peer < g.ranks(); ++peer) {
                          bool const awaited = g.rank() == 0 ? !work.sent_to(peer) : peer == 0;
                          if (peer != g.rank() && awaited && (transport.left(peer) || transport.lost(peer)))
                            gone = peer;
                        }
                        return gone < 0 || ready();
                      });
  if (!done)
    throw error({.code = gone < 0 ? error_code::timeout : error_code::rank_lost,
                 .rank = g.rank(),
                 .peer = gone < 0 ? 0 : gone,
                 .what = gone < 0 ? std::string("rank 0 has not sent its tuning table")
                                  : join({"rank ", gone, " ended before the ranks had agreed on a tuning table"}),
                 .way_out = "see the output of that rank"});
  g.expect_no_fault();
  table_news::read(work.take(), g.rank(), g.tuned);
  if constexpr (has_levels<Transport>) g.levels->tune_by(g.tuned);
}

}  // namespace tutti::detail
