"""Where a largest or smallest element is: each lane keeps its value and place, the lanes are put together at the end.

Of equals the first wins, and a NaN wins over all, as in torch.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program
from bottega.compiler.library.triton.sweeps import sweepable

EXTREME_PROGRAMS = 264
EXTREME_BLOCK = 1024
EXTREME_TALL = 8
EXTREME_WIDE = 256


@triton.jit
def extreme_nan(v):
    return v != v  # noqa: PLR0124


@triton.jit
def extreme_first(best, where, AXIS: tl.constexpr, LARGE: tl.constexpr):
    missing = extreme_nan(best)
    most = tl.max(tl.where(missing, float("-inf"), best), axis=AXIS, keep_dims=True)
    number = tl.max(missing.to(tl.int32), axis=AXIS, keep_dims=True)
    chosen = tl.where(number > 0, missing, best == most)
    found = tl.min(tl.where(chosen, where, 2**63 - 1 if LARGE else 2**31 - 1), axis=AXIS, keep_dims=True)
    return tl.where(number > 0, float("nan"), most), found


@triton.jit
def extreme_rows_kernel(x_ptr, value_ptr, place_ptr, rows, size, chunk, LEAST: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr,
                        BLOCK: tl.constexpr, LARGE: tl.constexpr):  # fmt: skip
    row = index_program(0, LARGE) * ROWS + index_lanes(ROWS, LARGE)[:, None]
    at = index_lanes(BLOCK, LARGE)[None, :]
    first = index_program(1, LARGE) * chunk
    last = tl.minimum(first + chunk, size)
    best = tl.full((ROWS, BLOCK), float("-inf"), tl.float32)
    where = tl.zeros((ROWS, BLOCK), tl.int32) + first + at
    for start in range(first, last, BLOCK):
        i = start + at
        mask = (row < rows) & (i < last)
        v = tl.load(x_ptr + row * size + i, mask=mask, other=float("inf") if LEAST else float("-inf")).to(tl.float32)
        if LEAST:
            v = -v
        better = (v > best) | (extreme_nan(v) & ~extreme_nan(best))
        best = tl.where(better, v, best)
        where = tl.where(better, i, where)
    value, place = extreme_first(best, where, 1, LARGE)
    if PART:
        tl.store(value_ptr + row * tl.num_programs(1) + index_program(1, LARGE), value, mask=row < rows)
    tl.store(place_ptr + row * tl.num_programs(1) + index_program(1, LARGE), place, mask=row < rows)


@triton.jit
def extreme_columns_kernel(x_ptr, value_ptr, place_ptr, size, inner, blocks, chunk, LEAST: tl.constexpr, PART: tl.constexpr,
                           TALL: tl.constexpr, WIDE: tl.constexpr, LARGE: tl.constexpr):  # fmt: skip
    outer = index_program(0, LARGE) // blocks
    c = index_program(0, LARGE) % blocks * WIDE + index_lanes(WIDE, LARGE)[None, :]
    r = index_lanes(TALL, LARGE)[:, None]
    first = index_program(1, LARGE) * chunk
    last = tl.minimum(first + chunk, size)
    best = tl.full((TALL, WIDE), float("-inf"), tl.float32)
    where = tl.zeros((TALL, WIDE), tl.int32) + first + r
    for start in range(first, last, TALL):
        i = start + r
        mask = (i < last) & (c < inner)
        place = outer * size * inner + i * inner + c
        v = tl.load(x_ptr + place, mask=mask, other=float("inf") if LEAST else float("-inf")).to(tl.float32)
        if LEAST:
            v = -v
        better = (v > best) | (extreme_nan(v) & ~extreme_nan(best))
        best = tl.where(better, v, best)
        where = tl.where(better, i, where)
    value, found = extreme_first(best, where, 0, LARGE)
    out = (outer * tl.num_programs(1) + index_program(1, LARGE)) * inner + c
    if PART:
        tl.store(value_ptr + out, value, mask=c < inner)
    tl.store(place_ptr + out, found, mask=c < inner)


@triton.jit
def extreme_join_kernel(value_ptr, place_ptr, out_ptr, total, inner, parts, PARTS: tl.constexpr, WIDE: tl.constexpr,
                        LARGE: tl.constexpr):  # fmt: skip
    i = index_program(0, LARGE) * WIDE + index_lanes(WIDE, LARGE)[None, :]
    p = index_lanes(PARTS, LARGE)[:, None]
    mask = (p < parts) & (i < total)
    at = (i // inner * parts + p) * inner + i % inner
    best = tl.load(value_ptr + at, mask=mask, other=float("-inf"))
    where = tl.load(place_ptr + at, mask=mask, other=2**63 - 1 if LARGE else 2**31 - 1)
    _value, found = extreme_first(best, where, 0, LARGE)
    tl.store(out_ptr + i, found, mask=i < total)


def extreme(input, dim, keepdim, least, own=None, rows=None, block=None, warps=None):
    """Places of the extremes, or None where they are left to torch."""
    if (
        own is False
        or not sweepable(input)
        or (dim is not None and not -input.dim() <= dim < max(input.dim(), 1))
        or not input.dim()
    ):
        return None
    x = input.contiguous()
    if dim is None:
        size, inner, shape = x.numel(), 1, (1,) * x.dim() if keepdim else ()
    else:
        dim %= x.dim()
        size, inner = x.shape[dim], x.shape[dim + 1 :].numel()
        shape = x.shape[:dim] + ((1,) if keepdim else ()) + x.shape[dim + 1 :]
    outer = x.numel() // (size * inner)
    out = torch.empty(shape, dtype=torch.int64, device=x.device)
    if inner == 1:
        wide = min(block or EXTREME_BLOCK, triton.next_power_of_2(size))
        tall = rows or max(1, min(EXTREME_BLOCK // wide, triton.next_power_of_2(triton.cdiv(outer, EXTREME_PROGRAMS))))
        step, grid = wide, triton.cdiv(outer, tall)
    else:
        tall = min(rows or EXTREME_TALL, triton.next_power_of_2(size))
        wide = min(block or EXTREME_WIDE, max(16, triton.next_power_of_2(inner)))
        step, blocks = tall, triton.cdiv(inner, wide)
        grid = outer * blocks
        if grid >= 2**31:
            return None
    # Chunks of at least four steps, as many as keep the device busy.
    parts = max(1, min(triton.cdiv(size, 4 * step), triton.cdiv(EXTREME_PROGRAMS, grid), 512)) if grid < EXTREME_PROGRAMS else 1
    chunk = triton.cdiv(triton.cdiv(size, parts), step) * step
    parts = triton.cdiv(size, chunk)
    value, place, large = None, out, index_is_large(x)
    if parts > 1:
        value = torch.empty(outer * parts * inner, dtype=torch.float32, device=x.device)
        place = torch.empty(outer * parts * inner, dtype=torch.int64 if large else torch.int32, device=x.device)
    if inner == 1:
        extreme_rows_kernel[(grid, parts)](
            x, value, place, outer, size, chunk, LEAST=least, PART=parts > 1, ROWS=tall, BLOCK=wide, LARGE=large,
            num_warps=warps or 4,
        )  # fmt: skip
    else:
        extreme_columns_kernel[(grid, parts)](
            x, value, place, size, inner, blocks, chunk, LEAST=least, PART=parts > 1, TALL=tall, WIDE=wide, LARGE=large,
            num_warps=warps or 8,
        )  # fmt: skip
    if parts > 1:
        height = triton.next_power_of_2(parts)
        width = max(1, 1024 // height)
        extreme_join_kernel[(triton.cdiv(out.numel(), width),)](
            value, place, out, out.numel(), inner, parts, PARTS=height, WIDE=width, LARGE=large
        )  # fmt: skip
    return out


def argmax(input, dim=None, keepdim=False, **choices):
    """torch.argmax."""
    found = extreme(input, dim, keepdim, False, **choices)
    return torch.argmax(input, dim, keepdim) if found is None else found


def argmin(input, dim=None, keepdim=False, **choices):
    """torch.argmin."""
    found = extreme(input, dim, keepdim, True, **choices)
    return torch.argmin(input, dim, keepdim) if found is None else found
