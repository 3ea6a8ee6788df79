// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A transport that records what it sends and what it has finished reading, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "tutti/transport/concept.hpp"

namespace tutti::testing {

struct recorded_message {
  enum kinds { in_slot, reference, foreign } kind;
  int to, track;
  bool more;
  std::vector<std::byte> content;  // at the time of sending
  void const* data;                // of a reference
};
struct recorded_release {
  int from, track;
};

// `isolated`: peers cannot address each other's memory, and fetch it instead.
template <detail::maps_memory Transport>
class recording : public Transport {
 public:
  template <class... Arguments>
  explicit recording(Arguments&&... arguments) : Transport(std::forward<Arguments>(arguments)...) {}

  std::vector<recorded_message> messages;
  std::vector<recorded_release> releases;
  bool isolated = false;

  std::byte* claim(int to, int track, std::size_t bytes, std::size_t alignment) noexcept {
    return claimed_[{to, track}] = Transport::claim(to, track, bytes, alignment);
  }
  void publish(int to, int track, std::size_t bytes, bool more, std::uint32_t tag) noexcept {
    record(recorded_message::in_slot, to, track, claimed_[{to, track}], bytes, more);
    Transport::publish(to, track, bytes, more, tag);
  }
  void publish_reference(int to, int track, void const* data, bool foreign, std::size_t bytes, bool more,
                         std::uint32_t tag) noexcept {
    record(foreign ? recorded_message::foreign : recorded_message::reference, to, track, data, bytes, more);
    Transport::publish_reference(to, track, data, foreign, bytes, more, tag);
  }
  bool is_shared(void const* data, std::size_t bytes) const noexcept {
    return !isolated && Transport::is_shared(data, bytes);
  }
  int fetch(int, std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    std::memcpy(to, from, bytes);
    return 0;
  }
  void release(int from, int track) noexcept {
    releases.push_back({from, track});
    Transport::release(from, track);
  }

 private:
  void record(recorded_message::kinds kind, int to, int track, void const* data, std::size_t bytes, bool more) {
    auto const* const begin = static_cast<std::byte const*>(data);
    messages.push_back({kind, to, track, more, {begin, begin + bytes}, data});
  }

  std::map<std::pair<int, int>, std::byte*> claimed_;  // by peer and track
};

}  // namespace tutti::testing
