"""What learns: the policy, its optimiser and, where a divergence is asked for, its reference; the same on one rank and on many.

A method marked `together` is one that all ranks must be in, because weights are gathered in it. The leader's call is told to the others, who
make the same one: so a loop is written once, for the leader, and knows nothing of ranks. The weights are saved in torch's distributed format, by
name, and open on any number of ranks.
"""

from __future__ import annotations

import copy
import functools
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException

from bottega.backbone.loading import cast
from bottega.core.errors import BottegaError, TrainingError, UsageError
from bottega.train.checksums import damage
from bottega.train.critic import Critic
from bottega.train.optimiser import Optimiser, Updated, update
from bottega.train.packing import TrainPack, by_row
from bottega.train.policy import Policy
from bottega.train.ranks import ALONE, RankLostError, Ranks
from bottega.train.rows import TrainRow
from bottega.train.settings import Config
from bottega.train.sharding import blocks_of, fill, filled_outline, full, outline, shard

Given = ParamSpec("Given")
Found = TypeVar("Found")
BEGIN = "begin"
LOST = re.compile(r"connection (was )?(closed|reset)|gloo.*(timed out|broken pipe)|nccl.*(remote|abort|timeout)", re.I)
"""What torch's backends say where a peer has died. They have no error of their own for it."""
WEIGHTS, MOMENTS, CRITIC = "weights/", "moments/", "critic/"


def together(method: Callable[Given, Found]) -> Callable[Given, Found]:
    """The leader tells the others to call it as well; after an error inside, they are no longer in step."""

    @functools.wraps(method)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        learner: Learner = args[0]  # type: ignore[assignment]
        with learner.lock:  # the decoder's copy may be brought up to date by another thread
            learner.ranks.in_step = False
            try:
                learner.ranks.tell((method.__name__, args[1:], kwargs))
                found = method(*args, **kwargs)
            except (RuntimeError, TrainingError) as error:
                if learner.ranks.sharded:
                    _raise_if_lost(error)
                raise
            learner.ranks.in_step = True
        return found

    return called


def _raise_if_lost(error: Exception) -> None:
    if LOST.search(str(error)):
        raise RankLostError("another rank of this run was lost; the same command with --resume goes on") from error


