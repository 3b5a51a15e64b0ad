"""A layer's number may differ from that of the layer that a kernel was made for, where it changes no answer."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

from bottega.core.arguments import Arguments
from bottega.episodes.delivery.alike import alike


class Cached(nn.Module):
    def __init__(self, layer_idx: int, width: int = 1) -> None:
        super().__init__()
        self.layer_idx, self.linear, self.width = layer_idx, nn.Linear(2, 2), width

    def forward(self, x: torch.Tensor, cache: Any = None) -> torch.Tensor:
        keys = self.linear(x)
        return keys if cache is None else cache.update(keys, self.layer_idx)


class Scaled(Cached):
    def forward(self, x: torch.Tensor, cache: Any = None) -> torch.Tensor:
        return super().forward(x, cache) / (self.layer_idx // 2 + 1)


class Noisy(Scaled):
    """As sums on a GPU are whose order is left to chance."""

    noise = itertools.cycle([0.0, 1e-6])

    def forward(self, x: torch.Tensor, cache: Any = None) -> torch.Tensor:
        return super().forward(x, cache) + next(self.noise)


def test_what_a_module_differs_by_from_itself_its_like_may_differ_by_too() -> None:
    given = Arguments((torch.ones(1, 2),), {})
    noisy = [Noisy(0), Noisy(1), Noisy(2)]
    assert alike(noisy, given) == (noisy[:2], ("layer_idx",))


def test_modules_that_differ_in_what_no_answer_depends_on_are_alike() -> None:
    given = Arguments((torch.ones(1, 2),), {})
    cached = [Cached(0), Cached(1), Cached(2, width=2)]
    assert alike(cached, given) == (cached[:2], ("layer_idx",)) and cached[0].layer_idx == 0
    scaled = [Scaled(0), Scaled(1), Scaled(2)]
    assert alike(scaled, given) == (scaled[:2], ("layer_idx",))  # this call is the same for two of them
    assert alike([scaled[0], scaled[2]], given) == ([scaled[0]], ())
    assert alike([Cached(0), Cached(1)], Arguments((), {}))[1] == ()  # which cannot be called so
    plain = [nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2, bias=True)]
    assert alike(plain, given) == (plain, ())


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_what_a_hook_makes_of_the_weights_is_no_difference() -> None:
    normed = [nn.utils.weight_norm(nn.Linear(2, 2)) for _ in range(2)]
    assert alike(normed, Arguments((torch.ones(1, 2),), {})) == (normed, ())


def test_of_real_layers() -> None:
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    given = Arguments((torch.randn(1, 4, 16),), {})
    blocks = [GPT2Block(GPT2Config(n_embd=16, n_head=2), number).eval() for number in range(2)]
    assert alike(blocks, given) == (blocks, ("layer_idx",))
    scaled = GPT2Config(n_embd=16, n_head=2, scale_attn_by_inverse_layer_idx=True)
    assert len(alike([GPT2Block(scaled, number).eval() for number in range(2)], given)[0]) == 1
