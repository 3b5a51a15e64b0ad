"""Cross entropy against classes, with weights and smoothed labels: rows of classes like softmax's, or planes of places over classes.

A loss for each row first, then their sum; a mean is by the weights of the rows' classes.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program
from bottega.compiler.library.triton.softmax import (
    SOFTMAX_BLOCK,
    SOFTMAX_HELD,
    SOFTMAX_TILE,
    SOFTMAX_WARPS,
    softmax_fold,
    softmax_sweep,
)
from bottega.compiler.library.triton.sweeps import sweep_chunks, sweep_warps, sweepable

CROSS_ENTROPY_BLOCK = 8192


@triton.jit
def cross_entropy_even(v, spread, weight_ptr, c, mask):
    """Of each element how far it lies below the logarithm of the sum, by its class's weight: both above the row's top, of which
    large scores would leave nothing."""
    apart = tl.where(mask, spread - v, 0.0)
    if weight_ptr is not None:
        apart = apart * tl.load(weight_ptr + c, mask=mask, other=0.0).to(tl.float32)
    return apart


@triton.jit
def cross_entropy_rest(loss_ptr, weight_ptr, row, target, wanted, spread, even, inside, ignored, smoothing, size, rows,
                       SMOOTH: tl.constexpr, MEAN: tl.constexpr):  # fmt: skip
    """The loss of rows, and behind all losses their weights where a mean is wanted."""
    kept = inside & (target != ignored)
    gain = tl.where(kept, 1.0, 0.0)
    if weight_ptr is not None:
        gain = tl.load(weight_ptr + target, mask=kept, other=0.0).to(tl.float32)
    loss = gain * (spread - wanted)
    if SMOOTH:
        loss = loss * (1.0 - smoothing) + even * (smoothing / size)
    tl.store(loss_ptr + row, tl.where(kept, loss, 0.0), mask=inside)
    if MEAN:
        tl.store(loss_ptr + rows + row, gain, mask=inside)


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, weight_ptr, loss_ptr, rows, size, ignored, smoothing, SMOOTH: tl.constexpr,
                         MEAN: tl.constexpr, HELD: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
                         LARGE: tl.constexpr):  # fmt: skip
    even = 0.0
    if HELD:
        row = index_program(0, LARGE) * ROWS + index_lanes(ROWS, LARGE)
        at = index_lanes(BLOCK, LARGE)[None, :]
        mask = (row[:, None] < rows) & (at < size)
        v = tl.load(x_ptr + row[:, None] * size + at, mask=mask, other=float("-inf")).to(tl.float32)
        most = tl.max(v, axis=1)
        spread = tl.log(tl.sum(tl.exp(v - most[:, None]), axis=1))
        if SMOOTH:
            even = tl.sum(cross_entropy_even(v - most[:, None], spread[:, None], weight_ptr, at, mask), axis=1)
    else:
        row = index_program(0, LARGE)
        most, total = softmax_sweep(x_ptr + row * size, 0, size, BLOCK)
        spread = tl.log(total)
        if SMOOTH:
            apart = tl.zeros((BLOCK,), tl.float32)
            for start in range(0, size, BLOCK):
                c = start + index_lanes(BLOCK, LARGE)
                v = tl.load(x_ptr + row * size + c, mask=c < size, other=0.0).to(tl.float32)
                apart += cross_entropy_even(v - most, spread, weight_ptr, c, c < size)
            even = tl.sum(apart, axis=0)
    inside = row < rows
    target = tl.load(target_ptr + row, mask=inside, other=ignored)
    wanted = tl.load(x_ptr + row * size + target, mask=inside & (target != ignored), other=0.0).to(tl.float32) - most
    cross_entropy_rest(
        loss_ptr, weight_ptr, row, target, wanted, spread, even, inside, ignored, smoothing, size, rows, SMOOTH, MEAN
    )


@triton.jit
def cross_entropy_columns_kernel(x_ptr, target_ptr, weight_ptr, loss_ptr, rows, size, inner, blocks, ignored, smoothing,
                                 SMOOTH: tl.constexpr, MEAN: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr,
                                 LARGE: tl.constexpr):  # fmt: skip
    place = index_program(0, LARGE) % blocks * WIDE + index_lanes(WIDE, LARGE)
    outer, inside = index_program(0, LARGE) // blocks, place < inner
    x_ptr += outer * size * inner
    r = index_lanes(TALL, LARGE)[:, None]
    top = tl.full((TALL, WIDE), -3.4028234663852886e38, tl.float32)
    sums = tl.zeros((TALL, WIDE), tl.float32)
    for start in range(0, size, TALL):
        mask = (start + r < size) & inside[None, :]
        v = tl.load(x_ptr + (start + r) * inner + place[None, :], mask=mask, other=float("-inf")).to(tl.float32)
        top, sums = softmax_fold(top, sums, v)
    most = tl.max(top, axis=0)
    spread = tl.log(tl.sum(sums * tl.exp(top - most[None, :]), axis=0))
    even = 0.0
    if SMOOTH:
        apart = tl.zeros((TALL, WIDE), tl.float32)
        for start in range(0, size, TALL):
            mask = (start + r < size) & inside[None, :]
            v = tl.load(x_ptr + (start + r) * inner + place[None, :], mask=mask, other=0.0).to(tl.float32)
            apart += cross_entropy_even(v - most[None, :], spread[None, :], weight_ptr, start + r, mask)
        even = tl.sum(apart, axis=0)
    row = outer * inner + place
    target = tl.load(target_ptr + row, mask=inside, other=ignored)
    wanted = tl.load(x_ptr + target * inner + place, mask=inside & (target != ignored), other=0.0).to(tl.float32) - most
    cross_entropy_rest(
        loss_ptr, weight_ptr, row, target, wanted, spread, even, inside, ignored, smoothing, size, rows, SMOOTH, MEAN
    )


@triton.jit
def cross_entropy_sum_kernel(loss_ptr, out_ptr, rows, chunk, MEAN: tl.constexpr, PART: tl.constexpr, BLOCK: tl.constexpr,
                             LARGE: tl.constexpr):  # fmt: skip
    at = index_lanes(BLOCK, LARGE)
    total = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    first = index_program(0, LARGE) * chunk
    last = tl.minimum(first + chunk, rows)
    for start in range(first, last, BLOCK):
        mask = start + at < last
        total += tl.load(loss_ptr + start + at, mask=mask, other=0.0)
        if MEAN:
            count += tl.load(loss_ptr + rows + start + at, mask=mask, other=0.0)
    found = tl.sum(total, axis=0)
    if PART:
        tl.store(out_ptr + tl.num_programs(0) + index_program(0, LARGE), tl.sum(count, axis=0))
    elif MEAN:
        found = found / tl.sum(count, axis=0)
    tl.store(out_ptr + index_program(0, LARGE), found)


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0, *, own=None,
    rows=None, block=None, warps=None,
):  # fmt: skip
    """torch.nn.functional.cross_entropy."""
    axis = min(1, input.dim() - 1)
    fits = input.dim() > 0 and target.shape == input.shape[:axis] + input.shape[axis + 1 :] and target.dtype == torch.int64
    fits = fits and (weight is None or (weight.shape == input.shape[axis : axis + 1] and weight.dtype == input.dtype))
    fits = fits and reduction in ("mean", "sum", "none") and size_average is None and reduce is None
    if own is False or not fits or not 0.0 <= label_smoothing <= 1.0 or not sweepable(input, target, weight):
        return torch.nn.functional.cross_entropy(
            input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing
        )  # fmt: skip
    x, target, weight = input.contiguous(), target.contiguous(), None if weight is None else weight.contiguous()
    each, rows = rows, target.numel()
    size, inner = x.shape[axis], x.shape[2:].numel()
    mean = reduction == "mean"
    loss = torch.empty((1 + mean, rows), dtype=x.dtype if reduction == "none" else torch.float32, device=x.device)
    large = index_is_large(x, loss)
    options = {"SMOOTH": label_smoothing > 0, "MEAN": mean, "LARGE": large}
    if inner > 1:
        tall = min(64, triton.next_power_of_2(size))
        wide = min(triton.next_power_of_2(inner), max(16, (block or SOFTMAX_TILE) // tall))
        blocks = triton.cdiv(inner, wide)
        cross_entropy_columns_kernel[(x.shape[0] * blocks,)](
            x, target, weight, loss, rows, size, inner, blocks, ignore_index, float(label_smoothing), **options, TALL=tall, WIDE=wide,
            num_warps=warps or (4 if tall * wide <= 2048 else 8),
        )  # fmt: skip
    else:
        held = size <= (SOFTMAX_HELD if block is None else block)
        block = triton.next_power_of_2(size) if held else block or SOFTMAX_BLOCK
        tall = each or max(1, min(2048 // block, triton.next_power_of_2(triton.cdiv(rows, 264))))
        tall = tall if held else 1
        cross_entropy_kernel[(triton.cdiv(rows, tall),)](
            x, target, weight, loss, rows, size, ignore_index, float(label_smoothing), **options, HELD=held, ROWS=tall, BLOCK=block,
            num_warps=warps or (sweep_warps(tall * block) if held else SOFTMAX_WARPS),
        )  # fmt: skip
    if reduction == "none":
        return loss.view(target.shape)
    out = torch.empty((), dtype=x.dtype, device=x.device)
    block = min(CROSS_ENTROPY_BLOCK, triton.next_power_of_2(rows))
    if rows > 4 * block:
        chunk, parts = sweep_chunks(1, rows, block)
        some = torch.empty((2, parts), dtype=torch.float32, device=x.device)
        cross_entropy_sum_kernel[(parts,)](
            loss, some, rows, chunk, MEAN=mean, PART=True, BLOCK=block, LARGE=large, num_warps=16
        )  # fmt: skip
        loss, rows, block = some, parts, triton.next_power_of_2(parts)
    cross_entropy_sum_kernel[(1,)](loss, out, rows, rows, MEAN=mean, PART=False, BLOCK=block, LARGE=large, num_warps=16)
    return out
