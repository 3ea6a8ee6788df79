// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packing by the MPI. Among ranks of one machine, packed data are the values in their order.
#include "messages.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "binding.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace interpose {
namespace {

std::byte* writable(void const* memory) { return static_cast<std::byte*>(const_cast<void*>(memory)); }

std::unique_ptr<std::byte[]> room_for(std::size_t bytes) { return std::make_unique_for_overwrite<std::byte[]>(bytes); }

// Calls f(memory, packed, elements, bytes) for parts of `count` elements whose size in bytes fits an int.
template <class F>
void in_parts(std::byte* memory, std::byte* packed, std::size_t count, datatype const& known, F&& f) {
  constexpr std::size_t most = std::size_t{1} << 30;
  if (known.size > most)
    throw tutti::error({.code = tutti::error_code::bad_argument,
                        .what = tutti::detail::join({"an MPI datatype of ", known.size, " bytes with gaps"}),
                        .way_out = "use more elements of a smaller type"});
  if (known.size == 0) return;
  for (std::size_t begin = 0; begin < count; begin += most / known.size) {
    std::size_t const n = std::min(count - begin, most / known.size);
    f(memory + static_cast<MPI_Aint>(begin) * known.extent, packed + begin * known.size, static_cast<int>(n),
      static_cast<int>(n * known.size));
  }
}

// MPI_BOTTOM and a type of absolute addresses. MPICH's MPI_Pack refuses it, so this stands for the same memory by another
// address and a type that is displaced.
class placed {
 public:
  placed(std::byte* memory, MPI_Datatype type) : memory_(memory), type_(type) {
    if (memory != MPI_BOTTOM) return;
    constexpr MPI_Aint elsewhere = 4096;
    MPI_Aint const back = -elsewhere;
    int const one = 1;
    PMPI_Type_create_hindexed(1, &one, &back, type, &own_);
    PMPI_Type_commit(&own_);
    memory_ = reinterpret_cast<std::byte*>(elsewhere);
    type_ = own_;
  }
  placed(placed const&) = delete;
  placed& operator=(placed const&) = delete;
  ~placed() {
    if (own_ != MPI_DATATYPE_NULL) PMPI_Type_free(&own_);
  }
  std::byte* memory() const { return memory_; }
  MPI_Datatype type() const { return type_; }

 private:
  std::byte* memory_;
  MPI_Datatype type_, own_ = MPI_DATATYPE_NULL;
};

void pack(placed const& what, std::byte* packed, std::size_t count, datatype const& known) {
  in_parts(what.memory(), packed, count, known, [&](std::byte* from, std::byte* to, int n, int bytes) {
    int position = 0;
    if (PMPI_Pack(from, n, what.type(), to, bytes, &position, quiet_communicator()) != MPI_SUCCESS || position != bytes)
      throw tutti::error({.code = tutti::error_code::system,
                          .what = tutti::detail::join({"MPI_Pack produced ", position, " bytes of ", bytes}),
                          .way_out = "run this program without libtutti-mpi.so"});
  });
}
void unpack(std::byte* packed, placed const& what, std::size_t count, datatype const& known) {
  in_parts(what.memory(), packed, count, known, [&](std::byte* to, std::byte* from, int n, int bytes) {
    int position = 0;
    PMPI_Unpack(from, bytes, &position, to, n, what.type(), quiet_communicator());
  });
}

}  // namespace

message::message(use how, void const* memory, std::size_t count, MPI_Datatype type)
    : memory_(writable(memory)),
      count_(count),
      known_(look_up(type)),
      unpacked_as_(type, !known_.dense && how != use::reads),
      bytes_(count * known_.size),
      packed_(known_.dense ? nullptr : room_for(bytes_)),
      data_(known_.dense ? memory_ : packed_.get()) {
  if (!known_.dense && how != use::writes) pack({memory_, type}, data_, count_, known_);
}

input message::read_block(int i, int n) const {
  output const own = block(i, n);
  if (!known_.dense) {
    std::size_t const count = count_ / static_cast<std::size_t>(n);
    MPI_Aint const begin = static_cast<MPI_Aint>(count) * i * known_.extent;
    pack({memory_ + begin, unpacked_as_.get()}, own.data(), count, known_);
  }
  return own;
}

void message::deliver() const {
  if (MPI_Datatype const type = unpacked_as_.get(); type != MPI_DATATYPE_NULL)
    unpack(data_, {memory_, type}, count_, known_);
}

blocks::blocks(use how, void const* memory, int ranks, int const* counts, int const* displacements, MPI_Datatype type)
    : known_(look_up(type)), unpacked_as_(type, !known_.dense && how != use::reads) {
  MPI_Aint lowest = 0, next = 0;
  std::vector<MPI_Aint> begins;
  for (int q = 0; q < ranks; ++q) {
    MPI_Aint const begin = displacements != nullptr ? displacements[q] : next;
    next = begin + counts[q];
    begins.push_back(begin);
    places_.push_back(writable(memory) + begin * known_.extent);
    counts_.push_back(static_cast<std::size_t>(counts[q]) * known_.size);
    if (counts[q] > 0) lowest = std::min(lowest, begin);
  }
  for (std::size_t q = 0; q < counts_.size(); ++q) {
    bool const placed = known_.dense && counts_[q] > 0;
    offsets_.push_back(placed         ? static_cast<std::size_t>((begins[q] - lowest) * known_.extent)
                       : known_.dense ? 0
                                      : bytes_);
    bytes_ = std::max(bytes_, offsets_[q] + counts_[q]);
  }
  if (known_.dense) {
    data_ = writable(memory) + lowest * known_.extent;
    return;
  }
  packed_ = room_for(bytes_);
  data_ = packed_.get();
  for (std::size_t q = 0; q < counts_.size() && how != use::writes; ++q)
    pack({places_[q], type}, data_ + offsets_[q], elements(q), known_);
}

std::size_t blocks::elements(std::size_t block) const { return counts_[block] / std::max<std::size_t>(known_.size, 1); }

input blocks::read_block(int i) const {
  auto const at = static_cast<std::size_t>(i);
  if (!known_.dense) pack({places_[at], unpacked_as_.get()}, data_ + offsets_[at], elements(at), known_);
  return block(i);
}

void blocks::deliver() const {
  MPI_Datatype const type = unpacked_as_.get();
  for (std::size_t q = 0; q < counts_.size() && type != MPI_DATATYPE_NULL; ++q)
    unpack(data_ + offsets_[q], {places_[q], type}, elements(q), known_);
}

apart::apart(input in, output out) : in_(in) {
  auto const a = reinterpret_cast<std::uintptr_t>(in.data()), b = reinterpret_cast<std::uintptr_t>(out.data());
  if (in.empty() || a + in.size() <= b || b + out.size() <= a) return;
  copy_ = room_for(in.size());
  std::memcpy(copy_.get(), in.data(), in.size());
  in_ = {copy_.get(), in.size()};
}

output keepsakes::add_result(input in, output out) {
  if (in.data() != out.data() || out.empty()) return out;
  result_ = room_for(out.size());
  result_to_ = out;
  return {result_.get(), out.size()};
}

void keepsakes::deliver() const {
  for (auto const& m : messages_)
    if (m) m->deliver();
  for (auto const& b : blocks_)
    if (b) b->deliver();
  if (result_) std::memcpy(result_to_.data(), result_.get(), result_to_.size());
}

}  // namespace interpose
