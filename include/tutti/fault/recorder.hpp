// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flight recorder of a communicator: writes the last calls of this rank to a file when something goes wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "tutti/core/json.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/message_history.hpp"
#include "tutti/fault/observer.hpp"
#include "tutti/fault/output_file.hpp"

namespace tutti::detail {
// How often this process has received the signal TUTTI_RECORD_SIGNAL.
inline std::atomic<int> record_requests{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Recording is free because the last calls are on the notice board anyway; a call without an observer costs two tests.
class recorder {
 public:
  [[gnu::cold]] recorder(settings const& s, int rank, int ranks, std::string_view transport, bool in_one_process);
  [[gnu::cold]] ~recorder();

  template <class Board>
  void begin(std::uint64_t sequence, Board const& notices) {
    if (observer_) [[unlikely]]
      observer_->begin(sequence, notices, rank_);
  }
  template <class Board>
  void end(std::uint64_t sequence, Board const& notices) {
    if (observer_) [[unlikely]]
      observer_->end(sequence, notices, rank_);
  }
  // Sets the log of this communicator's messages; null before the first message and after the last.
  void note_messages(message_history const* all) noexcept { messages_.store(all, std::memory_order_release); }
  call_statistics statistics(collective what) const;

  // Whether a signal has requested a record since the last check.
  bool requested() noexcept;

  // Writes a record of the first error of a communicator; later ones follow from it.
  template <class Board>
  [[gnu::cold]] void note_error(std::string const& text, std::uint64_t sequence, Board const& notices);
  template <class Board>
  [[gnu::cold]] void write_where_asked(std::string const& reason, std::uint64_t sequence, Board const& notices);

  // Writes the last calls and messages of this rank, and the state of the others as known here. Throws error:
  // bad_argument.
  template <class Board>
  [[gnu::cold]] void write(std::string const& prefix, std::string const& reason, std::uint64_t sequence,
                           Board const& notices) const;

 private:
  template <class Board>
  [[gnu::noinline, gnu::cold]] static void append_fields(std::string& out, call_words const& words,
                                                         Board const& notices, int rank);

  template <class Board>
  [[gnu::noinline, gnu::cold]] static void append_fields_of_message(std::string& out, call_words const& words,
                                                                    Board const& notices, int rank);

  std::unique_ptr<detail::observer> observer_;
  std::atomic<message_history const*> messages_{nullptr};
  settings const& settings_;
  int rank_, ranks_;
  std::string_view transport_;
  detail::recorded_place at_{rank_, 0};
  std::atomic<int> requests_ = detail::record_requests.load(std::memory_order_relaxed);
  std::atomic<bool> failed_ = false;
};

template <class Board>
void recorder::note_error(std::string const& text, std::uint64_t sequence, Board const& notices) {
  if (failed_.exchange(true)) return;
  if (observer_) observer_->flush();
  if (settings_.log >= log_level::error) detail::write_log(at_, text);
  write_where_asked(text, sequence, notices);
}

template <class Board>
void recorder::write_where_asked(std::string const& reason, std::uint64_t sequence, Board const& notices) {
  if (settings_.record.empty()) return;
  try {
    write(settings_.record, reason, sequence, notices);
  } catch (error const& e) {
    detail::write_log(at_, e.what());
  }
}

template <class Board>
void recorder::write(std::string const& prefix, std::string const& reason, std::uint64_t sequence,
                     Board const& notices) const {
  std::string out;
  append(out,
         {"{\"version\": 2, \"identity\": \"", notices.identity(), "\", \"rank\": ", rank_, ", \"ranks\": ", ranks_});
  append_json(out, ", \"transport\": ", transport_);
  append(out, {", \"process\": ", ::getpid(), ", \"time\": ", std::time(nullptr)});
  append_json(out, ",\n \"reason\": ", reason);
  out += ",\n \"calls\": [";
  char const* separator = "\n  ";
  for (std::uint64_t call = sequence < records ? 1 : sequence - records + 1; call <= sequence; ++call)
    if (auto const words = notices.find(rank_, call)) {
      append(out, {std::exchange(separator, ",\n  "), "{\"sequence\": ", call,
                   ", \"ended\": ", call <= notices.finished(rank_) ? "true" : "false"});
      append_fields(out, *words, notices, rank_);
      out += '}';
    }
  out += "],\n \"messages\": [";
  separator = "\n  ";
  message_history const* const messages = messages_.load(std::memory_order_acquire);
  if (messages != nullptr)
    for (std::uint64_t number = messages->first(); number <= messages->count(); ++number)
      if (auto const words = messages->find(number)) {
        append(out, {std::exchange(separator, ",\n  "), "{\"number\": ", number});
        append_fields_of_message(out, *words, notices, rank_);
        out += '}';
      }
  out += "],\n \"peers\": [";
  separator = "\n  ";
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    std::uint64_t const called = notices.called(peer);
    append(out, {std::exchange(separator, ",\n  "), "{\"rank\": ", peer, ", \"called\": ", called,
                 ", \"finished\": ", notices.finished(peer)});
    if (auto const words = notices.find(peer, called)) append_fields(out, *words, notices, peer);
    if (auto const words = notices.awaited(peer))
      append_json(out, ", \"awaits\": ", describe_message(*words, notices, peer));
    out += '}';
  }
  std::string const group = at_.number == 0 ? "" : join({"-", at_.number});
  detail::write_whole_file("the flight record", join({prefix, ".", at_.rank, group, ".json"}), out += "]}\n");
}

template <class Board>
void recorder::append_fields(std::string& out, call_words const& words, Board const& notices, int rank) {
  readable_call const call = readable(words, notices, rank);
  append_json(out, ", \"where\": ", site_in(words, notices, rank));
  append_json(out, ", \"call\": ", describe(words, notices, rank));
  append(out, {", \"fingerprint\": ", fingerprint_of(words)});
  append_json(out, ", \"collective\": ", call.what);
  append(out, {", \"bytes\": ", call.bytes});
  append_json(out, ", \"algorithm\": ", call.algorithm);
}

template <class Board>
void recorder::append_fields_of_message(std::string& out, call_words const& words, Board const& notices, int rank) {
  bool const ended = message_history::ended(words);
  char const* const kind = is_send(words) ? "send" : is_probe(words) ? "probe" : "recv";
  append_json(out, ", \"where\": ", site_in(words, notices, rank));
  append_json(out, ", \"message\": ", describe_message(words, notices, rank));
  append(out, {", \"kind\": \"", kind, "\", \"peer\": ", peer_of(words), ", \"tag\": ", tag_of(words),
               ", \"bytes\": ", bytes_of(words), ", \"ended\": ", ended ? "true" : "false"});
  if (ended && !is_send(words)) append(out, {", \"source\": ", message_history::source(words)});
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/fault/recorder_impl.hpp"
#endif
