"""Self-attention of `nn.MultiheadAttention` as eager evaluation computes it: torch.export sees the other path through that module, which turns batch
and positions round and back. The results are the same; their layout, and what is copied on the way, are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F


@contextmanager
def straight_attention() -> Iterator[None]:
    """While it is on, such modules go straight from the projection to the heads."""
    usual = nn.MultiheadAttention.forward

    def forward(self: nn.MultiheadAttention, query: Any, key: Any, value: Any, *arguments: Any, **options: Any) -> Any:
        if query is key is value and not arguments and _goes_straight(self, query, options):
            return _attended(self, query), None
        return usual(self, query, key, value, *arguments, **options)

    with mock.patch.object(nn.MultiheadAttention, "forward", forward):
        yield


def _goes_straight(module: nn.MultiheadAttention, x: torch.Tensor, options: dict[str, Any]) -> bool:
    """Whether eager evaluation has one operator for it, as far as a module's shape says."""
    asked = {name for name, value in options.items() if value is not None and value is not False}
    wanted = asked <= {"average_attn_weights"} and options.get("need_weights") is False
    usual = module.batch_first and module._qkv_same_embed_dim and module.bias_k is None and not module.add_zero_attn
    return wanted and usual and not module.training and x.dim() == 3 and module.num_heads % 2 == 0 and not x.is_nested


def _attended(module: nn.MultiheadAttention, x: torch.Tensor) -> torch.Tensor:
    batch, length, width = x.shape
    whole = F.linear(x, module.in_proj_weight, module.in_proj_bias)
    q, k, v = (part.reshape(batch, length, module.num_heads, -1).transpose(1, 2) for part in whole.chunk(3, -1))
    attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
    return F.linear(attended, module.out_proj.weight, module.out_proj.bias)
