"""Kernels that work row by row between the matrix products: RMSNorm with the residual, rotary embedding with the cache write, SwiGLU."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _rms_norm(x, residual, weight, out, width, epsilon, ADD: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    value = tl.load(x + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        value += tl.load(residual + row * width + columns, mask=inside, other=0.0).to(tl.float32)
        rounded = value.to(out.dtype.element_ty)
        tl.store(residual + row * width + columns, rounded, mask=inside)
        value = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value) / width + epsilon)
    normed = (value * scale).to(out.dtype.element_ty).to(tl.float32)  # rounds where transformers does
    gain = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + columns, (gain * normed).to(out.dtype.element_ty), mask=inside)


def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None) -> Tensor:
    """RMSNorm of `x`, or of `residual + x`, which is then left in `residual`."""
    out = torch.empty_like(x)
    width = x.shape[-1]
    _rms_norm[(x.shape[0],)](
        x, x if residual is None else residual, weight, out, width, epsilon,
        ADD=residual is not None, BLOCK=triton.next_power_of_2(width), num_warps=_warps(width),
    )  # fmt: skip
    return out


@triton.jit
def _rotate(
    qkv, queries, keys, values, rows, positions, active, table, table_width, cosine, sine, query_norm, key_norm, epsilon,
    HEADS: tl.constexpr, KV: tl.constexpr, HEAD: tl.constexpr, PAGE: tl.constexpr, ALL: tl.constexpr,
    PACKED: tl.constexpr, NORMS: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    row = token
    if PACKED:
        row = tl.load(rows + token).to(tl.int64)
    alive = tl.load(active + row)
    position = tl.load(positions + token) * alive  # a row that sleeps may hold a position of long ago
    half: tl.constexpr = HEAD // 2
    head = tl.arange(0, ALL)[:, None]
    lane = tl.arange(0, half)[None, :]
    inside = (head < HEADS + 2 * KV) & (lane < half)
    writes = inside & (head * 0 + alive != 0)
    source = qkv + token * (HEADS + 2 * KV) * HEAD + head * HEAD + lane
    first = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + half, mask=inside, other=0.0).to(tl.float32)
    is_query = head < HEADS
    is_key = (head >= HEADS) & (head < HEADS + KV)
    if NORMS:
        scale = tl.rsqrt((tl.sum(first * first, 1) + tl.sum(second * second, 1)) / HEAD + epsilon)[:, None]
        kind = qkv.dtype.element_ty
        gain_1 = tl.where(is_query, tl.load(query_norm + lane).to(tl.float32), tl.load(key_norm + lane).to(tl.float32))
        gain_2 = tl.where(
            is_query, tl.load(query_norm + half + lane).to(tl.float32), tl.load(key_norm + half + lane).to(tl.float32)
        )
        turned = is_query | is_key
        first = tl.where(turned, (gain_1 * (first * scale).to(kind).to(tl.float32)).to(kind).to(tl.float32), first)
        second = tl.where(turned, (gain_2 * (second * scale).to(kind).to(tl.float32)).to(kind).to(tl.float32), second)
    c = tl.load(cosine + position.to(tl.int64) * half + lane)
    s = tl.load(sine + position.to(tl.int64) * half + lane)
    left = first * c - second * s
    right = second * c + first * s
    to_query = queries + token * HEADS * HEAD + head * HEAD + lane
    tl.store(to_query, left.to(queries.dtype.element_ty), mask=inside & is_query)
    tl.store(to_query + half, right.to(queries.dtype.element_ty), mask=inside & is_query)
    page = tl.load(table + row * table_width + position // PAGE).to(tl.int64)
    place = page * KV * PAGE * HEAD + (position % PAGE) * HEAD + lane
    to_key = keys + place + (head - HEADS) * PAGE * HEAD
    tl.store(to_key, left.to(keys.dtype.element_ty), mask=writes & is_key)
    tl.store(to_key + half, right.to(keys.dtype.element_ty), mask=writes & is_key)
    to_value = values + place + (head - HEADS - KV) * PAGE * HEAD
    is_value = writes & (head >= HEADS + KV)
    tl.store(to_value, first.to(values.dtype.element_ty), mask=is_value)
    tl.store(to_value + half, second.to(values.dtype.element_ty), mask=is_value)


def rotate(
    qkv: Tensor, keys: Tensor, values: Tensor, rows: Tensor | None, positions: Tensor, active: Tensor, table: Tensor,
    cosine: Tensor, sine: Tensor, norms: tuple[Tensor, Tensor] | None, epsilon: float, heads: int,
) -> Tensor:  # fmt: skip
    """The queries of `qkv`, turned; its keys, turned, and its values go to their pages. Rows that are not active write nothing."""
    _, kv, page, head = keys.shape
    queries = torch.empty((qkv.shape[0], heads, head), dtype=qkv.dtype, device=qkv.device)
    query_norm, key_norm = norms or (qkv, qkv)
    _rotate[(qkv.shape[0],)](
        qkv, queries, keys, values, positions if rows is None else rows, positions, active, table, table.shape[1],
        cosine, sine, query_norm, key_norm, epsilon,
        HEADS=heads, KV=kv, HEAD=head, PAGE=page, ALL=triton.next_power_of_2(heads + 2 * kv),
        PACKED=rows is not None, NORMS=norms is not None, num_warps=4 if (heads + 2 * kv) * head <= 2048 else 8,
    )  # fmt: skip
    return queries


@triton.jit
def _swiglu(both, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    gate = tl.load(both + row * 2 * width + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * width + width + columns, mask=inside, other=0.0).to(tl.float32)
    kind = out.dtype.element_ty
    turned = (gate * tl.sigmoid(gate)).to(kind).to(tl.float32)
    tl.store(out + row * width + columns, (turned * up).to(kind), mask=inside)


def swiglu(both: Tensor) -> Tensor:
    """silu(gate) * up, where a row of `both` holds the one and then the other."""
    width = both.shape[-1] // 2
    out = torch.empty((both.shape[0], width), dtype=both.dtype, device=both.device)
    block = min(triton.next_power_of_2(width), 2048)
    _swiglu[(both.shape[0], triton.cdiv(width, block))](both, out, width, BLOCK=block, num_warps=_warps(block))
    return out


def _warps(width: int) -> int:
    return 1 if width <= 256 else 2 if width <= 512 else 4 if width <= 2048 else 8
