"""The backbone whose weights live in this process: sampled from by many tasks at once, changed in place by a trainer beside it."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from bottega.backbone.engine_backbone import EngineBackbone
from bottega.backbone.loading import EMBEDDED, LoadedModel, free_memory, load
from bottega.backbone.paged_runner import PagedRunner
from bottega.backbone.plain_runner import PlainRunner
from bottega.backbone.runner import BatchRunner, MemoryClaim
from bottega.backbone.transformers_runner import TransformersRunner
from bottega.backbone.weights import Weights, bare, unfit
from bottega.core.errors import BackboneError

SLOTS = {"cpu": 32, "cuda": 512}
USUAL = 4096
"""Tokens that the cache may have for each slot where the memory allows it and nothing else is asked for."""


@dataclass(frozen=True)
class Memory:
    """In bytes."""

    weights: int
    buffers: int
    """Joined or merged copies of weights, for the decoder."""
    cache: int

    @property
    def total(self) -> int:
        return self.weights + self.buffers + self.cache


class LocalBackbone(EngineBackbone):
    """A trainer changes the module's parameters in place and then calls `weights_changed`. It should do so while nothing is being
    sampled: an answer that is under way goes on with the new weights, and carries the older policy version.
    """

    def __init__(
        self, loaded: LoadedModel, *, slots: int | None = None, cache_tokens: int | None = None, dtype: torch.dtype | None = None,
        graphs: bool = True, adopt: bool = False,
    ) -> None:  # fmt: skip
        """`dtype` is that of the decoder, if it is to differ from the module's: bf16 beside a trainer's fp32, say. `adopt`: the module is there for
        the decoder alone, which may lay out its weights anew."""
        self.model = loaded.model
        vocabulary = bare(self.model).get_input_embeddings().weight.shape[0]
        super().__init__(loaded.name, loaded.tokenizer, vocabulary, _runner(loaded, slots, cache_tokens, dtype, graphs, adopt))

    @classmethod
    def embedded(cls, **options: Any) -> LocalBackbone:
        """The small model that comes along; options as for `open`."""
        return cls.open(EMBEDDED, **options)

    @classmethod
    def open(cls, name: str, *, slots: int | None = None, cache_tokens: int | None = None, **options: Any) -> LocalBackbone:
        """A folder or a hub name, with the options of `loading.load`: device, dtype, lora, adapter, context, revision."""
        return cls(load(name, **options), slots=slots, cache_tokens=cache_tokens)

    def count_memory(self, claim: Callable[[int], MemoryClaim]) -> None:
        """Have what the model holds, weights and cache, counted where others who use the device are counted too."""
        held = claim(self.memory.total)
        fixed = self.memory.total - self.memory.cache
        if isinstance(self._runner, PagedRunner):
            self._runner.claimed = lambda cache: held.resize(fixed + cache)

    async def warm_up(self) -> None:
        """Compile and record for every batch size now: half a minute on a new machine with a GPU, seconds after that. Not needed."""
        await asyncio.to_thread(self._engine.between, self._runner.warm_up)

    def weights_changed(self, version: int | None = None, change: Callable[[], None] = lambda: None) -> int:
        """Tell the decoder that the module's parameters were changed in place; the new policy version, one more where none is given. Waits until
        it has seen them. `change` changes them now, while nothing is computed."""
        device = next(self.model.parameters()).device
        if device.type == "cuda":  # the caller's stream is not the decoder's: what the trainer has put on it must be done first
            torch.cuda.current_stream(device).synchronize()

        def refresh() -> int:
            change()
            self._runner.refresh()
            self._engine.version = self._engine.version + 1 if version is None else version
            return self._engine.version

        self.policy_version = self._engine.between(refresh)
        return self.policy_version

    @property
    def engine(self) -> str:
        """Which decoder serves the model, and why not a faster one."""
        why = self._runner.why
        return f"{self._runner.kind} ({why})" if why else self._runner.kind

    @property
    def device(self) -> str:
        """`cpu` or `cuda:N`."""
        device = next(self.model.parameters()).device
        return "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"

    @property
    def memory(self) -> Memory:
        weights = sum(parameter.numel() * parameter.element_size() for parameter in self.model.parameters())
        return Memory(weights, self._runner.buffer_bytes, self._runner.cache_bytes)

    async def close(self) -> None:
        """The cache's memory goes back to the device: others may need it while this object is still held."""
        await super().close()
        self._runner.hand_back()

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine is not None:  # else its thread would keep the cache for good
            engine.close(wait=False)


def _runner(
    loaded: LoadedModel, slots: int | None, cache_tokens: int | None, dtype: torch.dtype | None, graphs: bool, adopt: bool
) -> BatchRunner:
    model, tokenizer = loaded.model, loaded.tokenizer
    device = next(model.parameters()).device
    slots = slots or SLOTS[device.type]
    if slots < 1:
        raise BackboneError(f"a backbone needs at least one slot, not {slots}")
    why = unfit(model)
    if why:
        config = bare(model).config
        padding = next((i for i in (tokenizer.inner.pad_token_id, *tokenizer.ends) if i is not None), 0)
        each = 2 * config.hidden_size * config.num_hidden_layers * next(model.parameters()).element_size()
        return TransformersRunner(model, slots, _capacity(slots, cache_tokens, tokenizer.context, each, device), padding, why)
    weights = Weights(model, tokenizer.context, dtype, adopt)
    capacity = _capacity(slots, cache_tokens, tokenizer.context, weights.shape.cache_bytes(weights.dtype), device)
    head = weights.shape.head
    kernels = device.type == "cuda" and importlib.util.find_spec("triton") is not None and head & (head - 1) == 0 and head >= 16
    if kernels:
        return PagedRunner(weights, slots, capacity, tokenizer.context, tokenizer.ends, graphs)
    return PlainRunner(weights, slots, capacity)


def _capacity(slots: int, asked: int | None, context: int, each: int, device: torch.device) -> int:
    """How many tokens the cache may come to hold: what was asked for, or the usual amount, within a quarter of the free memory."""
    free = free_memory(str(device))
    if asked is not None:
        if free is not None and asked * each > free:
            raise BackboneError(
                f"a cache of {asked} tokens takes {asked * each / 2**30:.1f} GiB and {device} has {free / 2**30:.1f} GiB free: "
                "lower cache_tokens"
            )
        return asked
    usual = slots * min(context, USUAL)
    return usual if free is None else max(64, min(usual, free // 4 // each))
