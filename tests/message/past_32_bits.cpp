// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tagged messages, and probes for them, while the numbers of messages pass 2^31 and 2^32.
// labels: threads
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/aged_loopback.hpp"
#include "support/expect.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// Around a ring: eager messages, and those that need an offer.
template <class Comm>
void send_around(Comm& comm, int messages) {
  int const left = (comm.rank() + comm.size() - 1) % comm.size(), right = (comm.rank() + 1) % comm.size();
  for (int i = 0; i < messages; ++i) {
    std::size_t const count = std::vector<std::size_t>{0, 1, 12, 5000, 40'000}[static_cast<std::size_t>(i % 5)];
    int const tag = i % 3;
    std::vector<int> const out(count, i + comm.rank());
    std::vector<int> in(count, -1);
    work sent = isend(comm, out, right, tag);
    if (i % 2 == 0) {
      probed const next = probe(comm, any_source, any_tag);
      expect(next == probed{left, tag, count * sizeof(int)}, "a probe finds another message");
    }
    receive_work incoming = irecv(comm, in, i % 4 == 0 ? any_source : left, tag);
    incoming.wait();
    sent.wait();
    expect(in == std::vector<int>(count, i + left), "a message has other elements");
  }
}

}  // namespace

TEST_CASE("tagged messages arrive while their numbers pass their limits") {
  for (int const ranks : sanitized ? std::vector{3} : std::vector{2, 3})
    for (std::uint64_t const limit : {std::uint64_t{1} << 31, std::uint64_t{1} << 32})
      for (std::uint64_t const before : {300U, 150U}) {
        CAPTURE(ranks);
        CAPTURE(limit);
        CAPTURE(before);
        run_aged(ranks, limit - before, [&](auto& comm) {
          auto& engine = comm.engine();
          using transport_type = std::remove_cvref_t<decltype(engine.transport())>;
          detail::exchange<transport_type>::of(engine).skip(limit - before);
          barrier(comm);
          send_around(comm, 400);
          int const right = (comm.rank() + 1) % comm.size();
          expect(engine.transport().published(right, detail::message_track) > limit,
                 "too few messages to reach the limit");
        });
      }
}
