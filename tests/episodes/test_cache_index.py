"""A layer's number may differ from that of the layer that a kernel was made for, where only a cache reads it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bottega.episodes.delivery.cache_index import ignorable


class Cached(nn.Module):
    def __init__(self, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx, self.linear = layer_idx, nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, cache: Any = None) -> torch.Tensor:
        keys = self.linear(x)
        return keys if cache is None else cache.update(keys, self.layer_idx)


class Scaled(Cached):
    def forward(self, x: torch.Tensor, cache: Any = None) -> torch.Tensor:
        return super().forward(x, cache) / (self.layer_idx + 1)


def test_a_number_that_only_a_cache_reads_may_differ() -> None:
    assert ignorable(nn.Sequential(nn.ReLU(), Cached(3))) == ("layer_idx",)
    assert ignorable(nn.Sequential(Cached(3), Scaled(3))) == ()  # one part computes with it
    assert ignorable(nn.Linear(2, 2)) == ()


def test_of_real_layers() -> None:
    from transformers import GPT2Config, LlamaConfig
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    assert ignorable(LlamaDecoderLayer(LlamaConfig(**sizes), 1)) == ("layer_idx",)
    assert ignorable(GPT2Block(GPT2Config(n_embd=16, n_head=2), 1)) == ()
