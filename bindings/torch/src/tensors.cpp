// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tensors.hpp"

#include <ATen/MemoryOverlap.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace tutti_torch {

std::span<std::byte> bytes(at::Tensor const& t) { return {static_cast<std::byte*>(t.data_ptr()), t.nbytes()}; }

bool overlap(at::Tensor const& a, at::Tensor const& b) {
  std::less<> const before;
  return !bytes(a).empty() && !bytes(b).empty() && before(bytes(a).data(), bytes(b).data() + b.nbytes()) &&
         before(bytes(b).data(), bytes(a).data() + a.nbytes());
}
at::Tensor flat_copy(at::Tensor const& t) { return at::empty(t.sizes(), t.options()).copy_(t); }

void expect_on_host(at::Tensor const& t) {
  TORCH_CHECK(t.layout() == at::kStrided, "tutti: a tensor is sparse; pass a dense one");
  TORCH_CHECK(t.device().is_cpu(), "tutti: a tensor is on ", t.device(),
              ", but this backend takes CPU tensors; use \"cpu:tutti,cuda:nccl\" for both");
}

at::Tensor const& only(std::vector<at::Tensor> const& list) {
  TORCH_CHECK(list.size() == 1, "tutti: a call takes one tensor of each rank, but got ", list.size());
  return list.front();
}

void expect_blocks(char const* what, std::size_t given, int ranks) {
  TORCH_CHECK(given == static_cast<std::size_t>(ranks), "tutti: ", what, " has ", given, " tensors for ", ranks,
              " ranks; pass one for each rank");
}

void expect_equal_sizes(char const* what, std::vector<at::Tensor> const& list, at::Tensor const& other) {
  for (at::Tensor const& t : list)
    TORCH_CHECK(t.numel() == other.numel(), "tutti: ", what, " of tensors of ", t.numel(), " and ", other.numel(),
                " elements; pass tensors of one size");
}

std::vector<std::size_t> sizes_of(std::vector<at::Tensor> const& list) {
  std::vector<std::size_t> out;
  for (at::Tensor const& t : list) out.push_back(t.nbytes());
  return out;
}
bool all_equal(std::vector<std::size_t> const& sizes) {
  return std::ranges::adjacent_find(sizes, std::ranges::not_equal_to{}) == sizes.end();
}

std::vector<std::size_t> split_sizes(at::Tensor const& t, std::vector<std::int64_t> const& splits, int ranks,
                                     char const* what) {
  std::int64_t const rows = t.dim() == 0 ? 1 : t.size(0);
  std::vector<std::size_t> out;
  if (splits.empty()) {
    TORCH_CHECK(rows % ranks == 0, "tutti: the first dimension of the ", what, " of all_to_all_single is ", rows,
                ", which ", ranks, " ranks cannot share equally; pass split sizes");
    out.assign(static_cast<std::size_t>(ranks), t.nbytes() / static_cast<std::size_t>(ranks));
    return out;
  }
  expect_blocks("a list of split sizes of all_to_all_single", splits.size(), ranks);
  std::int64_t sum = 0;
  std::size_t const row = rows == 0 ? 0 : t.nbytes() / static_cast<std::size_t>(rows);
  for (std::int64_t const n : splits) {
    TORCH_CHECK(n >= 0, "tutti: a split size of all_to_all_single is ", n);
    sum += n;
    out.push_back(static_cast<std::size_t>(n) * row);
  }
  TORCH_CHECK(sum == rows, "tutti: the split sizes of the ", what, " of all_to_all_single add up to ", sum,
              ", but its first dimension is ", rows);
  return out;
}

namespace {

void expect_writable(at::Tensor const& t) {
  TORCH_CHECK(at::has_internal_overlap(t) != at::MemOverlap::Yes,
              "tutti: several elements of an output share their memory, as after expand(); pass a clone");
}

// Whether its elements are its memory, in order: those of a view by conj() are not conjugated there.
bool lies_flat(at::Tensor const& t) { return t.is_contiguous() && !t.is_conj() && !t.is_neg(); }

}  // namespace

at::Tensor staging::input(at::Tensor const& t) { return keep(lies_flat(expect_of_call(t)) ? t : flat_copy(t)); }

at::Tensor staging::input_beside(at::Tensor const& t, at::Tensor const& out, std::size_t first) {
  at::Tensor const from = input(t);
  auto const [larger, smaller] = from.nbytes() > out.nbytes() ? std::pair(from, out) : std::pair(out, from);
  bool const in_place = smaller.data_ptr() == static_cast<std::byte*>(larger.data_ptr()) + first;
  return in_place || !overlap(from, out) ? from : keep(flat_copy(from));
}

at::Tensor staging::output(at::Tensor const& t) {
  expect_writable(expect_of_call(t));
  call_.results.push_back(t);
  if (lies_flat(t)) return keep(t);
  return copied_at_end(at::empty(t.sizes(), t.options()), t);
}

at::Tensor staging::in_place(at::Tensor const& t) {
  expect_writable(expect_of_call(t));
  call_.results.push_back(t);
  if (lies_flat(t)) return keep(t);
  return copied_at_end(flat_copy(t), t);
}

at::Tensor staging::inputs(std::vector<at::Tensor> const& list) {
  std::vector<at::Tensor> flat;
  for (at::Tensor const& t : list) flat.push_back(expect_of_call(t).reshape({-1}));
  return keep(at::cat(flat));
}

at::Tensor staging::outputs(std::vector<at::Tensor> const& list) {
  TORCH_CHECK(!list.empty(), "tutti: a list of outputs is empty");
  std::int64_t count = 0;
  for (at::Tensor const& t : list) count += expect_of_call(t).numel();
  at::Tensor const flat = keep(at::empty({count}, list.front().options()));
  call_.results.insert(call_.results.end(), list.begin(), list.end());
  call_.finish = [flat, list, before = std::move(call_.finish)] {
    if (before) before();
    std::int64_t at = 0;
    for (at::Tensor const& t : list) {
      at::Tensor(t).copy_(flat.narrow(0, at, t.numel()).view(t.sizes()));
      at += t.numel();
    }
  };
  return flat;
}

at::Tensor const& staging::expect_of_call(at::Tensor const& t) {
  expect_on_host(t);
  if (!type_) type_ = t.scalar_type();
  TORCH_CHECK(*type_ == t.scalar_type(), "tutti: the tensors of a call have the types ", *type_, " and ",
              t.scalar_type(), "; pass tensors of one type");
  return t;
}

at::Tensor staging::keep(at::Tensor t) {
  call_.used.push_back(t);
  return t;
}

at::Tensor staging::copied_at_end(at::Tensor made, at::Tensor const& to) {
  call_.finish = [made, to, before = std::move(call_.finish)] {
    if (before) before();
    at::Tensor(to).copy_(made);
  };
  return keep(std::move(made));
}

}  // namespace tutti_torch
