"""The backbone whose weights live in this process: drawn from by many tasks at once, changed in place by a trainer beside it."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bottega.backbone.engine import DeviceLock, Engine
from bottega.backbone.foreign import ForeignRunner
from bottega.backbone.generation import draft
from bottega.backbone.loading import EMBEDDED, Loaded, free_memory, load
from bottega.backbone.paged import PagedRunner
from bottega.backbone.plain import PlainRunner
from bottega.backbone.runner import MemoryClaim, Runner
from bottega.backbone.teacher import Row, teacher_forced
from bottega.backbone.tokens import TokenCompletion, Tokenizer, TokenRequest
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


class LocalBackbone:
    """A `Trainable`. Requests of overlapping calls share one running batch; a slot is filled again when its answer is over.

    A trainer changes the module's parameters in place and then calls `weights_changed`. It should do so while nothing is being
    drawn: an answer that is under way goes on with the new weights, and carries the older policy version.
    """

    def __init__(
        self, loaded: Loaded, *, slots: int | None = None, cache_tokens: int | None = None, dtype: torch.dtype | None = None,
        graphs: bool = True,
    ) -> None:  # fmt: skip
        """`dtype` is that of the decoder, if it is to differ from the module's: bf16 beside a trainer's fp32, say."""
        self.name = loaded.name
        self.tokenizer: Tokenizer = loaded.tokenizer
        self.model = loaded.model
        self.policy_version = 0
        self._runner = _runner(loaded, slots, cache_tokens, dtype, graphs)
        self._engine = Engine(self._runner, loaded.tokenizer.ends, loaded.tokenizer.decode)

    @classmethod
    def embedded(cls, **options: Any) -> LocalBackbone:
        """The small model that comes along; options as for `open`."""
        return cls.open(EMBEDDED, **options)

    @classmethod
    def open(cls, name: str, *, slots: int | None = None, cache_tokens: int | None = None, **options: Any) -> LocalBackbone:
        """A folder or a hub name, with the options of `loading.load`: device, dtype, lora, adapter, context, revision."""
        return cls(load(name, **options), slots=slots, cache_tokens=cache_tokens)

    async def complete(self, requests: Sequence[TokenRequest]) -> list[TokenCompletion]:
        vocabulary = bare(self.model).get_input_embeddings().weight.shape[0]
        drafts = [draft(request, self.tokenizer.context, self._runner.capacity, vocabulary) for request in requests]
        self._engine.submit(drafts)
        try:
            return list(await asyncio.gather(*(asyncio.wrap_future(each.future) for each in drafts)))
        except BaseException:  # cancelled, or one of them failed: nobody waits for the others any more
            self._engine.cancel(drafts)
            raise

    def share(self, lock: Callable[[], DeviceLock]) -> DeviceLock:
        """Use the device only as a lock allows it from now on; the one that was made first stays."""
        return self._engine.lock or self._engine.share(lock())

    def count_memory(self, claim: Callable[[int], MemoryClaim]) -> None:
        """Have what the model holds, weights and cache, counted where others who use the device are counted too."""
        held = claim(self.memory.total)
        fixed = self.memory.total - self.memory.cache
        if isinstance(self._runner, PagedRunner):
            self._runner.claimed = lambda cache: held.resize(fixed + cache)

    async def warm_up(self) -> None:
        """Compile and record for every batch size now: half a minute on a new machine with a GPU, seconds after that. Not needed."""
        await asyncio.to_thread(self._engine.between, self._runner.warm_up)

    def logprobs(self, rows: Sequence[Row]) -> list[list[float]]:
        return teacher_forced(self.model, rows)

    def weights_changed(self) -> int:
        """Tell the decoder that the module's parameters were changed in place; the new policy version. Waits until it has seen them."""
        self._settle_device()
        return self._raised()

    def update(self, state: Mapping[str, Tensor]) -> int:
        """Copy new values into some or all parameters, by their names in the module; the new policy version."""
        known = dict(self.model.named_parameters(remove_duplicate=False))
        for name, value in state.items():
            if name not in known:
                raise BackboneError(
                    f"{self.name} has no parameter {name!r}: a state of another model, or of an adapter not loaded here"
                )
            if known[name].shape != value.shape:
                raise BackboneError(f"{name} is {tuple(known[name].shape)} here and {tuple(value.shape)} in the new state")

        def write() -> None:
            for name, value in state.items():
                known[name].data.copy_(value)

        self._settle_device()
        self._engine.between(write)
        return self._raised()

    @property
    def engine(self) -> str:
        """Which decoder serves the model, and why not a faster one."""
        why = getattr(self._runner, "why", "")
        return f"{self._runner.kind} ({why})" if why else self._runner.kind

    @property
    def device(self) -> str:
        """`cpu` or `cuda:N`."""
        device = next(self.model.parameters()).device
        return "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"

    @property
    def slots(self) -> int:
        return self._runner.slots

    @property
    def load_now(self) -> tuple[int, int]:
        """How many requests are being answered, and how many wait."""
        return self._engine.load

    @property
    def memory(self) -> Memory:
        weights = sum(parameter.numel() * parameter.element_size() for parameter in self.model.parameters())
        return Memory(weights, self._runner.buffer_bytes, self._runner.cache_bytes)

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.close)

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine is not None:  # else its thread would keep the cache for good
            engine.close(wait=False)

    def _raised(self) -> int:
        def refresh() -> int:
            self._runner.refresh()
            self._engine.version += 1
            return self._engine.version

        self.policy_version = self._engine.between(refresh)
        return self.policy_version

    def _settle_device(self) -> None:
        """The caller's stream is not the decoder's: what the trainer has put on it must be done first."""
        device = next(self.model.parameters()).device
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()


def _runner(loaded: Loaded, slots: int | None, cache_tokens: int | None, dtype: torch.dtype | None, graphs: bool) -> Runner:
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
        foreign = ForeignRunner(model, slots, _capacity(slots, cache_tokens, tokenizer.context, each, device), padding)
        foreign.why = why
        return foreign
    weights = Weights(model, tokenizer.context, dtype)
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
