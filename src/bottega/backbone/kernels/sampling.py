"""Sampling the next token on the device, with its log-prob, the new position, and whether the row has ended.

The noise is that of `bottega.backbone.sampler`: the same random bits, and logarithms that differ in the last digits.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from bottega.backbone.sampler import ROUNDS

BLOCK = 1024
_ROUNDS = tl.constexpr(ROUNDS)


@triton.jit
def _log(x, FAST: tl.constexpr):
    """The device's approximation is off by 1e-7 or so, which is enough here, and five times quicker than the library's."""
    if FAST:
        return libdevice.fast_logf(x)
    else:
        return tl.log(x)


@triton.jit
def _noisy(x, bits, inverse, cold, FAST: tl.constexpr):
    """The scaled logit with its noise. -log(1 - u) needs a series where u is small: the subtraction would lose its digits."""
    u = tl.minimum((bits.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 0.9999999403953552)
    waiting = tl.where(u < 0.02, u * (1 + u * (0.5 + u * (0.3333333333333333 + u * 0.25))), -_log(1 - u, FAST))
    return x * inverse - tl.where(cold, 0.0, _log(waiting, FAST))


@triton.jit
def _better(sampled, at, x, best, best_at, best_logit):
    wins = sampled > best
    return tl.where(wins, sampled, best), tl.where(wins, at, best_at), tl.where(wins, x, best_logit)


@triton.jit
def _draw(
    logits, rows, positions, active, seeds, temperatures, found, vocabulary, quarter,
    PACKED: tl.constexpr, PARTS: tl.constexpr, SPAN: tl.constexpr, BLOCK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The best of one part of the vocabulary, and what the part adds to the sum of exponentials."""
    line = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    row = line
    if PACKED:
        row = tl.load(rows + line).to(tl.int64)
    if tl.load(active + row) == 0:
        return
    position = tl.load(positions + row) + 1
    seed = tl.load(seeds + row)
    temperature = tl.load(temperatures + row)
    cold = temperature == 0.0
    inverse = 1.0 / tl.where(cold, 1.0, temperature)
    base = logits + line * vocabulary
    lane = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    best_at = tl.zeros([BLOCK], tl.int32)
    best_logit = tl.full([BLOCK], float("-inf"), tl.float32)
    high = tl.full([BLOCK], -1e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(part * SPAN, tl.minimum((part + 1) * SPAN, quarter), BLOCK):
        at = start + lane
        none = at * 0
        w0, w1, w2, w3 = tl.philox(seed, at, none + position, none, none, _ROUNDS)
        fits = at < quarter
        at1 = at + quarter
        at2 = at1 + quarter
        at3 = at2 + quarter
        x0 = tl.load(base + at, mask=fits, other=float("-inf"))
        x1 = tl.load(base + at1, mask=fits & (at1 < vocabulary), other=float("-inf"))
        x2 = tl.load(base + at2, mask=fits & (at2 < vocabulary), other=float("-inf"))
        x3 = tl.load(base + at3, mask=fits & (at3 < vocabulary), other=float("-inf"))
        best, best_at, best_logit = _better(_noisy(x0, w0, inverse, cold, FAST), at, x0, best, best_at, best_logit)
        best, best_at, best_logit = _better(_noisy(x1, w1, inverse, cold, FAST), at1, x1, best, best_at, best_logit)
        best, best_at, best_logit = _better(_noisy(x2, w2, inverse, cold, FAST), at2, x2, best, best_at, best_logit)
        best, best_at, best_logit = _better(_noisy(x3, w3, inverse, cold, FAST), at3, x3, best, best_at, best_logit)
        peak = tl.maximum(tl.maximum(tl.maximum(x0, x1), tl.maximum(x2, x3)) * inverse, high)
        total = total * tl.exp(high - peak) + tl.exp(x0 * inverse - peak) + tl.exp(x1 * inverse - peak)
        total += tl.exp(x2 * inverse - peak) + tl.exp(x3 * inverse - peak)
        high = peak
    top = tl.max(best)
    token = tl.min(tl.where(best == top, best_at, 2147483647))
    logit = tl.max(tl.where((best == top) & (best_at == token), best_logit, float("-inf")))
    peak = tl.max(high)
    to = found + (line * PARTS + part) * 5
    tl.store(to, top)
    tl.store(to + 1, token.to(tl.float32, bitcast=True))
    tl.store(to + 2, logit * inverse)
    tl.store(to + 3, peak)
    tl.store(to + 4, tl.sum(total * tl.exp(high - peak)))


@triton.jit
def _settle(
    found, rows, tokens, positions, active, left, ends, ring_tokens, ring_logprobs, cursor, slots,
    PACKED: tl.constexpr, PARTS: tl.constexpr, ENDS: tl.constexpr,
):  # fmt: skip
    """The best of the parts, and what follows from it for the row."""
    line = tl.program_id(0).to(tl.int64)
    row = line
    if PACKED:
        row = tl.load(rows + line).to(tl.int64)
    entry = tl.load(cursor) * slots + row
    if tl.load(active + row) == 0:
        tl.store(ring_tokens + entry, -1)
        return
    part = found + (line * PARTS + tl.arange(0, PARTS)) * 5
    best = tl.load(part)
    top = tl.max(best)
    places = tl.load(part + 1).to(tl.int32, bitcast=True)
    token = tl.min(tl.where(best == top, places, 2147483647))
    logit = tl.max(tl.where((best == top) & (places == token), tl.load(part + 2), float("-inf")))
    high = tl.load(part + 3)
    peak = tl.max(high)
    logprob = logit - peak - tl.log(tl.sum(tl.load(part + 4) * tl.exp(high - peak)))
    remaining = tl.load(left + row) - 1
    over = remaining <= 0
    for number in tl.static_range(ENDS):
        over = over | (token == tl.load(ends + number))
    tl.store(ring_tokens + entry, token)
    tl.store(ring_logprobs + entry, logprob)
    tl.store(tokens + row, token)
    tl.store(positions + row, tl.load(positions + row) + 1)
    tl.store(left + row, remaining)
    tl.store(active + row, tl.where(over, 0, 1))


def sample_tokens(
    logits: Tensor, rows: Tensor | None, *, tokens: Tensor, positions: Tensor, active: Tensor, left: Tensor, seeds: Tensor,
    temperatures: Tensor, ends: Tensor, ring_tokens: Tensor, ring_logprobs: Tensor, cursor: Tensor,
) -> None:  # fmt: skip
    """Draw for row `rows[i]` (or `i`) from `logits[i]` (fp32) and move its state on. Entry `cursor` of the ring gets the results."""
    lines, vocabulary = logits.shape
    packed = rows is not None
    rows = positions if rows is None else rows
    quarter = triton.cdiv(vocabulary, 4)
    count = 4 if lines >= 256 else 16  # few rows would leave most of the device idle
    span = triton.cdiv(triton.cdiv(quarter, BLOCK), count) * BLOCK
    found = torch.empty((lines, count, 5), dtype=torch.float32, device=logits.device)
    _draw[(lines, count)](
        logits, rows, positions, active, seeds, temperatures, found, vocabulary, quarter,
        PACKED=packed, PARTS=count, SPAN=span, BLOCK=BLOCK, FAST=logits.is_cuda, num_warps=4,
    )  # fmt: skip
    _settle[(lines,)](
        found, rows, tokens, positions, active, left, ends, ring_tokens, ring_logprobs, cursor, ring_tokens.shape[1],
        PACKED=packed, PARTS=count, ENDS=ends.shape[0], num_warps=1,
    )  # fmt: skip
