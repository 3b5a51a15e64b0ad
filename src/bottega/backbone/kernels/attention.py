"""Attention over the paged cache. One program serves all query heads of a kv head, so that keys and values are read once.

Decoding reads each row's valid length and nothing more, cut in several parts where there are too few rows to fill the device.
Reading a prompt goes through the same pages: a tile of new tokens attends to all that lies before it, whoever wrote it.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

DECODE = {"num_warps": 2, "num_stages": 5}
PROMPT = {"num_warps": 4, "num_stages": 2}
"""How the compiler is to lay the two kernels out. By trying, on one H200: decoding 512 rows reads at nine tenths of what a plain sum does."""
_LOG2E = 1.4426950408889634


@triton.jit
def _decode(
    queries, keys, values, table, table_width, positions, active, out, parts, peaks, totals, scale,
    GROUP: tl.constexpr, LINES: tl.constexpr, KV: tl.constexpr, HEAD: tl.constexpr, PAGE: tl.constexpr,
    SPLITS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    kv = tl.program_id(1)
    split = tl.program_id(2)
    if tl.load(active + row) == 0:
        return
    length = tl.load(positions + row) + 1
    pages = tl.cdiv(length, PAGE)
    share = tl.cdiv(pages, SPLITS)
    begin = split * share
    end = tl.minimum(begin + share, pages)
    line = tl.arange(0, LINES)
    lane = tl.arange(0, HEAD)
    place = tl.arange(0, PAGE)
    mine = (row * KV + kv) * GROUP + line
    query = tl.load(queries + mine[:, None] * HEAD + lane[None, :], mask=line[:, None] < GROUP, other=0.0)
    peak = tl.full([LINES], float("-inf"), tl.float32)
    total = tl.zeros([LINES], tl.float32)
    mixed = tl.zeros([LINES, HEAD], tl.float32)
    within = kv * PAGE * HEAD + place[:, None] * HEAD + lane[None, :]
    for number in range(begin, end):
        page = tl.load(table + row * table_width + number).to(tl.int64) * KV * PAGE * HEAD
        valid = number * PAGE + place < length
        key = tl.load(keys + page + within, mask=valid[:, None], other=0.0)
        value = tl.load(values + page + within, mask=valid[:, None], other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee" if EXACT else "tf32") * scale
        score = tl.where(valid[None, :], score, float("-inf"))
        top = tl.maximum(peak, tl.max(score, 1))
        fade = tl.exp2(peak - top)
        share_of = tl.exp2(score - top[:, None])
        total = total * fade + tl.sum(share_of, 1)
        mixed = mixed * fade[:, None]
        mixed += tl.dot(share_of.to(value.dtype), value, input_precision="ieee" if EXACT else "tf32")
        peak = top
    keep = line < GROUP
    if SPLITS == 1:
        mixed = mixed / total[:, None]
        tl.store(out + mine[:, None] * HEAD + lane[None, :], mixed.to(out.dtype.element_ty), mask=keep[:, None])
    else:
        tl.store(peaks + mine * SPLITS + split, peak, mask=keep)
        tl.store(totals + mine * SPLITS + split, total, mask=keep)
        tl.store(parts + (mine[:, None] * SPLITS + split) * HEAD + lane[None, :], mixed, mask=keep[:, None])


@triton.jit
def _combine(parts, peaks, totals, active, out, HEADS: tl.constexpr, HEAD: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    if tl.load(active + row) == 0:
        return
    mine = row * HEADS + tl.program_id(1)
    split = tl.arange(0, SPLITS)
    lane = tl.arange(0, HEAD)
    peak = tl.load(peaks + mine * SPLITS + split)
    weight = tl.exp2(peak - tl.max(peak))
    total = tl.sum(tl.load(totals + mine * SPLITS + split) * weight)
    part = tl.load(parts + (mine * SPLITS + split[:, None]) * HEAD + lane[None, :])
    tl.store(out + mine * HEAD + lane, (tl.sum(part * weight[:, None], 0) / total).to(out.dtype.element_ty))


def decode_attention(
    queries: Tensor, keys: Tensor, values: Tensor, table: Tensor, positions: Tensor, active: Tensor, scale: float, splits: int
) -> Tensor:
    """One new token for each row: [rows, heads, head] to [rows, heads * head]. What rows that are not active get is not said."""
    rows, heads, head = queries.shape
    _, kv, page, _ = keys.shape
    out = torch.empty_like(queries)
    parts = peaks = totals = out
    if splits > 1:
        parts = torch.empty((rows, heads, splits, head), dtype=torch.float32, device=out.device)
        peaks, totals = torch.empty((2, rows, heads, splits), dtype=torch.float32, device=out.device)
    _decode[(rows, kv, splits)](
        queries, keys, values, table, table.shape[1], positions, active, out, parts, peaks, totals, scale * _LOG2E,
        GROUP=heads // kv, LINES=max(16, triton.next_power_of_2(heads // kv)), KV=kv, HEAD=head, PAGE=page, SPLITS=splits,
        EXACT=queries.dtype == torch.float32, **DECODE,
    )  # fmt: skip
    if splits > 1:
        _combine[(rows, heads)](parts, peaks, totals, active, out, HEADS=heads, HEAD=head, SPLITS=splits, num_warps=2)
    return out.view(rows, heads * head)


@triton.jit
def _read(
    queries, keys, values, table, table_width, firsts, rows, places, counts, out, scale,
    GROUP: tl.constexpr, KV: tl.constexpr, HEAD: tl.constexpr, PAGE: tl.constexpr, TILE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    kv = head // GROUP
    first = tl.load(firsts + tile).to(tl.int64)
    row = tl.load(rows + tile).to(tl.int64)
    place = tl.load(places + tile)
    count = tl.load(counts + tile)
    line = tl.arange(0, TILE)
    lane = tl.arange(0, HEAD)
    step = tl.arange(0, PAGE)
    mine = ((first + line) * KV * GROUP + head)[:, None] * HEAD + lane[None, :]
    query = tl.load(queries + mine, mask=line[:, None] < count, other=0.0)
    peak = tl.full([TILE], float("-inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    mixed = tl.zeros([TILE, HEAD], tl.float32)
    within = kv * PAGE * HEAD + step[:, None] * HEAD + lane[None, :]
    length = place + count
    for number in range(tl.cdiv(length, PAGE)):
        page = tl.load(table + row * table_width + number).to(tl.int64) * KV * PAGE * HEAD
        at = number * PAGE + step
        key = tl.load(keys + page + within, mask=at[:, None] < length, other=0.0)
        value = tl.load(values + page + within, mask=at[:, None] < length, other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee" if EXACT else "tf32") * scale
        score = tl.where(at[None, :] <= (place + line)[:, None], score, float("-inf"))
        top = tl.maximum(peak, tl.max(score, 1))
        fade = tl.exp2(peak - top)
        share_of = tl.exp2(score - top[:, None])
        total = total * fade + tl.sum(share_of, 1)
        mixed = mixed * fade[:, None]
        mixed += tl.dot(share_of.to(value.dtype), value, input_precision="ieee" if EXACT else "tf32")
        peak = top
    tl.store(out + mine, (mixed / total[:, None]).to(out.dtype.element_ty), mask=line[:, None] < count)


def prompt_attention(
    queries: Tensor, keys: Tensor, values: Tensor, table: Tensor, tiles: Tensor, scale: float, tile: int
) -> Tensor:
    """Packed prompts: [tokens, heads, head] to [tokens, heads * head].

    A column of `tiles` is (first token in the pack, row of the table, its position, how many tokens).
    """
    tokens, heads, head = queries.shape
    _, kv, page, _ = keys.shape
    out = torch.empty_like(queries)
    firsts, rows, places, counts = tiles
    _read[(tiles.shape[1], heads)](
        queries, keys, values, table, table.shape[1], firsts, rows, places, counts, out, scale * _LOG2E,
        GROUP=heads // kv, KV=kv, HEAD=head, PAGE=page, TILE=tile, EXACT=queries.dtype == torch.float32,
        **PROMPT,
    )  # fmt: skip
    return out.view(tokens, heads * head)
