"""Poolings: a block of neighbouring outputs per program, the window unrolled, and the padding folded into the mask."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program
from bottega.compiler.library.triton.sweeps import sweep_chunks, sweepable
from bottega.compiler.library.triton.tiles import ALONE

POOL_BLOCK_BYTES = 1024
POOL_WARPS = 8
POOL_LONG_ROW = 16384


@triton.jit
def pool_kernel(x_ptr, out_ptr, planes, blocks, D: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OD: tl.constexpr, OH: tl.constexpr,
                OW: tl.constexpr, KD: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SD: tl.constexpr, SH: tl.constexpr,
                SW: tl.constexpr, PD: tl.constexpr, PH: tl.constexpr, PW: tl.constexpr, ED: tl.constexpr, EH: tl.constexpr,
                EW: tl.constexpr, MAX: tl.constexpr, COUNT: tl.constexpr, DIVISOR: tl.constexpr, FLAT: tl.constexpr,
                ROUNDS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr, LARGE: tl.constexpr):  # fmt: skip
    if FLAT:
        flat = index_program(0, LARGE) * BLOCK + index_lanes(BLOCK, LARGE)
        mask = flat // (OD * OH * OW) < planes if LARGE else flat < planes * (OD * OH * OW)
        o = flat % (OD * OH * OW)
        x_ptr += flat // (OD * OH * OW) * (D * H * W)
        out_ptr += flat
    else:
        o = index_program(0, LARGE) % blocks * BLOCK + index_lanes(BLOCK, LARGE)
        mask = o < OD * OH * OW
        plane = (index_program(0, LARGE) // blocks).to(tl.int64)
        x_ptr += plane * (D * H * W)
        out_ptr += plane * (OD * OH * OW) + o
    d0 = o // (OH * OW) * SD - PD
    h0 = o // OW % OH * SH - PH
    w0 = o % OW * SW - PW
    if MAX:
        result = tl.full((BLOCK,), float("-inf"), tl.float32)
    else:
        result = tl.zeros((BLOCK,), tl.float32)
    for turn in range(ROUNDS):
        for tap in tl.static_range(TAPS):
            d = d0 + (turn * TAPS + tap) // (KH * KW) * ED
            h = h0 + (turn * TAPS + tap) // KW % KH * EH
            w = w0 + (turn * TAPS + tap) % KW * EW
            inside = mask
            if PD > 0 or (OD - 1) * SD - PD + (KD - 1) * ED >= D:
                inside = inside & (d >= 0) & (d < D)
            if PH > 0 or (OH - 1) * SH - PH + (KH - 1) * EH >= H:
                inside = inside & (h >= 0) & (h < H)
            if PW > 0 or (OW - 1) * SW - PW + (KW - 1) * EW >= W:
                inside = inside & (w >= 0) & (w < W)
            place = x_ptr + (d * H + h) * W + w
            if MAX:
                v = tl.load(place, mask=inside, other=float("-inf")).to(tl.float32)
                result = tl.maximum(result, v, propagate_nan=tl.PropagateNan.ALL)
            else:
                result += tl.load(place, mask=inside, other=0.0).to(tl.float32)
    if COUNT == 1:
        count = tl.minimum(KD, D + PD - d0) * tl.minimum(KH, H + PH - h0) * tl.minimum(KW, W + PW - w0)
        result = result / count
    elif COUNT == 2:
        count = tl.minimum(d0 + KD, D) - tl.maximum(d0, 0)
        count = count * (tl.minimum(h0 + KH, H) - tl.maximum(h0, 0)) * (tl.minimum(w0 + KW, W) - tl.maximum(w0, 0))
        result = result / count
    elif not MAX:
        result = result / DIVISOR
    tl.store(out_ptr, result, mask=mask)


@triton.jit
def pool_mean_kernel(x_ptr, out_ptr, rows, size, chunk, divisor, ROWS: tl.constexpr, BLOCK: tl.constexpr,
                     LARGE: tl.constexpr):  # fmt: skip
    row = index_program(0, LARGE) * ROWS + index_lanes(ROWS, LARGE)[:, None]
    at = index_lanes(BLOCK, LARGE)[None, :]
    first = index_program(1, LARGE) * chunk
    last = tl.minimum(first + chunk, size)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(first, last, BLOCK):
        mask = (row < rows) & (start + at < last)
        total += tl.load(x_ptr + row * size + start + at, mask=mask, other=0.0).to(tl.float32)
    found = tl.sum(total, axis=1, keep_dims=True) / divisor
    tl.store(out_ptr + row * tl.num_programs(1) + index_program(1, LARGE), found, mask=row < rows)


def pool_sizes(value, dims):
    """One size for each dimension."""
    sizes = (value,) * dims if isinstance(value, int) else tuple(value)
    return sizes * dims if len(sizes) == 1 else sizes


def pool_extent(size, window, stride, padding, dilation, ceil_mode):
    """Number of windows; the last must start inside the input or its left padding."""
    count = (size + 2 * padding - dilation * (window - 1) - 1 + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def pool(
    input, dims, kernel_size, stride, padding, dilation, ceil_mode, largest, count_pad=True, divisor=None, own=None, block=None,
    warps=POOL_WARPS,
):  # fmt: skip
    """The pooled tensor, or None where it is left to torch."""
    if own is False or input.dim() not in (dims + 1, dims + 2) or input.numel() == 0:
        return None
    if not sweepable(input[:1] if input.dim() == dims + 2 else input):
        return None
    block = block or POOL_BLOCK_BYTES // input.element_size()
    window, padding, dilation = pool_sizes(kernel_size, dims), pool_sizes(padding, dims), pool_sizes(dilation, dims)
    stride = window if stride is None or stride in ((), []) else pool_sizes(stride, dims)
    space = tuple(input.shape[-dims:])
    if any(len(sizes) != dims for sizes in (window, stride, padding, dilation)) or min(*window, *stride, *dilation) < 1:
        return None
    large = window[-1] > 64 or torch.Size(window).numel() > 2048
    if any(p < 0 or 2 * p > k for p, k in zip(padding, window)) or (large and not (own or ALONE)):
        return None
    outs = tuple(pool_extent(*sizes, ceil_mode) for sizes in zip(space, window, stride, padding, dilation))
    planes, each = input.numel() // torch.Size(space).numel(), torch.Size(outs).numel()
    flat = each < block
    if min(outs) < 1 or planes * triton.cdiv(each, block) >= 2**31:
        return None
    x = input.contiguous()
    out = torch.empty(input.shape[:-dims] + outs, dtype=x.dtype, device=x.device)
    ones, none = (1,) * (3 - dims), (0,) * (3 - dims)
    sizes = [
        one + own
        for one, own in ((ones, space), (ones, outs), (ones, window), (ones, stride), (none, padding), (ones, dilation))
    ]
    count = 0 if largest or divisor else 2 if not count_pad and (any(padding) or ceil_mode) else int(ceil_mode)
    taps = torch.Size(window).numel()
    rounds = 1 if taps <= 64 else taps // window[-1] if window[-1] <= 64 else taps
    blocks = triton.cdiv(each, block)
    # Planes that are programs of their own are counted in 64 bits anyway: what matters is the size of one.
    large = index_is_large(x, out) if flat else index_is_large(x.view(-1, *space)[0], out.view(-1, *outs)[0])
    pool_kernel[(triton.cdiv(planes * each, block) if flat else planes * blocks,)](
        x, out, planes, blocks, *(size for own in sizes for size in own), MAX=largest, COUNT=count, DIVISOR=divisor or taps, FLAT=flat,
        ROUNDS=rounds, TAPS=taps // rounds, BLOCK=block, LARGE=large, num_warps=warps,
    )  # fmt: skip
    return out


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, **choices):
    """torch.nn.functional.max_pool1d."""
    found = None if return_indices else pool(input, 1, kernel_size, stride, padding, dilation, ceil_mode, True, **choices)
    if found is not None:
        return found
    return torch.nn.functional.max_pool1d(input.contiguous(), kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, **choices):
    """torch.nn.functional.max_pool2d."""
    found = None if return_indices else pool(input, 2, kernel_size, stride, padding, dilation, ceil_mode, True, **choices)
    if found is not None:
        return found
    return torch.nn.functional.max_pool2d(input.contiguous(), kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False, **choices):
    """torch.nn.functional.max_pool3d."""
    found = None if return_indices else pool(input, 3, kernel_size, stride, padding, dilation, ceil_mode, True, **choices)
    if found is not None:
        return found
    return torch.nn.functional.max_pool3d(input.contiguous(), kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, **choices):
    """torch.nn.functional.avg_pool1d."""
    found = pool(input, 1, kernel_size, stride, padding, 1, ceil_mode, False, count_include_pad, **choices)
    if found is not None:
        return found
    stride = kernel_size if stride is None else stride
    return torch.nn.functional.avg_pool1d(input.contiguous(), kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, **choices
):
    """torch.nn.functional.avg_pool2d."""
    found = pool(input, 2, kernel_size, stride, padding, 1, ceil_mode, False, count_include_pad, divisor_override, **choices)
    if found is not None:
        return found
    return torch.nn.functional.avg_pool2d(
        input.contiguous(), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, **choices
):
    """torch.nn.functional.avg_pool3d."""
    found = pool(input, 3, kernel_size, stride, padding, 1, ceil_mode, False, count_include_pad, divisor_override, **choices)
    if found is not None:
        return found
    return torch.nn.functional.avg_pool3d(
        input.contiguous(), kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def pool_mean(x, count, size, rows=None, block=None, warps=4):
    """Means of contiguous rows; few long rows are cut into chunks whose sums a second launch adds."""
    out, large = torch.empty(count, dtype=x.dtype, device=x.device), index_is_large(x)
    block = min(block or 2048, triton.next_power_of_2(size))
    tall = rows or max(1, 2048 // block)
    if size <= POOL_LONG_ROW or count >= 1056:
        pool_mean_kernel[(triton.cdiv(count, tall), 1)](
            x, out, count, size, size, size, ROWS=tall, BLOCK=block, LARGE=large, num_warps=warps
        )  # fmt: skip
        return out
    chunk, parts = sweep_chunks(count, size, block)
    sums = torch.empty(count * parts, dtype=torch.float32, device=x.device)
    pool_mean_kernel[(triton.cdiv(count, tall), parts)](
        x, sums, count, size, chunk, 1, ROWS=tall, BLOCK=block, LARGE=large, num_warps=warps
    )  # fmt: skip
    block = triton.next_power_of_2(parts)
    pool_mean_kernel[(count, 1)](sums, out, count, parts, parts, size, ROWS=1, BLOCK=block, LARGE=large)
    return out


def adaptive_pool(input, dims, output_size, own=None, **choices):
    """Windows of one size, or None where there are none."""
    if own is False or input.dim() not in (dims + 1, dims + 2) or input.numel() == 0:
        return None
    space = tuple(input.shape[-dims:])
    outs = tuple(own if out is None else out for out, own in zip(pool_sizes(output_size, dims), space))
    if len(outs) != dims or min(outs) < 1 or any(own % out for own, out in zip(space, outs)):
        return None
    size = torch.Size(space).numel()
    if torch.Size(outs).numel() == 1:
        if not sweepable(input):
            return None
        return pool_mean(input.contiguous(), input.numel() // size, size, **choices).view(input.shape[:-dims] + outs)
    window = tuple(own // out for own, out in zip(space, outs))
    return pool(input, dims, window, window, 0, 1, False, False, own=own, **choices)


def adaptive_avg_pool1d(input, output_size, **choices):
    """torch.nn.functional.adaptive_avg_pool1d."""
    found = adaptive_pool(input, 1, output_size, **choices)
    return torch.nn.functional.adaptive_avg_pool1d(input.contiguous(), output_size) if found is None else found


def adaptive_avg_pool2d(input, output_size, **choices):
    """torch.nn.functional.adaptive_avg_pool2d."""
    found = adaptive_pool(input, 2, output_size, **choices)
    return torch.nn.functional.adaptive_avg_pool2d(input.contiguous(), output_size) if found is None else found


def adaptive_avg_pool3d(input, output_size, **choices):
    """torch.nn.functional.adaptive_avg_pool3d."""
    found = adaptive_pool(input, 3, output_size, **choices)
    return torch.nn.functional.adaptive_avg_pool3d(input.contiguous(), output_size) if found is None else found
