// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of memory.hpp.
#include "explore/memory.hpp"

#include <cstring>

namespace tutti::testing::explore {

void memory::restore() {
  for (auto const& [address, touched] : touched_) {
    if (touched->kept) std::memcpy(reinterpret_cast<void*>(address), &touched->before, sizeof(granule));
    *touched = {};
  }
  touched_.clear();
}

memory::cell& memory::at(std::uintptr_t granule_address) {
  cell& found = cells_[granule_address];
  if (!found.touched) touched_.emplace_back(granule_address, &found);
  found.touched = true;
  return found;
}

template <class Visit>
void memory::for_each_granule(void const* address, std::size_t bytes, Visit&& visit) {
  auto const begin = reinterpret_cast<std::uintptr_t>(address);
  for (std::uintptr_t a = begin / sizeof(granule) * sizeof(granule); a < begin + bytes; a += sizeof(granule)) visit(a);
}

bool memory::races(void const* address, std::size_t bytes, manner how, int thread, prefix const& known) {
  auto const self = static_cast<std::size_t>(thread);
  bool found = false;
  auto const meet = [&](prefix const& others) {
    for (std::size_t t = 0; t < known.size(); ++t)
      if (t != self && others[t] > known[t]) found = true;
  };
  for_each_granule(address, bytes, [&](std::uintptr_t a) {
    cell& c = at(a);
    if (how.writes && !c.kept) {
      std::memcpy(&c.before, reinterpret_cast<void const*>(a), sizeof(granule));
      c.kept = true;
    }
    meet(c.written);
    if (how.writes) meet(c.read);
    if (!how.atomic) meet(c.written_atomically);
    if (!how.atomic && how.writes) meet(c.read_atomically);
    prefix& own = how.atomic   ? (how.writes ? c.written_atomically : c.read_atomically)
                  : how.writes ? c.written
                               : c.read;
    own[self] = static_cast<std::uint16_t>(known[self] + 1);
  });
  return found;
}

}  // namespace tutti::testing::explore
