// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A head that arrives in sequence but cannot be an answer to this rank's messages is an error at once.
// labels: threads
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tutti/message/messenger.hpp"
#include "tutti/transport/threads/loopback.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

// A rank with a large send, which it has offered to rank 1, and a receive that waits for messages of rank 1.
struct offering_rank {
  std::shared_ptr<loopback::hub> shared = std::make_shared<loopback::hub>(2, all_tracks);
  loopback own{shared, 0}, peer{shared, 1};
  messenger<loopback> messages{own};
  std::vector<std::byte> memory =
      std::vector<std::byte>(std::size_t{8} << 20);  // more than the channel of slices holds
  transfer sent{}, awaited{};
  std::uint32_t answers = 0;

  offering_rank() {
    for (transfer* const t : {&sent, &awaited}) {
      t->peer = 1;
      t->type = 1;
      t->from = t->to = memory.data();
    }
    sent.what = transfer::send;
    sent.bytes = memory.size();
    awaited.what = transfer::receive;
    messages.start(sent);
    messages.start(awaited);
  }

  void answer(message_kind kind, std::uint64_t id) {
    message_head front{.kind = kind, .id = id};
    front.length = sizeof front;
    std::memcpy(peer.claim(0, message_track, sizeof front, alignof(message_head)), &front, sizeof front);
    peer.publish(0, message_track, sizeof front, false, message_channels<loopback>::fingerprint(answers++));
    messages.poll();
  }
  bool failed() const { return messages.failure().out_of_sequence && messages.failure().from == 1; }
};

}  // namespace

TEST_CASE("a message of which slices were requested cannot have been taken") {
  offering_rank r;
  r.answer(message_kind::request, r.sent.id);
  REQUIRE_FALSE(r.messages.failure());
  r.answer(message_kind::taken, r.sent.id);
  CHECK(r.failed());
  CHECK_FALSE(r.sent.ended);
  r.messages.drop_all();
}

TEST_CASE("slices of an unknown message cannot be requested") {
  offering_rank r;
  r.answer(message_kind::request, r.sent.id + 1);
  CHECK(r.failed());
  r.messages.drop_all();
}
