// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A hash table of linked lists, changed under a lock.
#include "groups.hpp"

#include <chrono>
#include <cstdio>
#include <new>
#include <utility>

#include "lock_of_ranks.hpp"
#include "tutti/algorithm/concept.hpp"
#include "tutti/transport/segment.hpp"

namespace interpose {
namespace {

// Collectives use these; a group gets none for messages with tags.
constexpr int tracks = tutti::max_tracks;
constexpr std::size_t lists = 500;

}  // namespace

// Zeroed memory is an empty directory. An address of 0 refers to nothing. After the directory in memory, each rank has an address: the
// head of the list of groups that it made, that all members have left, and that it must free. `next` links them.
struct groups::directory {
  std::atomic<std::uint32_t> holder;  // see lock_of_ranks
  std::atomic<bool> noticed;
  std::atomic<std::int64_t> reported[16];  // when, in seconds of a clock that all processes share
  bool full;                               // there was no memory for a group
  address list[lists];
};

struct groups::group {
  std::uint64_t identity;
  address next;  // in its list, or in that of groups to free
  address room;
  std::uint32_t maker;
  std::uint32_t members;
  std::uint32_t left;  // members that have left
};

class groups::lock {
 public:
  explicit lock(groups& all)
      : threads_(all.threads_), ranks_(all.at<directory>(all.directory_).holder, all.machine_.rank(), [&](int rank) {
          return all.machine_.lost(rank);
        }) {}

 private:
  std::lock_guard<std::mutex> threads_;
  lock_of_ranks ranks_;
};

groups::address groups::make_directory(room_shm& machine) {
  return machine.shared_address(
      machine.allocate(sizeof(directory) + static_cast<std::size_t>(machine.ranks()) * sizeof(address)));
}

groups::address& groups::ended_of(std::uint32_t maker) const {
  return at<address>(directory_ + sizeof(directory) + maker * sizeof(address));
}

std::unique_ptr<room_shm> groups::membership::enter(std::vector<int> const& members) const {
  return all_->machine_.enter_room(all_->at<group>(group_).room, members, tracks);
}

groups::membership groups::join(std::uint64_t identity, std::vector<int> const& members) {
  lock const alone(*this);
  clean_up();
  address& place = find(identity);
  if (place == 0 && !make(place, identity, members)) return {};
  return {*this, place};
}

bool groups::is_first_notice() { return !at<directory>(directory_).noticed.exchange(true); }

bool groups::is_first_report(int kind) {
  if (directory_ == 0) return true;  // there is no other rank
  auto& reported = at<directory>(directory_).reported[kind];
  // 0 means never, and the clock may have started less than 10 s ago
  auto const now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch());
  std::int64_t const mine = now.count() + 10;
  std::int64_t before = reported.load();
  return mine - before >= 10 && reported.compare_exchange_strong(before, mine);
}

groups::address& groups::find(std::uint64_t identity) const {
  address* place = &at<directory>(directory_).list[identity % lists];
  while (*place != 0 && at<group>(*place).identity != identity) place = &at<group>(*place).next;
  return *place;
}

bool groups::make(address& place, std::uint64_t identity, std::vector<int> const& members) {
  directory& all = at<directory>(directory_);
  if (all.full) return false;
  std::byte* entry = nullptr;
  try {
    entry = machine_.allocate(sizeof(group));
    if (auto const room = machine_.make_room(members, tracks)) {
      place = machine_.shared_address(entry);
      at<group>(place) = {
          identity, 0, *room, static_cast<std::uint32_t>(machine_.rank()), static_cast<std::uint32_t>(members.size()),
          0};
      return true;
    }
  } catch (std::bad_alloc const&) {
  }
  if (entry != nullptr) machine_.deallocate(entry, sizeof(group));
  all.full = true;
  std::fprintf(
      stderr,
      "tutti: rank %d has no shared memory left for a communicator (TUTTI_HEAP): collectives on it and on further "
      "ones are passed to the MPI\n",
      machine_.rank());
  return false;
}

void groups::leave(address const left) noexcept try {
  lock const alone(*this);
  group& mine = at<group>(left);
  if (++mine.left == mine.members) {
    find(mine.identity) = mine.next;
    mine.next = std::exchange(ended_of(mine.maker), left);
  }
  clean_up();
} catch (...) {  // the memory stays until the job ends
}

void groups::clean_up() noexcept {
  address& ended = ended_of(static_cast<std::uint32_t>(machine_.rank()));
  while (ended != 0) {
    address const place = ended;
    group const& old = at<group>(place);
    ended = old.next;
    machine_.remove_room(old.room, static_cast<int>(old.members), tracks);
    machine_.deallocate(const_cast<std::byte*>(machine_.at_shared_address(place)), sizeof(group));
  }
}

}  // namespace interpose
