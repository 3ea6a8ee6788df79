// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A transport that fails at one rank: its messages are late, lost, duplicated, of another length or of another call, or
// the rank is killed or falls silent.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tutti/fault/transfer.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::testing {

enum class mishap { none, delay, lose, repeat, cut, mistake, kill, mute };

// Messages are counted from 1. `delay` applies to all of them: each waits in its channel for a random number of polls,
// while others pass it in other channels. Slices of tagged messages in mapped memory wait before they are written: once published,
// they are visible before anything that their sender does next, on which a receiver relies that has read the sender's memory instead.
struct misfortune {
  mishap what = mishap::none;
  int message = 0;  // the one that is affected
  unsigned seed = 0;
};

template <transport Transport>
class faulty : public Transport {
 public:
  template <class... Arguments>
  explicit faulty(misfortune const& m, Arguments&&... arguments)
      : Transport(std::forward<Arguments>(arguments)...), plan_(m), random_(m.seed) {}

  bool struck() const noexcept { return struck_; }

  std::byte* claim(int to, int track, std::size_t bytes, std::size_t alignment) noexcept {
    return claim_by([&] { return Transport::claim(to, track, bytes, alignment); }, to, track, alignment);
  }
  std::byte* claim_for_message(int to, int track, std::size_t bytes, std::size_t alignment, bool streams) noexcept
    requires detail::prefetches_messages<Transport>
  {
    return claim_by([&] { return Transport::claim_for_message(to, track, bytes, alignment, streams); }, to, track,
                    alignment);
  }
  void publish(int to, int track, std::size_t bytes, bool more, std::uint32_t tag) noexcept {
    befall(to, track, bytes, tag,
           [=, this](std::size_t b, std::uint32_t t) { Transport::publish(to, track, b, more, t); });
  }
  void publish_outside_calls(int to, int track, std::size_t bytes, bool awaited, std::uint32_t tag) noexcept
    requires detail::sends_outside_calls<Transport>
  {
    befall(to, track, bytes, tag,
           [=, this](std::size_t b, std::uint32_t t) { Transport::publish_outside_calls(to, track, b, awaited, t); });
  }
  void publish_reference(int to, int track, void const* data, bool foreign, std::size_t bytes, bool more,
                         std::uint32_t tag) noexcept {
    auto const publish = [=, this](std::size_t b, std::uint32_t t) {
      Transport::publish_reference(to, track, data, foreign, b, more, t);
    };
    mishap const now = next();
    if (foreign) return send([=] { publish(bytes, tag); }, to, track);
    switch (now) {
      case mishap::lose: return;
      case mishap::cut: return publish(bytes - 1, tag);
      case mishap::mistake: return publish(bytes, ~tag);
      case mishap::repeat:
        publish(bytes, tag);
        if (Transport::claim(to, track, bytes, 1) != nullptr) publish(bytes, tag);
        return;
      default: send([=] { publish(bytes, tag); }, to, track);
    }
  }
  std::uint64_t published(int to, int track) noexcept {
    return Transport::published(to, track) + (is_held(to, track) ? 1 : 0);
  }
  bool has_left(int to, int track, std::uint64_t count) noexcept
    requires detail::sends_outside_calls<Transport>
  {
    send_some();
    return Transport::has_left(to, track, count);
  }
  detail::arrival peek(int from, int track, std::uint32_t tag) noexcept {
    send_some();
    return mute() ? detail::arrival{} : Transport::peek(from, track, tag);
  }
  bool all_sent() noexcept {
    send_some();
    if constexpr (detail::needs_sender_progress<Transport>)
      if (!Transport::all_sent()) return false;
    return held_.empty();
  }

 private:
  struct message {
    int to, track;
    unsigned looks;  // polls until it leaves
    std::function<void()> send;
  };

  template <class Claim>
  std::byte* claim_by(Claim const& transports, int to, int track, std::size_t alignment) noexcept {
    send_some();
    if (is_held(to, track) || mute()) return nullptr;
    if (unsigned& looks = looks_before_[{to, track}]; looks > 0) {
      --looks;
      return nullptr;
    }
    std::byte* const place = transports();
    claimed_[{to, track}] = {place, alignment};
    return place;
  }

  bool mute() const noexcept { return plan_.what == mishap::mute && struck_; }

  mishap next() noexcept {
    if (plan_.what == mishap::none || plan_.what == mishap::delay || ++count_ != plan_.message) return mishap::none;
    struck_ = true;
    if (plan_.what == mishap::kill) ::raise(SIGKILL);
    return plan_.what;
  }
  // publishes(bytes, tag) turns the claimed place into a message.
  template <class Publish>
  void befall(int to, int track, std::size_t bytes, std::uint32_t tag, Publish publishes) noexcept {
    auto const [place, alignment] = claimed_[{to, track}];
    switch (next()) {
      case mishap::lose: return;
      case mishap::cut: return publishes(bytes == 0 ? 1 : bytes - 1, tag);
      case mishap::mistake: return publishes(bytes, ~tag);
      case mishap::repeat: {
        std::vector<std::byte> const same(place, place + bytes);
        publishes(bytes, tag);
        if (std::byte* const again = Transport::claim(to, track, bytes, alignment)) {
          std::memcpy(again, same.data(), bytes);
          publishes(bytes, tag);
        }
        return;
      }
      default: send([=] { publishes(bytes, tag); }, to, track);
    }
  }
  void send(std::function<void()> f, int to, int track) {
    auto const delay = static_cast<unsigned>(plan_.what == mishap::delay ? random_() % 100 : 0);
    if (detail::maps_memory<Transport> && track == detail::slice_track) looks_before_[{to, track}] = delay;
    else if (plan_.what == mishap::delay) return held_.push_back({to, track, delay, std::move(f)});
    if (!mute()) f();
  }
  void send_some() noexcept {
    for (std::size_t i = 0; i < held_.size();) {
      if (held_[i].looks > 0 && --held_[i].looks > 0) {
        ++i;
        continue;
      }
      held_[i].send();
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  bool is_held(int to, int track) const noexcept {
    for (message const& m : held_)
      if (m.to == to && m.track == track) return true;
    return false;
  }

  struct claimed_place {
    std::byte* place = nullptr;
    std::size_t alignment = 1;
  };

  misfortune plan_;
  std::minstd_rand random_;
  std::deque<message> held_;
  std::map<std::pair<int, int>, claimed_place> claimed_;  // by peer and track
  std::map<std::pair<int, int>, unsigned> looks_before_;  // until the next slice may be written
  int count_ = 0;
  bool struck_ = false;
};

}  // namespace tutti::testing
