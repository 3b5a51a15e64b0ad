"""Normalisations: short rows are held in registers, long ones are cut into chunks whose moments are combined by the second kernel.

A row is what shares its statistics. A batch norm's row is a channel, whose planes lie apart; its columns are rows where there is no space.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
import torch
import triton
import triton.language as tl

from bottega.compiler.library.triton.large import index_is_large, index_lanes, index_program
from bottega.compiler.library.triton.sweeps import sweep_chunks, sweep_warps, sweepable
from bottega.compiler.library.triton.tiles import ALONE

NORM_HELD = 16384
NORM_BLOCK = 4096


@triton.jit
def norm_place(i, step, PLANE: tl.constexpr):
    if PLANE == 0:
        return i
    else:
        return i // PLANE * step + i % PLANE


@triton.jit
def norm_affine(v, c, weight_ptr, bias_ptr, mask, WEIGHT: tl.constexpr, BIAS: tl.constexpr):
    if WEIGHT:
        v = v * tl.load(weight_ptr + c, mask=mask, other=0.0).to(tl.float32)
    if BIAS:
        v = v + tl.load(bias_ptr + c, mask=mask, other=0.0).to(tl.float32)
    return v


@triton.jit
def norm_held_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, rows, size, groups, channels, eps, PLANE: tl.constexpr,
                     WEIGHT: tl.constexpr, BIAS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
                     LARGE: tl.constexpr):  # fmt: skip
    row = index_program(0, LARGE) * ROWS + index_lanes(ROWS, LARGE)[:, None]
    at = index_lanes(BLOCK, LARGE)[None, :]
    mask = (row < rows) & (at < size)
    v = tl.load(x_ptr + row * size + at, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=1, keep_dims=True) / size
    apart = tl.where(mask, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(apart * apart, axis=1, keep_dims=True) / size + eps)
    c = row % groups * channels + at // PLANE
    v = norm_affine(apart * scale, c, weight_ptr, bias_ptr, mask, WEIGHT, BIAS)
    tl.store(out_ptr + row * size + at, v, mask=mask)


@triton.jit
def norm_moments_kernel(x_ptr, mean_ptr, m2_ptr, size, chunk, pitch, step, PLANE: tl.constexpr, BLOCK: tl.constexpr,
                        LARGE: tl.constexpr):  # fmt: skip
    row, part, at = index_program(0, LARGE), index_program(1, LARGE), index_lanes(BLOCK, LARGE)
    first = part * chunk
    last = tl.minimum(first + chunk, size)
    mean = tl.zeros((BLOCK,), tl.float32)
    m2 = tl.zeros((BLOCK,), tl.float32)
    seen = 0.0
    for start in range(first, last, BLOCK):
        i = start + at
        seen += 1.0
        v = tl.load(x_ptr + row * pitch + norm_place(i, step, PLANE), mask=i < last, other=0.0).to(tl.float32)
        apart = tl.where(i < last, v - mean, 0.0)
        mean += apart * (1.0 / seen)
        m2 += apart * (v - mean)
    count = tl.maximum((last - first - at + BLOCK - 1) // BLOCK, 0).to(tl.float32)
    mu = tl.sum(count * mean) / (last - first)
    mean -= mu
    tl.store(mean_ptr + row * tl.num_programs(1) + part, mu)
    tl.store(m2_ptr + row * tl.num_programs(1) + part, tl.sum(m2 + count * mean * mean))


@triton.jit
def norm_apply_kernel(x_ptr, mean_ptr, m2_ptr, weight_ptr, bias_ptr, running_mean_ptr, running_var_ptr, out_ptr, size, chunk, parts,
                      part_size, pitch, step, groups, channels, eps, momentum, PLANE: tl.constexpr, AFFINE: tl.constexpr,
                      WEIGHT: tl.constexpr, BIAS: tl.constexpr, GIVEN: tl.constexpr, UPDATE: tl.constexpr, PARTS: tl.constexpr,
                      BLOCK: tl.constexpr, LARGE: tl.constexpr):  # fmt: skip
    row, at = index_program(0, LARGE), index_lanes(BLOCK, LARGE)
    first = index_program(1, LARGE) * chunk
    last = tl.minimum(first + chunk, size)
    if GIVEN:
        mean = tl.load(running_mean_ptr + row).to(tl.float32)
        var = tl.load(running_var_ptr + row).to(tl.float32)
    else:
        p = index_lanes(PARTS, LARGE)
        means = tl.load(mean_ptr + row * parts + p, mask=p < parts, other=0.0)
        count = tl.maximum(tl.minimum(size - p * part_size, part_size), 0).to(tl.float32)
        mean = tl.sum(means * count) / size
        means -= mean
        m2 = tl.sum(tl.load(m2_ptr + row * parts + p, mask=p < parts, other=0.0) + means * means * count)
        var = m2 / size
        if UPDATE:
            mean_before = tl.load(running_mean_ptr + row).to(tl.float32)
            var_before = tl.load(running_var_ptr + row).to(tl.float32)
            tl.store(running_mean_ptr + row, mean_before * (1.0 - momentum) + mean * momentum, mask=first == 0)
            tl.store(running_var_ptr + row, var_before * (1.0 - momentum) + m2 / (size - 1) * momentum, mask=first == 0)
    scale = tl.rsqrt(var + eps)
    shift = 0.0
    if AFFINE == 0:
        c = row % groups
        if WEIGHT:
            scale = scale * tl.load(weight_ptr + c).to(tl.float32)
        if BIAS:
            shift = tl.load(bias_ptr + c).to(tl.float32)
    for start in range(first, last, BLOCK):
        i = start + at
        place = row * pitch + norm_place(i, step, PLANE)
        v = (tl.load(x_ptr + place, mask=i < last, other=0.0).to(tl.float32) - mean) * scale + shift
        if AFFINE > 0:
            v = norm_affine(v, row % groups * channels + i // AFFINE, weight_ptr, bias_ptr, i < last, WEIGHT, BIAS)
        tl.store(out_ptr + place, v, mask=i < last)


@triton.jit
def norm_columns_kernel(x_ptr, weight_ptr, bias_ptr, running_mean_ptr, running_var_ptr, out_ptr, rows, columns, chunk, eps, momentum,
                        WEIGHT: tl.constexpr, BIAS: tl.constexpr, GIVEN: tl.constexpr, UPDATE: tl.constexpr, ROWS: tl.constexpr,
                        COLUMNS: tl.constexpr, LARGE: tl.constexpr):  # fmt: skip
    c = index_program(0, LARGE) * COLUMNS + index_lanes(COLUMNS, LARGE)[None, :]
    r = index_lanes(ROWS, LARGE)[:, None]
    inside = c < columns
    if GIVEN:
        mean = tl.load(running_mean_ptr + c, mask=inside, other=0.0).to(tl.float32)
        var = tl.load(running_var_ptr + c, mask=inside, other=0.0).to(tl.float32)
    else:
        means = tl.zeros((ROWS, COLUMNS), tl.float32)
        m2 = tl.zeros((ROWS, COLUMNS), tl.float32)
        seen = 0.0
        for start in range(0, rows, ROWS):
            seen += 1.0
            mask = (start + r < rows) & inside
            v = tl.load(x_ptr + (start + r) * columns + c, mask=mask, other=0.0).to(tl.float32)
            apart = tl.where(mask, v - means, 0.0)
            means += apart * (1.0 / seen)
            m2 += apart * (v - means)
        count = tl.maximum((rows - r + ROWS - 1) // ROWS, 0).to(tl.float32)
        mean = tl.sum(means * count, axis=0, keep_dims=True) / rows
        means -= mean
        total = tl.sum(m2 + means * means * count, axis=0, keep_dims=True)
        var = total / rows
        if UPDATE:
            mean_before = tl.load(running_mean_ptr + c, mask=inside, other=0.0).to(tl.float32)
            var_before = tl.load(running_var_ptr + c, mask=inside, other=0.0).to(tl.float32)
            tl.store(running_mean_ptr + c, mean_before * (1.0 - momentum) + mean * momentum, mask=inside)
            tl.store(running_var_ptr + c, var_before * (1.0 - momentum) + total / (rows - 1) * momentum, mask=inside)
    scale = tl.rsqrt(var + eps)
    first = index_program(1, LARGE) * chunk
    for start in range(first, tl.minimum(first + chunk, rows), ROWS):
        mask = (start + r < rows) & inside
        v = (tl.load(x_ptr + (start + r) * columns + c, mask=mask, other=0.0).to(tl.float32) - mean) * scale
        v = norm_affine(v, c, weight_ptr, bias_ptr, inside, WEIGHT, BIAS)
        tl.store(out_ptr + (start + r) * columns + c, v, mask=mask)


def norm_rows(x, weight, bias, count, size, groups, channels, plane, eps, rows=None, block=None, warps=None):
    """Normalises `count` contiguous rows; element i of a row has channel row % groups * channels + i // plane. A block that is shorter than a
    row has it swept in chunks."""
    x = x.contiguous()
    out = torch.empty_like(x)
    flags = {"WEIGHT": weight is not None, "BIAS": bias is not None}
    if size <= (NORM_HELD if block is None else block):
        block = triton.next_power_of_2(size)
        tall = rows or max(1, min(2048 // block, triton.next_power_of_2(triton.cdiv(count, 264))))
        norm_held_kernel[(triton.cdiv(count, tall),)](
            x, weight, bias, out, count, size, groups, channels, eps, PLANE=plane, **flags, ROWS=tall, BLOCK=block,
            LARGE=index_is_large(x), num_warps=warps or sweep_warps(tall * block),
        )  # fmt: skip
        return out
    norm_chunked(x, weight, bias, None, None, out, count, size, size, 0, 0, groups, channels, 0 if plane == size else plane, eps,
                 block=block, warps=warps)  # fmt: skip
    return out


def norm_chunked(x, weight, bias, running_mean, running_var, out, rows, size, pitch, step, plane, groups, channels, affine, eps,
                 given=False, momentum=0.0, block=None, warps=None):  # fmt: skip
    """Moments of chunks in a first kernel, unless they are given; all else in a second one."""
    block, warps = min(block or NORM_BLOCK, triton.next_power_of_2(size)), warps or 8
    chunk, parts = sweep_chunks(rows, size, block)
    mean, m2, large = None, None, index_is_large(x)
    if not given:
        mean, m2 = torch.empty((2, rows * parts), dtype=torch.float32, device=x.device)
        norm_moments_kernel[(rows, parts)](
            x, mean, m2, size, chunk, pitch, step, PLANE=plane, BLOCK=block, LARGE=large, num_warps=warps
        )  # fmt: skip
    norm_apply_kernel[(rows, parts)](
        x, mean, m2, weight, bias, running_mean, running_var, out, size, chunk, parts, chunk, pitch, step, groups, channels, eps,
        momentum, PLANE=plane, AFFINE=affine, WEIGHT=weight is not None, BIAS=bias is not None, GIVEN=given,
        UPDATE=not given and running_mean is not None, PARTS=triton.next_power_of_2(parts), BLOCK=block, LARGE=large,
        num_warps=warps,
    )  # fmt: skip


def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05, *, own=None, **choices
):
    """torch.nn.functional.batch_norm."""
    N, C = input.shape[:2] if input.dim() > 1 else (0, 0)
    plane = input.numel() // max(N * C, 1)
    kept = [tensor for tensor in (running_mean, running_var) if tensor is not None]
    usual = all(tensor is None or (tensor.numel() == C and tensor.is_contiguous()) for tensor in (*kept, weight, bias))
    if (
        own is False
        or not sweepable(input, running_mean, running_var, weight, bias)
        or not 2 <= input.dim() <= 5
        or not usual
        or len(kept) != (2 if kept or not training else 0)
        or (training and N * plane < 2)
        or (training and plane == 1 and C < 2048 and N > 4096 and not (own or ALONE))
    ):
        return torch.nn.functional.batch_norm(
            input.contiguous(), running_mean, running_var, weight, bias, training, momentum, eps
        )
    x = input.contiguous()
    out = torch.empty_like(x)
    if plane > 1:
        norm_chunked(x, weight, bias, running_mean, running_var, out, C, N * plane, plane, C * plane, plane, C, 1, 0, eps,
                     not training, momentum, **choices)  # fmt: skip
        return out
    tall, wide = choices.get("rows") or (64 if training else 32), choices.get("block") or 32
    chunk, parts = (N, 1) if training else sweep_chunks(triton.cdiv(C, wide), N, tall)
    norm_columns_kernel[(triton.cdiv(C, wide), parts)](
        x, weight, bias, running_mean, running_var, out, N, C, chunk, eps, momentum, WEIGHT=weight is not None, BIAS=bias is not None,
        GIVEN=not training, UPDATE=bool(kept), ROWS=tall, COLUMNS=wide, LARGE=index_is_large(x),
        num_warps=choices.get("warps") or (8 if training else 4),
    )  # fmt: skip
    return out


def norm_ready(input, weight, bias, shape):
    """Whether kernels take this input, and gains and shifts of this shape that lie dense."""
    given = [one for one in (weight, bias) if one is not None]
    return sweepable(input, weight, bias) and all(tuple(one.shape) == tuple(shape) and one.is_contiguous() for one in given)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05, *, own=None, **choices):
    """torch.nn.functional.group_norm."""
    if own is False or input.dim() < 2 or input.shape[1] % num_groups or not norm_ready(input, weight, bias, input.shape[1:2]):
        return torch.nn.functional.group_norm(input.contiguous(), num_groups, weight, bias, eps)
    N, C = input.shape[:2]
    plane = input.numel() // (N * C)
    size, channels = C // num_groups * plane, C // num_groups
    return norm_rows(input, weight, bias, N * num_groups, size, num_groups, channels, plane, eps, **choices)


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05, *, own=None,
    **choices,
):  # fmt: skip
    """torch.nn.functional.instance_norm."""
    kept = running_mean is not None or running_var is not None
    ready = input.dim() >= 3 and norm_ready(input, weight, bias, input.shape[1:2])
    if own is False or kept or not use_input_stats or not ready or input[0, 0].numel() < 2:
        return torch.nn.functional.instance_norm(
            input.contiguous(), running_mean, running_var, weight, bias, use_input_stats, momentum, eps
        )  # fmt: skip
    N, C = input.shape[:2]
    plane = input.numel() // (N * C)
    return norm_rows(input, weight, bias, N * C, plane, C, 1, plane, eps, **choices)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05, *, own=None, **choices):
    """torch.nn.functional.layer_norm."""
    shape = tuple(normalized_shape)
    fits = shape and tuple(input.shape[-len(shape) :]) == shape and norm_ready(input, weight, bias, shape)
    if own is False or not fits:
        return torch.nn.functional.layer_norm(input.contiguous(), normalized_shape, weight, bias, eps)
    size = input[(0,) * (input.dim() - len(shape))].numel()
    return norm_rows(input, weight, bias, input.numel() // size, size, 1, 0, 1, eps, **choices)