class Learner:
    def __init__(
        self, config: Config, model: Any, ranks: Ranks = ALONE, *, temperature: float = 1.0, reference: bool = False, whole: Any = None,
    ) -> None:  # fmt: skip
        """Use `begin`, or `follow` on ranks that do not lead. `model` is an outline where there are several, and `whole` the leader's."""
        self.config, self.ranks, self.whole = config, ranks, whole
        self.lock = threading.RLock()
        ranks.place(config.model.device)
        twin = copy.deepcopy(model).requires_grad_(False) if reference else None
        self._outline = copy.deepcopy(model) if ranks.sharded else None
        self.policy = _placed_policy(config, model, ranks, temperature, whole)
        self.reference = _placed_policy(config, twin, ranks, temperature, whole, compiled=False) if twin is not None else None
        self.optimiser = Optimiser(self.policy.trainable(), config.optimiser)
        if config.has_critic and ranks.sharded:
            raise UsageError("advantage.name=gae has its critic in one process; take trloo on several ranks")
        self.critic = Critic(self.policy, config) if config.has_critic else None
        if whole is not None:  # from now on the decoder's: it reads what the trainer computes in
            cast(whole.to(self.policy.device), self.policy.dtype)

    @classmethod
    def begin(
        cls, config: Config, model: Any, ranks: Ranks = ALONE, *, temperature: float = 1.0, reference: bool = False, apart: bool = False,
    ) -> Learner:  # fmt: skip
        """`model` is whole. On one rank it is what learns; on several it becomes the copy that answers are drawn from, see `show`. `apart`: on
        one rank there is such a copy as well, because answers are drawn while the model learns."""
        options = {"temperature": temperature, "reference": reference}
        if not ranks.sharded:
            return cls(config, model, ranks, **options, whole=copy.deepcopy(model) if apart else None)  # type: ignore[arg-type]
        empty = outline(model)
        ranks.tell((BEGIN, (config, empty), options))
        return cls(config, empty, ranks, **options, whole=model)  # type: ignore[arg-type]

    # what all ranks do together

    @together
    def update(self, packs: Sequence[TrainPack], step: int, steps: int) -> Updated:
        if not self.ranks.leads:  # what drops out is drawn anew on each rank, and again so after a restart
            torch.manual_seed(hash((self.config.data.seed, step, self.ranks.rank)))
        return update(self.policy, self.optimiser, packs, self.config.loss, step, steps, self.ranks)

    @together
    def logprobs(self, packs: Sequence[TrainPack], reference: bool = False) -> list[tuple[Tensor, Tensor]]:
        """Log-prob and entropy of the tokens that count, of every pack; for the leader."""
        policy = self.reference if reference else self.policy
        assert policy is not None
        own = [tuple(each.cpu() for each in policy.logprobs(pack)) for pack in self.ranks.share(packs)]
        return self.ranks.collect(own, len(packs))

    @together
    def save(self, folder: Path) -> None:
        """Weights that are trained, and the optimiser's moments. All ranks write into one folder, which they must share."""
        tensors: dict[str, Tensor] = {}
        for name, (parameter, optimiser) in self.kept().items():
            tensors[f"{WEIGHTS}{name}"] = parameter.detach()
            tensors |= {f"{MOMENTS}{kind}/{name}": value for kind, value in optimiser.moments(parameter).items()}
        with _distributed_checkpoint():
            writer = dcp.FileSystemWriter(folder, sync_files=True)
            dcp.save(tensors, storage_writer=writer, process_group=self.ranks.control, no_dist=not self.ranks.sharded)

    @together
    def damage(self, folder: Path) -> str:
        """What is wrong with the bytes of a folder that `save` wrote, for the leader; empty where nothing is."""
        found = self.ranks.collect([damage(folder, self.ranks.rank, self.ranks.size)], self.ranks.size)
        return next(filter(None, found), "")

    @together
    def load(self, folder: Path) -> None:
        """Raises `TrainingError` where a folder holds another model's weights."""
        kept = self.kept()
        there = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
        sizes = {name.removeprefix(WEIGHTS): tuple(each.size) for name, each in there.items() if name.startswith(WEIGHTS)}
        if sizes != {name: tuple(parameter.shape) for name, (parameter, _) in kept.items()}:
            raise TrainingError(f"{folder} holds another model than the one that is to go on: same model, same LoRA?")
        stepped = {name.removeprefix(MOMENTS).partition("/")[2] for name in there if name.startswith(MOMENTS)}
        moments = {name: kept[name][1].new_moments(kept[name][0]) for name in kept if name in stepped}
        tensors = {f"{WEIGHTS}{name}": parameter.detach() for name, (parameter, _) in kept.items()}
        tensors |= {f"{MOMENTS}{kind}/{name}": value for name, own in moments.items() for kind, value in own.items()}
        with _distributed_checkpoint():
            reader = dcp.FileSystemReader(folder)
            dcp.load(tensors, storage_reader=reader, process_group=self.ranks.control, no_dist=not self.ranks.sharded)
        for name, own in moments.items():
            kept[name][1].restore(kept[name][0], own)

    @together
    def show(self) -> None:
        """Bring the copy that answers are drawn from up to date. Nothing to do where that is what learns."""
        if not self.ranks.sharded and self.whole is None:
            return
        shown = dict(self.whole.named_parameters()) if self.whole is not None else {}
        with torch.inference_mode(False), torch.no_grad():  # the decoder's thread, which may call this, is in inference mode
            for name, parameter in self.trained().items():
                gathered = full(parameter.detach().to(self.policy.device))
                if self.whole is not None:
                    shown[name].data.copy_(gathered)

    @together
    def whole_model(self) -> Any:
        """The model as it is now with all its weights, in the leader's memory; what is trained in fp32."""
        if not self.ranks.sharded:
            return self.policy.model
        weights: dict[str, Tensor] = {}
        for name, parameter in self.policy.model.named_parameters():
            gathered = full(parameter.detach().to(self.ranks.device))
            if self.ranks.leads:
                weights[name] = gathered.cpu()
        return filled_outline(self._outline, weights) if self.ranks.leads else None

    # what the leader asks

    def row_logprobs(self, rows: Sequence[TrainRow], size: int, reference: bool = False) -> list[np.ndarray]:
        """For each row the log-probs of its tokens that count, by packs of `size` tokens: for `old`, `reference` and mismatch."""
        if not rows:
            return []
        packs = self.policy.packs(rows, size)
        return by_row(packs, [found[0] for found in self.logprobs(packs, reference)])

    def row_values(self, rows: Sequence[TrainRow], size: int) -> list[np.ndarray]:
        """What the critic expects before each token that counts, row by row."""
        if not rows or self.critic is None:
            return []
        packs = self.policy.packs(rows, size)
        return by_row(packs, [self.critic.values(pack) for pack in packs])

    @property
    def shown(self) -> Any:
        """The model that answers are drawn from."""
        return self.policy.model if self.whole is None else self.whole

    def trained(self) -> dict[str, nn.Parameter]:
        return {name: parameter for name, parameter in self.policy.model.named_parameters() if parameter.requires_grad}

    def kept(self) -> dict[str, tuple[nn.Parameter, Optimiser]]:
        """What a checkpoint holds: all that learns, with the optimiser that has its moments."""
        found = {name: (parameter, self.optimiser) for name, parameter in self.trained().items()}
        if self.critic is not None:
            found |= {
                f"{CRITIC}{name}": (parameter, self.critic.optimiser) for name, parameter in self.critic.trained().items()
            }
        return found

    def sizes(self) -> tuple[int, int]:
        """Parameters of the model, and how many of them are trained."""
        return sum(each.numel() for each in self.policy.model.parameters()), sum(
            each.numel() for each in self.trained().values()
        )


