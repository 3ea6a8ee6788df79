// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program's buffers as contiguous bytes: in place if they are dense, else packed by the MPI.
#pragma once

#include <cstddef>
#include <memory>
#include <mpi.h>
#include <optional>
#include <span>
#include <vector>

#include "collectives.hpp"
#include "datatypes.hpp"

namespace interpose {

// Whether a call reads a buffer, writes it, or both (in place).
enum class use { reads, writes, both };

// A datatype that the program may free while it is still in use.
class kept_type {
 public:
  kept_type(MPI_Datatype type, bool needed) {
    if (!needed) return;
    PMPI_Type_contiguous(1, type, &own_);  // a duplicate would call the program's functions for its attributes
    PMPI_Type_commit(&own_);
  }
  kept_type(kept_type const&) = delete;
  kept_type& operator=(kept_type const&) = delete;
  ~kept_type() {
    if (own_ != MPI_DATATYPE_NULL) PMPI_Type_free(&own_);
  }
  MPI_Datatype get() const { return own_; }

 private:
  MPI_Datatype own_ = MPI_DATATYPE_NULL;
};

// `count` elements.
class message {
 public:
  message(use how, void const* memory, std::size_t count, MPI_Datatype type);

  std::size_t size() const { return bytes_; }
  input read() const { return {data_, bytes_}; }
  output write() const { return {data_, bytes_}; }
  // Block `i` of `n` equal blocks.
  output block(int i, int n) const {
    std::size_t const bytes = bytes_ / static_cast<std::size_t>(n);
    return {data_ + bytes * static_cast<std::size_t>(i), bytes};
  }
  // The same where the call writes all blocks and reads this one.
  input read_block(int i, int n) const;
  // Unpacks the values to the program's buffer; called when the call is done.
  void deliver() const;

 private:
  std::byte* memory_;
  std::size_t count_;
  datatype known_;
  kept_type unpacked_as_;  // none if there is nothing to unpack
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> packed_;
  std::byte* data_;
};

// A block for each rank, given by counts and displacements in elements. Without displacements, blocks are adjacent.
class blocks {
 public:
  blocks(use how, void const* memory, int ranks, int const* counts, int const* displacements, MPI_Datatype type);

  sizes counts() const { return counts_; }
  sizes offsets() const { return offsets_; }
  input read() const { return {data_, bytes_}; }
  output write() const { return {data_, bytes_}; }
  output block(int i) const {
    auto const at = static_cast<std::size_t>(i);
    return {data_ + offsets_[at], counts_[at]};
  }
  // The same where the call writes all blocks and reads this one.
  input read_block(int i) const;
  void deliver() const;

 private:
  std::size_t elements(std::size_t block) const;

  datatype known_;
  kept_type unpacked_as_;
  std::vector<std::size_t> counts_, offsets_;  // bytes
  std::vector<std::byte*> places_;             // in the program's memory
  std::unique_ptr<std::byte[]> packed_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A copy of the input if it lies between blocks that are written, which MPI allows and tutti does not.
class apart {
 public:
  apart(input in, output out);
  input read() const { return in_; }

 private:
  std::unique_ptr<std::byte[]> copy_;
  input in_;
};

// Keeps the objects that a call refers to until the call has ended.
class keepsakes {
 public:
  std::size_t bytes = 0;  // of this rank's part

  message const& add(use how, void const* memory, std::size_t count, MPI_Datatype type) {
    return (messages_[0] ? messages_[1] : messages_[0]).emplace(how, memory, count, type);
  }
  blocks const& add(use how, void const* memory, int ranks, int const* counts, int const* displacements,
                    MPI_Datatype type) {
    return (blocks_[0] ? blocks_[1] : blocks_[0]).emplace(how, memory, ranks, counts, displacements, type);
  }
  input add_apart(input in, output out) { return apart_.emplace(in, out).read(); }
  // Separate memory for a result that MPI places at the start of the input, which tutti still reads.
  output add_result(input in, output out);

  // Unpacks all that was received to the program's buffers.
  void deliver() const;

 private:
  std::optional<message> messages_[2];
  std::optional<blocks> blocks_[2];
  std::optional<apart> apart_;
  std::unique_ptr<std::byte[]> result_;
  output result_to_;
};

}  // namespace interpose
