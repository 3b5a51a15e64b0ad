"""One generation in progress: its request, the tokens sampled so far, and the test for its end. Knows no model and no device."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from bottega.backbone.chat import Sampling, StopReason, TokenCompletion, TokenRequest
from bottega.core.errors import BackboneError, UsageError

Decode = Callable[[Sequence[int]], str]


def no_text(ids: Sequence[int]) -> str:
    """For requests without stop strings."""
    return ""


@dataclass(eq=False)
class ActiveGeneration:
    prompt: tuple[int, ...]
    limit: int
    """How many tokens it may draw."""
    temperature: float
    seed: int
    """Below 2**63."""
    stop: tuple[str, ...] = ()
    decode: Decode = no_text
    """Tokens to text, for the stop strings."""
    future: Future[TokenCompletion] = field(default_factory=Future)
    cancelled: bool = False
    """Set by the asker's thread, seen by the engine's."""
    version: int = 0
    """The weights that were there when its prompt was read."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    launched: int = 0
    """Draws that were asked of the device, seen or not."""

    @property
    def length(self) -> int:
        """Tokens of the cache that it may come to need."""
        return len(self.prompt) + self.limit

    def extend(self, ids: Sequence[int], logprobs: Sequence[float], ends: Collection[int]) -> StopReason | None:
        """Take in what was sampled, up to where the answer ends; says why it ended, or nothing while it has not."""
        for token, logprob in zip(ids, logprobs):
            if math.isnan(logprob):
                raise BackboneError(
                    "the model's weights give no numbers (NaN): load a sound checkpoint, or lower the step size"
                )
            self.ids.append(token)
            self.logprobs.append(logprob)
            if token in ends or self._stopped():
                return "stop"
            if len(self.ids) >= self.limit:
                return "length"
        return None

    def _stopped(self) -> bool:
        """Whether a stop string ends in the last tokens: a character may take as many as four of them."""
        if not self.stop:
            return False
        tail = self.decode(self.ids[-4 * max(map(len, self.stop)) - 1 :])
        return any(each in tail for each in self.stop)

    def completion(self, reason: StopReason) -> TokenCompletion:
        return TokenCompletion(tuple(self.ids), tuple(self.logprobs), reason, self.version)


def generation_of(
    request: TokenRequest, context: int, capacity: int, vocabulary: int, decode: Decode = no_text
) -> ActiveGeneration:
    """What a request asks for, checked against what the model and the cache can hold."""
    sampling, prompt = request.sampling, request.prompt_ids
    _check(sampling)
    if not prompt:
        raise BackboneError("the prompt is empty: a model needs at least one token to begin from")
    if len(prompt) >= context:
        raise BackboneError(
            f"the prompt has {len(prompt)} tokens and the context only {context}: nothing is left for an answer. Shorten the prompt"
        )
    if min(prompt) < 0 or max(prompt) >= vocabulary:
        raise BackboneError(f"the prompt holds ids outside 0 to {vocabulary - 1}: it was made with another model's tokenizer")
    limit = min(sampling.max_tokens, context - len(prompt))
    if len(prompt) + limit > capacity:
        raise BackboneError(
            f"prompt and answer may take {len(prompt) + limit} tokens and the cache holds {capacity}: "
            "lower max_tokens, or give the backbone more cache_tokens"
        )
    seed = secrets.randbits(63) if sampling.seed is None else sampling.seed & (2**63 - 1)
    return ActiveGeneration(prompt, limit, sampling.temperature, seed, sampling.stop, decode)


def _check(sampling: Sampling) -> None:
    if sampling.max_tokens < 1:
        raise UsageError(f"max_tokens is {sampling.max_tokens}: an answer has at least one token")
    if not (sampling.temperature >= 0 and math.isfinite(sampling.temperature)):
        raise UsageError(f"temperature is {sampling.temperature}: it must be 0 or a positive number")
    if "" in sampling.stop:
        raise UsageError("a stop string is empty, and would end every answer at once: leave it out")
