"""The processes of one training run, one for each GPU: the first one leads, the others repeat its calls.

The leader alone knows the judge, the library and the run's folder; whatever all must compute together it tells the others first, over a
control group of its own. They wait there as long as rollouts take, so that group has no deadline to speak of; a process that dies closes its
connections, and that ends the others at once. A run in one process is `ALONE`: nothing is told, and nothing of torch.distributed is used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from bottega.core.errors import TrainingError, UsageError
from bottega.train.packing import TrainPack, without_weights
from bottega.train.settings import ShardingSettings

TOGETHER = timedelta(minutes=30)
"""How long a rank may keep the others waiting inside of one call: the first one compiles."""
BETWEEN = timedelta(days=30)
"""How long the leader may be busy between two calls."""

EACH = 8
"""GPUs of a machine, where a text must name a number."""


class RankLostError(TrainingError):
    """Another process of the run has died. Whoever started them may start them again, and the run goes on."""


@dataclass(eq=False)
class Ranks:
    rank: int = 0
    size: int = 1
    control: Any = None
    """The group that calls are told over; none where there is one process and nothing is sharded."""
    device: torch.device | None = None
    """Where this rank computes; none is where its model lies."""
    mesh: Any = None
    """torch's device mesh over all ranks, once they are placed."""
    in_step: bool = field(default=True, init=False)
    """Whether all ranks wait for the next call: not after an error in the middle of one."""

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @property
    def sharded(self) -> bool:
        return self.control is not None

    def place(self, device: str | None) -> None:
        """Take a device each. Called by all ranks together, before the first model."""
        if self.sharded and self.mesh is None:
            from torch.distributed.device_mesh import DeviceMesh

            self.device = own_device(device)
            members = torch.distributed.get_process_group_ranks(self.control)
            self.mesh = DeviceMesh(self.device.type, members)

    def tell(self, call: Any) -> None:
        """The leader's next call, for the others to make as well; none is the end."""
        if self.leads and self.sharded:
            torch.distributed.broadcast_object_list([call], group_src=0, group=self.control)

    def hear(self) -> Any:
        box: list[Any] = [None]
        torch.distributed.broadcast_object_list(box, group_src=0, group=self.control)
        return box[0]

    def share(self, packs: Sequence[TrainPack]) -> list[TrainPack]:
        """This rank's packs. All ranks get as many, since they pass through the layers together; what is missing is read and not learned."""
        rounds = math.ceil(len(packs) / self.size)
        own = list(packs[self.rank :: self.size])
        smallest = min(packs, key=lambda pack: pack.tokens, default=None)
        return own + [without_weights(smallest)] * (rounds - len(own)) if smallest is not None else own

    def total(self, values: Tensor) -> Tensor:
        """Summed over the ranks."""
        if self.sharded:
            torch.distributed.all_reduce(values, group=self.mesh.get_group())
        return values

    def collect(self, own: Sequence[Any], count: int) -> list[Any]:
        """What the ranks made of their shares, in the order of all `count` packs; for the leader, the others get nothing."""
        if not self.sharded:
            return list(own)
        found: list[Any] = [None] * self.size
        torch.distributed.gather_object(list(own), found if self.leads else None, group_dst=0, group=self.control)
        return [found[number % self.size][number // self.size] for number in range(count)] if self.leads else []


ALONE = Ranks()


def launched() -> bool:
    """Whether torchrun or Ray started this process as one of a run's."""
    world = torch.distributed
    return bool(world.is_available() and (world.is_initialized() or world.is_torchelastic_launched()))


@contextmanager
def open_ranks() -> Iterator[Ranks]:
    """Join the other processes that torchrun or Ray started; `ALONE` where nobody did."""
    if not launched():
        yield ALONE
        return
    ours = not torch.distributed.is_initialized()
    if ours:
        store, rank, size = next(torch.distributed.rendezvous("env://", timeout=TOGETHER))
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        torch.distributed.init_process_group(backend, store=_of_this_start(store), rank=rank, world_size=size, timeout=TOGETHER)
    control = torch.distributed.new_group(backend="gloo", timeout=BETWEEN)
    ranks = Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size(), control)
    try:
        yield ranks
    finally:
        if ranks.in_step:
            ranks.tell(None)
            if ours:
                torch.distributed.destroy_process_group()


def _of_this_start(store: Any) -> Any:
    """torchrun on one machine keeps its store when it starts the ranks again, and with it the addresses of the ones before. On several
    machines it makes a new one, and counts starts on each by itself."""
    if os.environ.get("LOCAL_WORLD_SIZE") != os.environ.get("WORLD_SIZE"):
        return store
    return torch.distributed.PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def require_ranks(settings: ShardingSettings, ranks: Ranks, command: str) -> None:
    """Raises `UsageError` where a run needs more processes than there are."""
    wanted, machines = settings.ranks or 1, math.ceil((settings.ranks or 1) / EACH)
    if ranks.size < wanted:
        nodes = f"--nnodes {machines} --rdzv-backend c10d --rdzv-endpoint HOST " if machines > 1 else ""
        raise UsageError(
            f"sharding.ranks = {wanted}: these settings need {wanted} GPUs for their memory, and this run has {ranks.size}. Start it as "
            f"`torchrun {nodes}--nproc-per-node {min(wanted, EACH)} -m bottega {command} …`, or make it smaller (another model, model.lora, "
            "sharding.offload=true) and set sharding.ranks=none"
        )
    if settings.offload and not ranks.sharded:
        raise UsageError(
            f"sharding.offload needs torchrun, also for one GPU: torchrun --nproc-per-node 1 -m bottega {command} …"
        )


def devices_here(own: torch.device) -> tuple[str, ...]:
    """Where the ranks of this machine compute; `own` is this one's."""
    if own.type == "cpu":
        return ("cpu",)
    first = own.index or 0
    return tuple(f"cuda:{number}" for number in (range(int(os.environ["LOCAL_WORLD_SIZE"])) if launched() else (first,)))


def own_device(device: str | None) -> torch.device:
    """Raises `UsageError` where this machine has fewer GPUs than processes."""
    if device == "cpu" or (device is None and not torch.cuda.is_available()):
        return torch.device("cpu")
    number, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= there:
        started = os.environ.get("LOCAL_WORLD_SIZE", str(number + 1))
        raise UsageError(
            f"{started} processes were started on a machine with {there} GPUs: give torchrun --nproc-per-node {there}"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
