"""Running sums and products: a program takes its row block by block and carries what came before."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program
from bottega.compiler.library.triton.sweeps import sweepable
from bottega.compiler.library.triton.tiles import ALONE

SCAN_BLOCK = 2048
SCAN_TALL = 128
SCAN_WIDE = 32


@triton.jit
def scan_times(a, b):
    return a * b


@triton.jit
def scan_rows_kernel(x_ptr, out_ptr, rows, size, PRODUCT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
                     LARGE: tl.constexpr):  # fmt: skip
    if LARGE:
        size = tl.cast(size, tl.int64)  # of the loop over a row of just under 2**31, too
    row = index_program(0, LARGE) * ROWS + index_lanes(ROWS, LARGE)[:, None]
    at = index_lanes(BLOCK, LARGE)[None, :]
    if PRODUCT:
        carry = tl.full((ROWS, 1), 1.0, tl.float32)
    else:
        carry = tl.zeros((ROWS, 1), tl.float32)
    for start in range(0, size, BLOCK):
        mask = (row < rows) & (start + at < size)
        if PRODUCT:
            v = tl.load(x_ptr + row * size + start + at, mask=mask, other=1.0).to(tl.float32)
            tl.store(out_ptr + row * size + start + at, tl.cumprod(v, axis=1) * carry, mask=mask)
            carry = carry * tl.reduce(v, 1, scan_times, keep_dims=True)
        else:
            v = tl.load(x_ptr + row * size + start + at, mask=mask, other=0.0).to(tl.float32)
            tl.store(out_ptr + row * size + start + at, tl.cumsum(v, axis=1) + carry, mask=mask)
            carry = carry + tl.sum(v, axis=1, keep_dims=True)


@triton.jit
def scan_columns_kernel(x_ptr, out_ptr, size, inner, blocks, PRODUCT: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr,
                        LARGE: tl.constexpr):  # fmt: skip
    c = index_program(0, LARGE) % blocks * WIDE + index_lanes(WIDE, LARGE)[None, :]
    r = index_lanes(TALL, LARGE)[:, None]
    base = index_program(0, LARGE) // blocks * size * inner
    if PRODUCT:
        carry = tl.full((1, WIDE), 1.0, tl.float32)
    else:
        carry = tl.zeros((1, WIDE), tl.float32)
    for start in range(0, size, TALL):
        mask = (start + r < size) & (c < inner)
        place = base + (start + r) * inner + c
        if PRODUCT:
            v = tl.load(x_ptr + place, mask=mask, other=1.0).to(tl.float32)
            tl.store(out_ptr + place, tl.cumprod(v, axis=0) * carry, mask=mask)
            carry = carry * tl.reduce(v, 0, scan_times, keep_dims=True)
        else:
            v = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
            tl.store(out_ptr + place, tl.cumsum(v, axis=0) + carry, mask=mask)
            carry = carry + tl.sum(v, axis=0, keep_dims=True)


def scan(input, dim, dtype, product, own=None, rows=None, block=None, warps=4):
    """The scan, or None where it is left to torch."""
    if own is False or not sweepable(input) or dtype not in (None, torch.float32, torch.float16, torch.bfloat16):
        return None
    if not input.dim() or not -input.dim() <= dim < input.dim():
        return None
    x = (input if dtype is None else input.to(dtype)).contiguous()
    dim %= input.dim()
    size, inner = x.shape[dim], x.shape[dim + 1 :].numel()
    outer = x.numel() // (size * inner)
    out, large = torch.empty_like(x), index_is_large(x)
    if inner == 1:
        if outer < 66 and size > 16384 and not (own or ALONE):
            return None
        block = min(block or SCAN_BLOCK, triton.next_power_of_2(size))
        tall = rows or max(1, min(SCAN_BLOCK // block, triton.next_power_of_2(triton.cdiv(outer, 264))))
        scan_rows_kernel[(triton.cdiv(outer, tall),)](
            x, out, outer, size, PRODUCT=product, ROWS=tall, BLOCK=block, LARGE=large, num_warps=warps
        )  # fmt: skip
        return out
    blocks = triton.cdiv(inner, SCAN_WIDE)
    if outer * blocks >= 2**31 or (outer * blocks < 66 and size > 1024 and not (own or ALONE)):
        return None
    tall = min(block or SCAN_TALL, triton.next_power_of_2(size))
    scan_columns_kernel[(outer * blocks,)](
        x, out, size, inner, blocks, PRODUCT=product, TALL=tall, WIDE=SCAN_WIDE, LARGE=large, num_warps=warps
    )  # fmt: skip
    return out


def cumsum(input, dim, dtype=None, **choices):
    """torch.cumsum."""
    found = scan(input, dim, dtype, False, **choices)
    return torch.cumsum(input.contiguous(), dim, dtype=dtype) if found is None else found


def cumprod(input, dim, dtype=None, **choices):
    """torch.cumprod."""
    found = scan(input, dim, dtype, True, **choices)
    return torch.cumprod(input.contiguous(), dim, dtype=dtype) if found is None else found