def follow(ranks: Ranks) -> None:
    """What every rank but the leader does: the same calls, in the same order, until the leader ends.

    Ctrl-C and SIGTERM go to all processes, and the leader decides what comes of them.
    """
    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
    learner: Learner | None = None
    while (call := _heard(ranks)) is not None:
        name, args, options = call
        try:
            if learner is None or name == BEGIN:
                config, model = args
                learner = Learner(config, model, ranks, **options)
            else:
                getattr(learner, name)(*args, **options)
        except BottegaError:  # the leader has met the same one, and tells it
            return


def _heard(ranks: Ranks) -> Any:
    try:
        return ranks.hear()
    except RuntimeError as error:
        _raise_if_lost(error)
        raise


def _placed_policy(
    config: Config, model: Any, ranks: Ranks, temperature: float, whole: Any, compiled: bool | None = None
) -> Policy:
    settings = config.model
    policy = Policy(
        model,
        dtype=None if settings.compute == "auto" else getattr(torch, settings.compute),
        compiled=settings.compile if compiled is None else compiled,
        recompute=settings.recompute,
        longest=config.data.longest,
        temperature=temperature,
        device=ranks.device,
    )
    if ranks.sharded:
        root, layers = (policy.body, policy.body.layers) if policy.body is not None else (model, blocks_of(model))
        shard(root, layers, ranks, policy.dtype, config.sharding.offload)
        fill(model, whole, ranks, config.sharding.offload)
    return policy


@contextmanager
def _distributed_checkpoint() -> Iterator[None]:
    """Without the warning that there is one process, and with an error of ours: torch's own is no `Exception`, and has a line for each rank."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
            yield
    except CheckpointException as error:
        first = next(iter(error.failures.values()))[0]
        raise TrainingError((str(first).strip().splitlines() or [type(first).__name__])[0]) from error
