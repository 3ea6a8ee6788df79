// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels whose calls and meetings have numbers beyond 2^32, where the lower halves of these begin again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "tutti/collective/barrier.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/channel/channels.hpp"
#include "tutti/device/ipc/calls.hpp"
#include "tutti/device/ipc/group.hpp"
#include "tutti/device/ipc/kernels.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::testing {

inline constexpr std::uint64_t beyond_32_bits = std::uint64_t{1} << 32;

inline detail::deadline in_a_minute() { return detail::deadline::after(std::chrono::minutes{1}); }

// Lets calls by packets count on from this number.
template <class Channels>
void count_packets_from(Channels const& channels, std::uint64_t calls) {
  auto const& on = channels.team()->at(0);
  for (int r = 0; r < channels.size(); ++r) on.copy({}, &channels.map().packet_calls(r), &calls, sizeof calls);
  on.wait({}, in_a_minute());
}

// The sum of what the ranks pass, by packets and by blocks that meet. Before the second call of each, 2^32 others seem to have passed, so
// that its flags lie where those of the first do; rank 0 comes early, and waits for the others all the same.
template <class Comm, class D>
void check_numbers_beyond_32_bits(Comm& comm, D const& on) {
  auto const where = std::source_location::current();
  using group_type = detail::device_group<D, typename Comm::transport_type>;
  constexpr std::size_t n = 100;
  constexpr std::uint32_t call = 7;
  auto const stream = on.make_stream();
  int const rank = comm.rank(), ranks = comm.size();
  {
    detail::device_array<D, float> const in(on, n), out(on, n);
    group_type group(comm, on, 4096, where);
    detail::ipc_kernels kernels(on, rank, ranks, group, where);
    auto const check = [&](std::string_view by, std::uint64_t& count, auto const& launch) {
      for (int turn : {1, 2}) {
        std::vector<float> const mine(n, static_cast<float>(turn * (rank + 1)));
        on.copy(stream, in.data(), mine.data(), n * sizeof(float));
        if (turn == 2) on.copy(stream, &count, &beyond_32_bits, sizeof count);
        on.wait(stream, in_a_minute());
        barrier(comm);
        if (turn == 2 && rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        launch();
        std::vector<float> got(n);
        on.copy(stream, got.data(), out.data(), n * sizeof(float));
        on.wait(stream, in_a_minute());
        float const sum = static_cast<float>(turn * ranks * (ranks + 1) / 2);
        expect(got == std::vector<float>(n, sum), detail::join({"the sum by ", by, ", turn ", turn}));
      }
    };
    check("packets", kernels.channels().packet_calls(rank), [&] {
      kernels.template launch_packets<collective::all_reduce>(in.data(), out.data(), n, sum{}, call, stream);
    });
    check("meetings", kernels.meetings().count(rank), [&] {
      using place = typename detail::ipc_calls<D, typename Comm::transport_type>::registered_place;
      auto const plan =
          kernels.template plan_of_shots<float, float, detail::as_they_are>(1, n, detail::no_rows{}, where);
      kernels.template launch_shots<detail::as_they_are>(plan, in.data(), out.data(), place{}, place{}, false,
                                                         fused{sum{}}, detail::no_rows{}, call, stream);
    });
    barrier(comm);
  }
  on.end_stream(stream);
}

}  // namespace tutti::testing
