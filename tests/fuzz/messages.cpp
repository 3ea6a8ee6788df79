// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages with any head, one in 8 bytes of input: kind, tag, type, id, partner, size (in eighths), length and channel. They
// arrive in sequence at a rank that has receives and sends in flight.
// runs: 10000
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/input.hpp"
#include "tutti/message/messenger.hpp"
#include "tutti/transport/threads/loopback.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

using channels = message_channels<loopback>;

// The peer of the rank under test. It publishes what the input says, and reads whatever is sent to it.
class stranger {
 public:
  explicit stranger(std::shared_ptr<loopback::hub> const& shared) : transport_(shared, 1) {}

  void send(std::array<std::uint8_t, 8> const& in) {
    if (in[7] % 2 == 0) publish<message_track>(in);
    else publish<channels::track_of_slices>(in);
  }
  void read_all() {
    read<message_track>(messages_);
    read<channels::track_of_slices>(slices_);
  }

 private:
  template <int Track>
  void publish(std::array<std::uint8_t, 8> const& in) {
    std::size_t const length = in[6] < 64 ? in[6] : std::size_t{in[6]} * 16;
    std::byte* const place = transport_.claim(0, Track, length, alignof(message_head));
    if (place == nullptr) return;
    message_head front{.kind = static_cast<message_kind>(in[0] % 16),
                       .tag = static_cast<std::int8_t>(in[1]),
                       .type = in[2],
                       .id = in[3],
                       .partner = in[4],
                       .bytes = in[5] == 255 ? ~std::uint64_t{0} : std::uint64_t{in[5]} * 8};
    front.length = static_cast<std::uint32_t>(length) & message_head::max_length;
    std::memset(place, 0x5a, length);
    std::memcpy(place, &front, length < sizeof front ? length : sizeof front);
    transport_.publish(0, Track, length, false,
                       channels::fingerprint(Track == message_track ? messages_sent_++ : slices_sent_++));
  }
  template <int Track>
  void read(std::uint32_t& count) {
    while (transport_.peek(0, Track, channels::fingerprint(count))) {
      transport_.release(0, Track);
      ++count;
    }
  }

  loopback transport_;
  std::uint32_t messages_sent_ = 0, slices_sent_ = 0, messages_ = 0, slices_ = 0;
};

}  // namespace

void take(std::string const& text) {
  auto const shared = std::make_shared<loopback::hub>(2, all_tracks);
  loopback mine(shared, 0);
  stranger other(shared);
  messenger<loopback> under_test(mine);

  std::vector<std::vector<std::byte>> memory;
  std::vector<transfer> all(6);
  for (std::size_t i = 0; i < all.size(); ++i) {
    bool const sends = i % 3 == 2;
    memory.emplace_back(sends ? std::size_t{40'000} * i : std::size_t{300} * i + 8);
    transfer& t = all[i];
    t.what = sends ? transfer::send : transfer::receive;
    t.peer = i == 4 ? any_source : 1;
    t.tag = i == 4 ? any_tag : static_cast<int>(i);
    t.type = 1;
    t.from = t.to = memory.back().data();
    t.bytes = memory.back().size();
  }
  for (std::size_t i = 0; i < 4; ++i) under_test.start(all[i]);
  std::size_t started = 4;
  for (std::size_t at = 0; at + 8 <= text.size() && !under_test.failure(); at += 8) {
    std::array<std::uint8_t, 8> in;
    std::memcpy(in.data(), text.data() + at, in.size());
    other.send(in);
    for (int polls = 0; polls < 100 && !under_test.failure() && under_test.poll() != progress::stuck; ++polls)
      other.read_all();
    if (in[7] >= 128 && started < all.size() && !under_test.failure()) under_test.start(all[started++]);
  }
  for (transfer const& t : all)
    require(under_test.failure() || t.what == transfer::send || !t.ended || t.got <= t.bytes);
  under_test.drop_all();
}
