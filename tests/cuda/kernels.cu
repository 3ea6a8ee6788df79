// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels that kernels.cpp examines: every kind that the library launches, and one that must fail the checks.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "tutti/cuda_rows.cuh"
#include "tutti/window.cuh"

namespace {

using namespace tutti;
using namespace tutti::detail;

static_assert(element<__half> && element<__nv_bfloat16> && element<__nv_fp8_e4m3> && element<__nv_fp8_e5m2>);

template <int FanIn, class In, class Out = In, class Fused = fused<sum>>
using pass = detail::combine_pass<FanIn, In const*, Out, Fused>;
template <collective C, class T, class Fused = fused<sum>, class Blocks = even_blocks>
using jobs = detail::local_work<C, T, Fused, Blocks>;

template <collective C, class T, class Op, class Reach = one_device>
using packets = detail::packet_work<C, T, Op, Reach>;
template <class Algorithm, collective C = collective::all_reduce, class T = float, class Op = sum,
          class Reach = one_device>
using steps = detail::steps_work<C, schedule<Algorithm, C>, T, Op, Reach>;

template <class In, class Out = In, class Fused = fused<sum>, class Wire = as_they_are>
using shots = detail::shots_work<In, Out, Fused, Wire>;

// Normalises rows, with weights: adds them to a residual, or gives each a scale.
using norm = decltype(with_columns(rms_norm{}, static_cast<tutti::bfloat16*>(nullptr)));
using norm_and_residual = rows_of<decltype(with_residual(norm{}, static_cast<tutti::bfloat16*>(nullptr)))>;
using norm_and_scales = rows_of<decltype(with_row_scales(norm{}, nullptr))>;
template <class Out, class Rows>
using rows = detail::rows_work<tutti::bfloat16, Out, fused<sum>, Rows>;
template <class Out, class Rows>
using shots_of_rows = detail::shots_work<tutti::bfloat16, Out, fused<sum>, as_they_are, Rows>;

template <class Work>
constexpr auto kernel = &detail::run_work<Work>;
template <class Work>
constexpr auto guarded = &detail::run_work_unless<detail::beating<Work>>;
template <class Work>
constexpr auto together = &detail::run_together<Work>;

// All calls of a kernel that communicates by itself.
template <class T>
__global__ void through_window(__grid_constant__ tutti::window<T> const shared, T const* from, T* to, std::size_t n,
                               int count) {
  tutti::window_block here(shared);
  int const next = (here.rank() + 1) % here.ranks();
  here.put(next, 0, from, n);
  here.signal(next);
  if (!here.wait(next) || !here.barrier()) return;
  here.get(next, 0, to, n);
  T sum{};
  static_cast<void>(here.exchange(
      count, [&](int, int i) { return from[i]; },
      [&](int rank, int i, T x) { to[i] = sum = rank == 0 ? x : sum + x; }));
}

// The index is known only at launch, so the array cannot be in registers.
struct spilling {
  int which[8];
  float* out;

  template <class Group>
  __device__ void operator()(Group group) const {
    float values[64];
    for (int i = 0; i < 64; ++i) values[i] = out[i + group.rank()];
    for (int const k : which) values[k] += values[k ^ 1];
    for (int const k : which) out[k] = values[(k * 7) & 63];
  }
};

}  // namespace

