"""Softmax and its kin: short rows are held in registers; long ones are swept with a maximum and a sum for each lane, one exp an element."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program
from bottega.compiler.library.triton.sweeps import sweep_chunks, sweep_warps, sweepable
from bottega.compiler.library.triton.tiles import ALONE

SOFTMAX_HELD = 16384
SOFTMAX_BLOCK = 8192
SOFTMAX_WARPS = 32
SOFTMAX_FEW = 132
SOFTMAX_TILE = 4096


@triton.jit
def softmax_fold(top, total, v):
    near = tl.exp(-tl.abs(v - top))
    total = tl.where(v > top, total * near + 1.0, total + near)
    return tl.maximum(top, v), total


@triton.jit
def softmax_sweep(x_ptr, first, last, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -3.4028234663852886e38, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, last, BLOCK):
        v = tl.load(x_ptr + start + at, mask=start + at < last, other=float("-inf")).to(tl.float32)
        top, total = softmax_fold(top, total, v)
    most = tl.max(top, axis=0)
    return most, tl.sum(total * tl.exp(top - most), axis=0)


@triton.jit
def softmax_value(v, most, total, LOG: tl.constexpr):
    if LOG:
        return v - most - tl.log(total)
    else:
        return tl.exp(v - most) * (1.0 / total)


@triton.jit
def softmax_held_kernel(x_ptr, out_ptr, rows, size, LOG: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
                        LARGE: tl.constexpr):  # fmt: skip
    row = index_program(0, LARGE) * ROWS + index_lanes(ROWS, LARGE)[:, None]
    at = index_lanes(BLOCK, LARGE)[None, :]
    mask = (row < rows) & (at < size)
    v = tl.load(x_ptr + row * size + at, mask=mask, other=float("-inf")).to(tl.float32)
    most = tl.max(v, axis=1, keep_dims=True)
    power = tl.exp(v - most)
    total = tl.sum(power, axis=1, keep_dims=True)
    if LOG:
        tl.store(out_ptr + row * size + at, v - most - tl.log(total), mask=mask)
    else:
        tl.store(out_ptr + row * size + at, power * (1.0 / total), mask=mask)


@triton.jit
def softmax_long_kernel(x_ptr, out_ptr, size, LOG: tl.constexpr, BLOCK: tl.constexpr, LARGE: tl.constexpr):
    row, at = index_program(0, LARGE), index_lanes(BLOCK, LARGE)
    most, total = softmax_sweep(x_ptr + row * size, 0, size, BLOCK)
    for start in range(0, size, BLOCK):
        mask = start + at < size
        v = tl.load(x_ptr + row * size + start + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * size + start + at, softmax_value(v, most, total, LOG), mask=mask)


@triton.jit
def softmax_part_kernel(x_ptr, most_ptr, total_ptr, size, chunk, BLOCK: tl.constexpr, LARGE: tl.constexpr):
    row, part = index_program(0, LARGE), index_program(1, LARGE)
    most, total = softmax_sweep(x_ptr + row * size, part * chunk, tl.minimum(part * chunk + chunk, size), BLOCK)
    tl.store(most_ptr + row * tl.num_programs(1) + part, most)
    tl.store(total_ptr + row * tl.num_programs(1) + part, total)


@triton.jit
def softmax_join_kernel(
    x_ptr, most_ptr, total_ptr, out_ptr, size, chunk,
    LOG: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, LARGE: tl.constexpr,
):  # fmt: skip
    row, at, p = index_program(0, LARGE), index_lanes(BLOCK, LARGE), index_lanes(PARTS, LARGE)
    parts = tl.num_programs(1)
    tops = tl.load(most_ptr + row * parts + p, mask=p < parts, other=-3.4028234663852886e38)
    most = tl.max(tops, axis=0)
    total = tl.sum(tl.load(total_ptr + row * parts + p, mask=p < parts, other=0.0) * tl.exp(tops - most), axis=0)
    first = index_program(1, LARGE) * chunk
    last = tl.minimum(first + chunk, size)
    for start in range(first, last, BLOCK):
        mask = start + at < last
        v = tl.load(x_ptr + row * size + start + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * size + start + at, softmax_value(v, most, total, LOG), mask=mask)


@triton.jit
def softmax_columns_kernel(x_ptr, out_ptr, size, inner, blocks, LOG: tl.constexpr, HELD: tl.constexpr, TALL: tl.constexpr,
                           WIDE: tl.constexpr, LARGE: tl.constexpr):  # fmt: skip
    c = index_program(0, LARGE) % blocks * WIDE + index_lanes(WIDE, LARGE)[None, :]
    r = index_lanes(TALL, LARGE)[:, None]
    base = index_program(0, LARGE) // blocks * size * inner
    if HELD:
        mask = (r < size) & (c < inner)
        v = tl.load(x_ptr + base + r * inner + c, mask=mask, other=float("-inf")).to(tl.float32)
        most = tl.max(v, axis=0, keep_dims=True)
        total = tl.sum(tl.exp(v - most), axis=0, keep_dims=True)
        tl.store(out_ptr + base + r * inner + c, softmax_value(v, most, total, LOG), mask=mask)
    else:
        top = tl.full((TALL, WIDE), -3.4028234663852886e38, tl.float32)
        sums = tl.zeros((TALL, WIDE), tl.float32)
        for start in range(0, size, TALL):
            mask = (start + r < size) & (c < inner)
            v = tl.load(x_ptr + base + (start + r) * inner + c, mask=mask, other=float("-inf")).to(tl.float32)
            top, sums = softmax_fold(top, sums, v)
        most = tl.max(top, axis=0, keep_dims=True)
        total = tl.sum(sums * tl.exp(top - most), axis=0, keep_dims=True)
        for start in range(0, size, TALL):
            mask = (start + r < size) & (c < inner)
            v = tl.load(x_ptr + base + (start + r) * inner + c, mask=mask, other=0.0).to(tl.float32)
            tl.store(out_ptr + base + (start + r) * inner + c, softmax_value(v, most, total, LOG), mask=mask)


def softmax_any(input, dim, dtype, log, own=None, rows=None, block=None, warps=None):
    """The softmax or its logarithm, or None where it is left to torch. A block that is shorter than a row has it swept."""
    if own is False or dim is None or not sweepable(input) or dtype not in (None, torch.float32, torch.float16, torch.bfloat16):
        return None
    if not input.dim() or not -input.dim() <= dim < input.dim():
        return None
    x = input.contiguous()
    dim %= input.dim()
    size, inner = x.shape[dim], x.shape[dim + 1 :].numel()
    outer = x.numel() // (size * inner)
    out, large = torch.empty_like(x, dtype=dtype or x.dtype), index_is_large(x)
    if inner > 1:
        held = size <= 256
        tall = triton.next_power_of_2(size) if held else 64
        wide = min(triton.next_power_of_2(inner), max(16, (block or SOFTMAX_TILE) // tall))
        blocks = triton.cdiv(inner, wide)
        if outer * blocks >= 2**31 or (outer * blocks < 66 and size > 1024 and not (own or ALONE)):
            return None
        softmax_columns_kernel[(outer * blocks,)](
            x, out, size, inner, blocks, LOG=log, HELD=held, TALL=tall, WIDE=wide, LARGE=large,
            num_warps=warps or (4 if tall * wide <= 2048 else 8),
        )  # fmt: skip
        return out
    if size <= (SOFTMAX_HELD if block is None else block):
        block = triton.next_power_of_2(size)
        tall = rows or max(1, min(2048 // block, triton.next_power_of_2(triton.cdiv(outer, 264))))
        softmax_held_kernel[(triton.cdiv(outer, tall),)](
            x, out, outer, size, LOG=log, ROWS=tall, BLOCK=block, LARGE=large, num_warps=warps or sweep_warps(tall * block)
        )  # fmt: skip
        return out
    block, warps = block or SOFTMAX_BLOCK, warps or SOFTMAX_WARPS
    if outer >= SOFTMAX_FEW:
        softmax_long_kernel[(outer,)](x, out, size, LOG=log, BLOCK=block, LARGE=large, num_warps=warps)
    else:
        chunk, parts = sweep_chunks(outer, size, block)
        most, total = torch.empty((2, outer * parts), dtype=torch.float32, device=x.device)
        softmax_part_kernel[(outer, parts)](
            x, most, total, size, chunk, BLOCK=block, LARGE=large, num_warps=warps
        )  # fmt: skip
        softmax_join_kernel[(outer, parts)](
            x, most, total, out, size, chunk, LOG=log, PARTS=triton.next_power_of_2(parts), BLOCK=block, LARGE=large,
            num_warps=warps,
        )  # fmt: skip
    return out


def softmax(input, dim=None, _stacklevel=3, dtype=None, **choices):
    """torch.nn.functional.softmax."""
    found = softmax_any(input, dim, dtype, False, **choices)
    return torch.nn.functional.softmax(input.contiguous(), dim, _stacklevel, dtype) if found is None else found


def log_softmax(input, dim=None, _stacklevel=3, dtype=None, **choices):
    """torch.nn.functional.log_softmax."""
    found = softmax_any(input, dim, dtype, True, **choices)
    return torch.nn.functional.log_softmax(input.contiguous(), dim, _stacklevel, dtype) if found is None else found
