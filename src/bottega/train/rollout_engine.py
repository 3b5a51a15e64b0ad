"""Who draws a run's answers: our own engine, vLLM in this process, or servers; each is told when the weights have changed, and by which version.

Our own engine reads the trainer's parameters where they lie. vLLM in this process is opened without weights and takes the trainer's; servers are
given theirs by `weight_transfer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from bottega.backbone.chat import TokenBackbone
from bottega.backbone.loading import LoadedModel
from bottega.backbone.local import LocalBackbone
from bottega.backbone.vllm import VllmBackbone
from bottega.backbone.weights import plain_weights, save_config
from bottega.core.errors import UsageError
from bottega.train.learner import Learner
from bottega.train.settings import Config
from bottega.train.weight_transfer import AdapterTransfer, DiskTransfer, IpcTransfer, NcclTransfer, ServedModel

if TYPE_CHECKING:
    from bottega.backbone.token_servers import TokenServers, WeightTransfer

WEIGHTS = "rollout_weights"
"""The folder of a run that servers read weights from."""


class RolloutEngine(TokenBackbone, Protocol):
    policy_version: int

    @property
    def engine(self) -> str:
        """For people: what it is."""
        ...

    def weights_changed(self, version: int, change: Callable[[], None]) -> int:
        """Draw by the weights as they are after `change`; waits until it does."""
        ...


def open_engine(config: Config, loaded: LoadedModel, learner: Learner, folder: Path) -> RolloutEngine:
    """Raises `UsageError` or `BackboneError` for what cannot be opened."""
    rollout, policy = config.rollout, learner.policy
    if rollout.engine == "server":
        return _servers(config, loaded, learner, folder / WEIGHTS)
    if rollout.engine == "vllm":
        return _in_process(config, loaded, learner, folder / WEIGHTS)
    return LocalBackbone(
        replace(loaded, model=learner.shown),
        slots=rollout.slots,
        cache_tokens=rollout.cache_tokens,
        dtype=policy.dtype if policy.device.type == "cuda" else None,
        adopt=learner.whole is not None,
    )


def _servers(config: Config, loaded: LoadedModel, learner: Learner, folder: Path) -> TokenServers:
    try:
        from bottega.backbone.token_server import TokenServer
        from bottega.backbone.token_servers import TokenServers
    except ImportError as missing:
        raise UsageError(f"answers from servers need {missing.name}: pip install 'bottega[server]'") from None
    servers = [TokenServer(address) for address in config.rollout.servers]
    transfer = _transfer(config, learner, folder)
    return TokenServers(
        loaded.name, loaded.tokenizer, servers, transfer, vocabulary=getattr(learner.shown.config, "vocab_size", None)
    )


def _in_process(config: Config, loaded: LoadedModel, learner: Learner, folder: Path) -> VllmBackbone:
    if learner.ranks.size > 1:
        raise UsageError("vLLM in this process serves a run of one rank: start servers, and set rollout.engine=server")
    save_config(loaded.model, folder)
    loaded.tokenizer.inner.save_pretrained(folder)
    rollout = config.rollout
    return VllmBackbone.open(
        str(folder), dtype="bfloat16", context=loaded.tokenizer.context, slots=rollout.slots, memory=rollout.vllm_memory,
        weights=_weights(learner), sleeps=not rollout.staleness, template=loaded.tokenizer.template,
    )  # fmt: skip


def _weights(learner: Learner) -> Callable[[], Iterable[tuple[str, Tensor]]]:
    return lambda: plain_weights(learner.shown)


def _transfer(config: Config, learner: Learner, folder: Path) -> WeightTransfer:
    sync = config.rollout.sync or ("adapter" if config.model.lora or config.model.adapter else "nccl")
    dtype = learner.policy.dtype
    if sync == "adapter":
        return AdapterTransfer(lambda: learner.shown, folder)
    if sync == "disk":
        return ServedModel(DiskTransfer(_weights(learner), dtype, folder))
    return ServedModel(IpcTransfer(_weights(learner), dtype) if sync == "ipc" else NcclTransfer(_weights(learner), dtype))
