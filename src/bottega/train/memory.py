"""What a training run needs of each GPU, added up before it begins: the arithmetic beside the presets, and the sentence that refuses too few.

Counted for Llama-like models in bf16, at the moment when most is held: the last layer has been passed, the logits of a chunk are there, and the
backward pass begins. Left out: what CUDA and the allocator keep for themselves, which takes some 5 %.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, fields
from typing import Any

import torch

from bottega.core.errors import UsageError
from bottega.train.lm_head_loss import CHUNK
from bottega.train.ranks import Ranks
from bottega.train.settings import Config

GIB = 2**30
ROOM = 0.95
"""Share of a GPU that a plan may take."""
RANKS = tuple(1 << power for power in range(11))


@dataclass(frozen=True)
class ModelSize:
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    tied: bool

    @classmethod
    def of(cls, config: Any) -> ModelSize:
        """Of a transformers configuration. Raises `AttributeError` for a model that is not Llama-like."""
        heads = config.num_attention_heads
        return cls(
            config.num_hidden_layers, config.hidden_size, config.intermediate_size, heads, config.num_key_value_heads,
            getattr(config, "head_dim", None) or config.hidden_size // heads, config.vocab_size, config.tie_word_embeddings,
        )  # fmt: skip

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Of a layer's matrices, [out, in]."""
        query, key = self.heads * self.head, self.kv_heads * self.head
        feed = [(self.inner, self.hidden), (self.inner, self.hidden), (self.hidden, self.inner)]
        return [(query, self.hidden), (key, self.hidden), (key, self.hidden), (self.hidden, query), *feed]

    @property
    def layer(self) -> int:
        """Parameters of one layer; norms are too small to count."""
        return sum(out * into for out, into in self.shapes)

    @property
    def tables(self) -> int:
        """Parameters of embedding and head."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        return self.layers * self.layer + self.tables

    def adapter(self, rank: int) -> int:
        return self.layers * rank * sum(out + into for out, into in self.shapes)


@dataclass(frozen=True)
class MemoryPlan:
    """In bytes, of the GPU that has most to hold: the leader's, where answers are drawn."""

    weights: float
    gradients: float
    moments: float
    reference: float
    critic: float
    """Weights, gradients and moments of its copy of the model."""
    gathered: float
    """Two layers and the tables, whole, while they are computed."""
    activations: float
    head: float
    """The gradient of the head, and logits of a chunk; or later one layer that is recomputed, if that takes more."""
    decoder: float
    """Weights that answers are drawn with, where they are not the trainer's own."""
    cache: float

    @property
    def total(self) -> float:
        return float(sum(getattr(self, part.name) for part in fields(self)))

    @property
    def resident(self) -> float:
        """What stays while answers are drawn."""
        return self.weights + self.moments + self.reference + self.critic

    def __str__(self) -> str:
        held = {part.name: getattr(self, part.name) / GIB for part in fields(self)}
        parts = ", ".join(f"{name} {value:.1f}" for name, value in held.items() if value >= 0.05)
        return f"{self.total / GIB:.0f} GiB ({parts})"


def memory_plan(size: ModelSize, config: Config, ranks: int, rollouts: bool = True) -> MemoryPlan:
    """`rollouts`: whether answers are drawn beside the trainer, as in RL."""
    lora, sharded = config.model.lora, ranks > 1 or config.sharding.offload
    trained = size.adapter(lora.rank) if lora else size.parameters
    frozen = size.parameters if lora else 0
    tokens = config.data.pack_tokens
    inside = tokens * (6 * size.hidden + 4 * size.inner) * 2  # of a layer, between what it reads and what it gives
    kept = tokens * size.hidden * 2
    chunk = min(tokens, CHUNK["cuda"]) * size.vocabulary
    here = 0 if config.sharding.offload else 1
    # The decoder joins or merges matrices in memory of its own; where it has a copy of the model, the tables are its own as well.
    apart = sharded or config.rollout.staleness > 0
    merged = size.layers * size.layer * (2 if lora and apart else 1)
    copied = 2 * size.parameters if apart and config.rollout.engine != "own" else 0  # for the servers, or for vLLM
    return MemoryPlan(
        weights=here * (4 * trained + 2 * frozen) / ranks,
        gradients=here * 4 * trained / ranks,
        moments=here * 8 * trained / ranks,
        reference=here * (2 if lora else 4) * size.parameters / ranks if config.loss.kl else 0,
        critic=16 * trained + 2 * frozen if config.has_critic else 0,
        gathered=2 * (2 * size.layer + size.tables) if sharded else 0,
        activations=size.layers * (kept if config.model.recompute else kept + inside),
        head=max(chunk * 6, inside * config.model.recompute) + (0 if lora else 4 * size.vocabulary * size.hidden),
        decoder=2 * (merged + (0 if lora and not apart else size.tables)) if rollouts else copied,
        cache=_cache_tokens(config) * size.layers * 2 * size.kv_heads * size.head * 2 if rollouts else 0,
    )


def _cache_tokens(config: Config) -> int:
    return config.rollout.cache_tokens or 2 * config.data.longest


def least_ranks(size: ModelSize, config: Config, memory: float, rollouts: bool = True) -> int | None:
    """How few GPUs of so much memory will do, in powers of two; none where no number does."""
    return next((count for count in RANKS if memory_plan(size, config, count, rollouts).total <= ROOM * memory), None)


def require_memory(model_config: Any, config: Config, ranks: Ranks, rollouts: bool = True) -> None:
    """Raises `UsageError` where a model would not fit the GPUs; nothing is said of a CPU, nor of models that cannot be added up."""
    if config.model.device == "cpu" or not torch.cuda.is_available():
        return
    with contextlib.suppress(AttributeError):
        size = ModelSize.of(model_config)
        require_fit(size, config, ranks.size, torch.cuda.get_device_properties(0).total_memory, rollouts)


def require_fit(size: ModelSize, config: Config, ranks: int, memory: float, rollouts: bool = True) -> None:
    """Raises `UsageError` where GPUs of so much memory are too few, with what would do."""
    plan = memory_plan(size, config, ranks, rollouts)
    vllm = config.rollout.vllm_memory * memory if config.rollout.engine == "vllm" else 0.0
    drawing = plan.total if config.rollout.staleness else plan.resident  # while the model learns, vLLM sleeps
    if plan.total <= memory < vllm + drawing:
        raise UsageError(
            f"vLLM takes rollout.vllm_memory = {config.rollout.vllm_memory:g} of a GPU, {vllm / GIB:.0f} GiB, and beside it {drawing / GIB:.0f} "
            f"GiB are held, of {memory / GIB:.0f}: lower it to {int(100 * (1 - drawing / memory)) / 100:g} or less, or set rollout.engine=own"
        )
    if plan.total <= memory:
        return
    enough = least_ranks(size, config, memory, rollouts)
    mend = f"start {enough} ranks by torchrun, or " if enough is not None and enough > ranks else ""
    raise UsageError(
        f"a model of {size.parameters / 1e9:.1f}B parameters takes {plan} of each GPU on {ranks} rank{'s' * (ranks > 1)}, and one has "
        f"{memory / GIB:.0f} GiB: {mend}lower data.pack_tokens or rollout.cache_tokens, set model.recompute=true, sharding.offload=true or "
        "model.lora"
    )
