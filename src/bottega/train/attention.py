"""Attention within documents: every token sees the earlier tokens of its own document and nothing else.

On a GPU in half precision it is torch's flash attention over documents of unequal length, one call for the pack. Elsewhere it is a
loop of plain causal attention, one document at a time, which computes nothing that a mask would throw away. cuDNN's attention would be a
third faster, but over documents of unequal length its gradients came out wrong (torch 2.11); flex attention was no faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(queries [T, heads, head], keys and values [T, kv_heads, head]) to [T, heads, head]."""


def flash(queries: Tensor, keys: Tensor, values: Tensor, starts: Tensor, longest: int, scale: float) -> Tensor:
    """`starts` [D + 1] may end with documents of no length, and `longest` may be more than the longest document is."""
    found = torch.ops.aten._flash_attention_forward(
        queries, keys, values, starts, starts, longest, longest, 0.0, True, False, scale=scale
    )
    mixed: Tensor = found[0]
    return mixed


def by_document(lengths: Sequence[int], scale: float) -> Attend:
    """Documents beyond `lengths` are padding, and come out as zeros."""

    def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        group = queries.shape[1] // keys.shape[1]
        mixed, at = [], 0
        for length in lengths:
            part = slice(at, at + length)
            at += length
            asking, keyed, valued = (each[part].transpose(0, 1)[None] for each in (queries, keys, values))
            keyed, valued = keyed.repeat_interleave(group, 1), valued.repeat_interleave(group, 1)
            one = F.scaled_dot_product_attention(asking, keyed, valued, is_causal=True, scale=scale)
            mixed.append(one[0].transpose(0, 1))
        if at < len(queries):
            mixed.append(queries.new_zeros((len(queries) - at, *queries.shape[1:])))
        return torch.cat(mixed)

    return attend