// Kernels that the host refers to are compiled for the device.
extern void const* const kernels[];
void const* const kernels[] = {
    reinterpret_cast<void const*>(kernel<detail::word_copy>),
    reinterpret_cast<void const*>(kernel<pass<1, float>>),
    reinterpret_cast<void const*>(kernel<pass<2, float>>),
    reinterpret_cast<void const*>(kernel<pass<4, float>>),
    reinterpret_cast<void const*>(kernel<pass<8, float>>),
    reinterpret_cast<void const*>(kernel<pass<0, float>>),
    reinterpret_cast<void const*>(kernel<pass<2, tutti::bfloat16>>),
    reinterpret_cast<void const*>(kernel<pass<8, tutti::bfloat16>>),
    reinterpret_cast<void const*>(kernel<pass<8, tutti::half>>),
    reinterpret_cast<void const*>(kernel<pass<4, __half>>),
    reinterpret_cast<void const*>(kernel<pass<4, __nv_fp8_e4m3>>),
    reinterpret_cast<void const*>(kernel<pass<2, float8_e4m3>>),
    reinterpret_cast<void const*>(kernel<pass<8, float8_e5m2>>),
    reinterpret_cast<void const*>(kernel<pass<2, float8_e4m3, float>>),
    reinterpret_cast<void const*>(
        kernel<pass<4, detail::complex_parts<float>, detail::complex_parts<float>, fused<product>>>),
    reinterpret_cast<void const*>(kernel<pass<8, tutti::bfloat16, float, fused<sum, unchanged, scale<float>>>>),
    reinterpret_cast<void const*>(
        kernel<pass<4, tutti::bfloat16, tutti::bfloat16, fused<sum, scale<float>, arrays_step<adam_step, float, 3>>>>),
    reinterpret_cast<void const*>(
        kernel<pass<4, float, float,
                    fused<sum, stage_in_memory<scale<float>>, arrays_step<stage_in_memory<adam_step>, float, 3>>>>),
    reinterpret_cast<void const*>(kernel<jobs<collective::reduce_scatter, float>>),
    reinterpret_cast<void const*>(kernel<jobs<collective::scan, float>>),
    reinterpret_cast<void const*>(kernel<jobs<collective::all_gather, std::uint32_t, fused<bit_or>>>),
    reinterpret_cast<void const*>(kernel<jobs<collective::all_to_all, std::uint32_t, fused<bit_or>>>),
    reinterpret_cast<void const*>(kernel<jobs<collective::reduce_scatter, float, fused<sum>, ragged_blocks>>),
    reinterpret_cast<void const*>(kernel<jobs<collective::all_gather, std::uint32_t, fused<bit_or>, ragged_blocks>>),
    reinterpret_cast<void const*>(kernel<block_moves<std::uint32_t>>),
    reinterpret_cast<void const*>(guarded<block_moves<std::uint32_t>>),
    reinterpret_cast<void const*>(guarded<pass<2, float>>),
    reinterpret_cast<void const*>(guarded<pass<0, float>>),
    reinterpret_cast<void const*>(together<packets<collective::all_reduce, float, sum>>),
    reinterpret_cast<void const*>(together<packets<collective::all_reduce, float, sum, several_devices>>),
    reinterpret_cast<void const*>(together<packets<collective::all_reduce, float, sum, several_processes>>),
    reinterpret_cast<void const*>(together<packets<collective::all_reduce, tutti::bfloat16, mean>>),
    reinterpret_cast<void const*>(together<packets<collective::all_to_all, std::uint32_t, bit_or, several_processes>>),
    reinterpret_cast<void const*>(together<shots<float>>),
    reinterpret_cast<void const*>(together<shots<tutti::bfloat16>>),
    reinterpret_cast<void const*>(together<shots<tutti::bfloat16, tutti::bfloat16, fused<in_any_order<sum>>>>),
    reinterpret_cast<void const*>(
        together<shots<tutti::bfloat16, float, fused<sum, scale<float>, arrays_step<adam_step, float, 3>>>>),
    reinterpret_cast<void const*>(
        together<
            shots<tutti::bfloat16, float, fused<sum, scale<float>, arrays_step<adam_step, float, 3, held::shard>>>>),
    reinterpret_cast<void const*>(together<shots<float, float, fused<sum>, tutti::bfloat16>>),
    reinterpret_cast<void const*>(together<shots<float, float, fused<sum>, block_scaled<float8_e4m3>>>),
    reinterpret_cast<void const*>(
        together<shots<float, tutti::bfloat16, fused<sum, scale<float>, arrays_step<adam_step, float, 3, held::shard>>,
                       block_scaled<float8_e5m2, 512>>>),
    reinterpret_cast<void const*>(together<squares_work<tutti::bfloat16>>),
    reinterpret_cast<void const*>(together<norm_work>),
    reinterpret_cast<void const*>(together<rows<tutti::bfloat16, norm_and_residual>>),
    reinterpret_cast<void const*>(together<rows<float8_e4m3, norm_and_scales>>),
    reinterpret_cast<void const*>(together<shots_of_rows<tutti::bfloat16, norm_and_residual>>),
    reinterpret_cast<void const*>(together<shots_of_rows<float8_e4m3, norm_and_scales>>),
    reinterpret_cast<void const*>(together<steps<ring>>),
    reinterpret_cast<void const*>(together<steps<ring, collective::all_reduce, float, sum, several_devices>>),
    reinterpret_cast<void const*>(together<steps<ring, collective::all_reduce, float, sum, several_processes>>),
    reinterpret_cast<void const*>(together<steps<ring, collective::all_reduce, tutti::bfloat16, mean>>),
    reinterpret_cast<void const*>(together<steps<one_shot>>),
    reinterpret_cast<void const*>(together<steps<two_shot>>),
    reinterpret_cast<void const*>(together<steps<binomial_tree>>),
    reinterpret_cast<void const*>(
        together<steps<double_binary_tree, collective::all_reduce, float, sum, several_processes>>),
    reinterpret_cast<void const*>(together<steps<recursive_doubling>>),
    reinterpret_cast<void const*>(together<steps<recursive_halving>>),
    reinterpret_cast<void const*>(together<steps<ring, collective::scan, float, sum>>),
    reinterpret_cast<void const*>(together<steps<bruck, collective::all_to_all, std::uint32_t, bit_or>>),
    reinterpret_cast<void const*>(
        together<steps<pairwise, collective::all_to_all, std::uint32_t, bit_or, several_processes>>),
    reinterpret_cast<void const*>(&through_window<float>),
    reinterpret_cast<void const*>(kernel<spilling>),
};
