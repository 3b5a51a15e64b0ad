"""The numbers of an output comparison on a GPU, in one pass over the three tensors.

Written as torch operators they take some forty passes in fp64, which on tensors of gigabytes is most of a verdict's device time.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from bottega.runtime.launch import cuda

THREADS = 256
MOST_BLOCKS = 2048
TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
COLUMNS = 8
"""Numbers of one block: three sums of squares, two largest errors in units of the tolerance and where the candidate's is, how many elements
are nonfinite where they must not be, and the first of them."""

SOURCE = """
__device__ double load(const void* values, int type, long long i) {
    if (type == 0) return ((const float*)values)[i];
    if (type == 1) return ((const double*)values)[i];
    unsigned short bits = ((const unsigned short*)values)[i];
    if (type == 2) return __uint_as_float((unsigned int)bits << 16);
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
}

__device__ bool finite(double x) { return fabs(x) <= 1.7976931348623157e308; }
__device__ bool alike(double x, double y) { return x == y || (x != x && y != y); }

extern "C" __global__ void __launch_bounds__(256) compare_outputs(
    const void* got, int got_type, const void* reference, int reference_type, const void* truth, int truth_type,
    long long count, double scale, double limit, double* rows)
{
    double sums[3] = {0.0, 0.0, 0.0}, own_worst = 0.0, worst = -1.0, bad = 0.0;
    long long worst_at = count, first = count;
    double largest = got_type == 1 ? 1.7976931348623157e308 : got_type == 2 ? 3.3895313892515355e38 : got_type == 3 ? 65504.0 : 3.4028234663852886e38;
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
        double g = load(got, got_type, i), r = load(reference, reference_type, i), t = load(truth, truth_type, i);
        bool agree = alike(g, t) || (finite(g) && finite(t));
        /* Where fp64 stays finite and the reference does not, the reference is right, and so is whoever comes near to the truth. */
        if (!finite(r) && finite(t)) {
            double nearest = fmin(fmax(t, -largest), largest);
            agree = alike(g, r) || fabs(g - nearest) <= 0.1 * (fabs(nearest) + scale);
        }
        if (!agree) { bad += 1.0; if (i < first) first = i; }
        if (!(finite(g) && finite(t) && finite(r))) g = r = t = 0.0;
        double error = fabs(g - t), own = fabs(r - t), allowed = (fabs(t) + scale) * limit + 1e-30;
        sums[0] += t * t; sums[1] += error * error; sums[2] += own * own;
        own_worst = fmax(own_worst, own / allowed);
        if (error / allowed > worst) { worst = error / allowed; worst_at = i; }
    }
    __shared__ double numbers[256][6];
    __shared__ long long places[256][2];
    double* mine = numbers[threadIdx.x];
    long long* at = places[threadIdx.x];
    mine[0] = sums[0]; mine[1] = sums[1]; mine[2] = sums[2]; mine[3] = own_worst; mine[4] = worst; mine[5] = bad;
    at[0] = worst_at; at[1] = first;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            double* other = numbers[threadIdx.x + half];
            long long* there = places[threadIdx.x + half];
            mine[0] += other[0]; mine[1] += other[1]; mine[2] += other[2]; mine[5] += other[5];
            mine[3] = fmax(mine[3], other[3]);
            if (other[4] > mine[4]) { mine[4] = other[4]; at[0] = there[0]; }
            if (there[1] < at[1]) at[1] = there[1];
        }
    }
    if (threadIdx.x != 0) return;
    double* row = rows + blockIdx.x * 8;
    row[0] = mine[0]; row[1] = mine[1]; row[2] = mine[2]; row[3] = mine[3]; row[4] = mine[4];
    row[5] = (double)at[0]; row[6] = mine[5]; row[7] = (double)at[1];
}
"""


def can_fuse(*tensors: torch.Tensor) -> bool:
    return all(each.is_cuda and each.dtype in TYPES for each in tensors)


def fused_row(
    got: torch.Tensor, reference: torch.Tensor, truth: torch.Tensor, scale: float, limit: float
) -> list[torch.Tensor]:
    """What `OutputComparison` reckons with for flat, contiguous tensors, as numbers that are still on the device: squares of truth, error and
    own error; the largest own error; of the worst element its place, error, truth and value; of elements that are nonfinite where they must
    not be how many there are, and place, truth and value of the first."""
    count = got.numel()
    blocks = min(MOST_BLOCKS, -(-count // THREADS))
    rows = torch.empty(blocks, COLUMNS, dtype=torch.float64, device=got.device)
    _kernel()(
        blocks,
        THREADS,
        *(part for each in (got, reference, truth) for part in (each, TYPES[each.dtype])),
        count,
        scale,
        limit,
        rows,
    )
    squares, own_worst = rows[:, :3].sum(0), rows[:, 3].max()
    best = rows.index_select(0, rows[:, 4].argmax().view(1)).view(-1)
    worst, bad = best[5:6].long(), rows[:, 6].sum()
    first = rows[:, 7].min().view(1).long().remainder_(count)  # none is found: the first element stands for it
    of_worst = [worst, best[4], truth.index_select(0, worst), got.index_select(0, worst)]
    return [*squares.unbind(), own_worst, *of_worst, bad, first, truth.index_select(0, first), got.index_select(0, first)]


@functools.cache
def _kernel() -> Any:
    return cuda(SOURCE).compare_outputs
