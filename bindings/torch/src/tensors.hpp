// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tensors of a call: what they must be, and those that take their place.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "call.hpp"

namespace tutti_torch {

std::span<std::byte> bytes(at::Tensor const& t);
inline std::span<std::byte const> input_bytes(at::Tensor const& t) { return bytes(t); }
bool overlap(at::Tensor const& a, at::Tensor const& b);
at::Tensor flat_copy(at::Tensor const& t);

void expect_on_host(at::Tensor const& t);
at::Tensor const& only(std::vector<at::Tensor> const& list);
void expect_blocks(char const* what, std::size_t given, int ranks);
void expect_equal_sizes(char const* what, std::vector<at::Tensor> const& list, at::Tensor const& other);

std::vector<std::size_t> sizes_of(std::vector<at::Tensor> const& list);
bool all_equal(std::vector<std::size_t> const& sizes);
// The bytes of each rank's part of a tensor that is split along its first dimension.
std::vector<std::size_t> split_sizes(at::Tensor const& t, std::vector<std::int64_t> const& splits, int ranks,
                                     char const* what);

// Tensors that lie flat in place of those of a call, which live until its end.
class staging {
 public:
  explicit staging(call& of) : call_(of) {}

  at::Tensor input(at::Tensor const& t);
  // One that shares no memory with the output, but for the block from `first` on, which a call may have in place.
  at::Tensor input_beside(at::Tensor const& t, at::Tensor const& out, std::size_t first);
  // What the call writes is copied to `t` at its end if `t` is not contiguous.
  at::Tensor output(at::Tensor const& t);
  at::Tensor in_place(at::Tensor const& t);
  // One after another.
  at::Tensor inputs(std::vector<at::Tensor> const& list);
  at::Tensor outputs(std::vector<at::Tensor> const& list);

 private:
  at::Tensor const& expect_of_call(at::Tensor const& t);
  at::Tensor keep(at::Tensor t);
  at::Tensor copied_at_end(at::Tensor made, at::Tensor const& to);

  call& call_;
  std::optional<at::ScalarType> type_;
};

}  // namespace tutti_torch
