"""The base of all batch runners: paged cache and kernels on a GPU, plain torch anywhere, transformers for the rest, and vLLM.

The engine decides who is in the batch; a runner owns the cache and the device, and knows generations, not requests or futures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch

from bottega.backbone.generation import ActiveGeneration
from bottega.backbone.sampler import sample


@dataclass(frozen=True)
class Sampled:
    generation: ActiveGeneration
    ids: list[int]
    logprobs: list[float]
    over: bool = False
    """The runner itself has ended it, and will draw no more."""


class StepWindow(Protocol):
    """A few steps that were put on the device together, looked at once."""

    @property
    def draws(self) -> int:
        """How many tokens every generation that goes on has at least in it."""
        ...

    def collect(self) -> list[Sampled]:
        """Wait for the device, then what was sampled. Generations that drew nothing may be left out."""
        ...


@dataclass(frozen=True)
class FinishedWindow:
    """A window of a runner that has nothing to wait for."""

    sampled: list[Sampled]
    draws: int = 1

    def collect(self) -> list[Sampled]:
        return self.sampled


class MemoryClaim(Protocol):
    """The bytes that a model holds on a device, where all who use the device are counted together."""

    def resize(self, size: int) -> bool:
        """Called before more is taken, and after some was given back. Whether it may be had; waits for nobody."""
        ...


def sampled_of(generations: Sequence[ActiveGeneration], logits: torch.Tensor) -> list[Sampled]:
    """One token for each generation, from its row of the logits."""
    ids, logprobs = sample(
        logits,
        [generation.temperature for generation in generations],
        [generation.seed for generation in generations],
        [len(generation.prompt) + len(generation.ids) for generation in generations],
    )
    return [Sampled(generation, [token], [logprob]) for generation, token, logprob in zip(generations, ids, logprobs)]


class BatchRunner(ABC):
    """What a runner has no use for it leaves as it is here: doing nothing."""

    kind: str
    """For people: which one it is."""
    why = ""
    """Why a faster one cannot serve the model."""
    slots: int
    """How many generations it can have in the batch."""
    capacity: int
    """How many tokens its cache may come to hold."""
    lag = 0
    """How many windows may be under way before the oldest is looked at: 1 where the device works by itself."""

    @property
    def cache_bytes(self) -> int:
        return 0

    @property
    def buffer_bytes(self) -> int:
        """Copies of weights beside the module's own."""
        return 0

    def session(self) -> AbstractContextManager[object]:
        """Entered once by the thread that will call everything else."""
        return torch.inference_mode()

    def reserve(self, lengths: Sequence[int]) -> None:  # noqa: B027
        """Generations that are there or about to come may need so many tokens of the cache: have room for them, as far as the memory goes."""

    def hand_back(self) -> None:  # noqa: B027
        """No generation is left: give the cache's memory back to the device until a generation comes again."""

    @abstractmethod
    def take(self, generation: ActiveGeneration) -> bool:
        """Give it a place in the batch and in the cache, or say that there is none now."""

    @abstractmethod
    def prefill(self, generations: Sequence[ActiveGeneration]) -> None:
        """Read the prompts of generations that were taken, and draw their first tokens into the next window."""

    @abstractmethod
    def launch(self) -> StepWindow: ...

    @abstractmethod
    def drop(self, generation: ActiveGeneration) -> None:
        """It is over: its place is free. What is still under way for it will not be looked at."""

    def refresh(self) -> None:  # noqa: B027
        """The weights have changed. What was computed from the old ones may serve running generations, but no new ones."""

    def warm_up(self) -> None:  # noqa: B027
        """Compile now what would be compiled when it is first needed."""

    @abstractmethod
    def reset(self) -> None:
        """Drop everything after a failure."""
