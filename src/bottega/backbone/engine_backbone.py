"""A token backbone over the engine: requests of overlapping calls share one running batch. Local models and vLLM differ in the runner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bottega.backbone.chat import TokenCompletion, Tokenizer, TokenRequest
from bottega.backbone.engine import DeviceLock, Engine
from bottega.backbone.generation import generation_of
from bottega.backbone.runner import BatchRunner
from bottega.backbone.tokenizer import HuggingFaceTokenizer


class EngineBackbone:
    """A `TokenBackbone`. A slot is filled again when its answer is over."""

    def __init__(self, name: str, tokenizer: HuggingFaceTokenizer, vocabulary: int, runner: BatchRunner) -> None:
        self.name, self.tokenizer, self.vocabulary = name, tokenizer, vocabulary
        self.policy_version = 0
        self._runner = runner
        self._engine = Engine(runner, tokenizer.ends)

    tokenizer: Tokenizer

    async def complete(self, requests: Sequence[TokenRequest]) -> list[TokenCompletion]:
        limits = self.tokenizer.context, self._runner.capacity, self.vocabulary
        generations = [generation_of(request, *limits, self.tokenizer.decode) for request in requests]
        self._engine.submit(generations)
        try:
            return list(await asyncio.gather(*(asyncio.wrap_future(each.future) for each in generations)))
        except BaseException:  # cancelled, or one of them failed: nobody waits for the others any more
            self._engine.cancel(generations)
            raise

    def share(self, lock: Callable[[], DeviceLock]) -> DeviceLock:
        """Use the device only as a lock allows it from now on; the one that was made first stays."""
        return self._engine.lock or self._engine.share(lock())

    @property
    def load_now(self) -> tuple[int, int]:
        """How many requests are being answered, and how many wait."""
        return self._engine.load

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.close)
