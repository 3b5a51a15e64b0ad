"""Training ranks in a Ray cluster: Ray Train places them, a GPU each, and starts them all again when one is lost.

The loop is the one that torchrun starts, and the run's folder its whole state, on a file system that all machines share. What the leading rank tells
comes to the command through a mailbox, an actor on the command's own machine; so the display, Ctrl-C and errors are those of a local run.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bottega.cluster.address import ClusterAddress, imported, join, leave
from bottega.cluster.judges import ClusterDevices
from bottega.core.errors import BottegaError, TrainingError, UsageError
from bottega.episodes.journal import FILE
from bottega.judge.device_host import kind_of
from bottega.train.config import Stage
from bottega.train.learner import follow
from bottega.train.ranks import RankLostError, open_ranks
from bottega.train.rl import RlFinished, train
from bottega.train.rollout import judged_on, open_inputs
from bottega.train.settings import Config
from bottega.train.sft import SftFinished, sft

RESTARTS = 3
"""How often a run goes on after a rank was lost."""
LISTEN_S = 0.5
ENDING_S = 60.0
"""How long ranks may take to end after an error was told."""
Finished = RlFinished | SftFinished


@dataclass(frozen=True)
class TrainingJob:
    stage: Stage
    config: Config
    folder: Path
    ranks: int
    resume: bool = False
    source: Path | None = None
    """Where SFT has its rows from."""
    judges: str = "auto"
    """The cluster that kernels are judged in."""


class Mailbox:
    """An actor: what the leading rank has told and nobody has taken yet, and whether it is to stop."""

    def __init__(self) -> None:
        self._told: list[Any] = []
        self._stop = False

    def tell(self, what: Any) -> None:
        self._told.append(what)

    def take(self) -> list[Any]:
        told, self._told = self._told, []
        return told

    def stop(self) -> None:
        self._stop = True

    def stopping(self) -> bool:
        return self._stop


def open_mailbox() -> Any:
    """On the command's own machine: Ray would put it on any, and the command would end with that one."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray = imported()
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()


def train_on_cluster(
    words: str, job: TrainingJob, on_event: Callable[[Any], None] = lambda event: None, stop: Callable[[], bool] = lambda: False
) -> Finished:
    """Raises `BottegaError` for what the leading rank could not do, and `TrainingError` where ranks were lost too often."""
    if not job.resume and (job.folder / FILE).exists():
        raise UsageError(f"{job.folder}: holds a run already; go on with it by --resume, or give another --out")
    fit = _trainer()
    joined = join(ClusterAddress.read(words).address)
    ray = imported()
    working: threading.Thread | None = None
    try:
        require_room(ray.nodes(), job)
        mailbox = open_mailbox()
        ended: list[BaseException | None] = []
        working = threading.Thread(
            target=lambda: ended.append(fit(replace(job, folder=job.folder.resolve()), mailbox)), daemon=True
        )
        working.start()
        found: Finished | None = None
        while found is None:
            over = not working.is_alive()
            for told in ray.get(mailbox.take.remote()):
                if isinstance(told, BottegaError):
                    raise told
                if isinstance(told, Finished):
                    found = told
                else:
                    on_event(told)
            if over and found is None:
                why = str(ended[0] if ended else "").strip().splitlines() or ["it ended without a word"]
                raise TrainingError(f"the ranks were lost {RESTARTS + 1} times ({why[-1].strip()}); go on with --resume")
            if stop():
                ray.get(mailbox.stop.remote())
            working.join(LISTEN_S)
        working.join()
        return replace(found, folder=job.folder)
    except BottegaError:
        if working is not None:  # who still asks a Ray that is shut down is ended by it, before anything is said
            working.join(ENDING_S)
        raise
    finally:
        if joined:
            leave()


def require_room(nodes: Sequence[dict[str, Any]], job: TrainingJob) -> None:
    """Raises `UsageError` where the ranks, and for RL a judge beside them, have no room: Ray would wait for it without a word."""
    device, resource, what = ("cuda", "GPU", "GPUs") if _on_gpus(job) else ("cpu", "CPU", "cores")
    there = [int(node["Resources"].get(resource, 0)) for node in nodes if node["Alive"]]
    judge = 0
    if job.stage == "rl" and kind_of(judged_on(job.config, device)[1]) == device:
        cores = 1 if device == "cuda" else ClusterAddress.read(job.judges).cores
        judge = min((min(cores, each) for each in there if each), default=1)
    if job.ranks + judge > sum(there):
        beside = f", a judge beside them {judge}" if judge else ""
        advice = (
            "--cluster ADDRESS?cores=1 makes judges smaller" if judge > 1 else "torchrun's ranks share theirs with the judge"
        )
        none = "; without GPUs set model.device=cpu" if device == "cuda" and not sum(there) else ""
        raise UsageError(
            f"--ranks {job.ranks}: the cluster has {sum(there)} {what}, and a rank takes one{beside}{none or (f'; {advice}' if judge else '')}"
        )


def _on_gpus(job: TrainingJob) -> bool:
    return job.config.model.device != "cpu"


def _trainer() -> Callable[[TrainingJob, Any], BaseException | None]:
    imported()
    try:
        api, torch_api = importlib.import_module("ray.train"), importlib.import_module("ray.train.torch")
    except ImportError:
        raise UsageError("--ranks needs Ray Train: pip install 'ray[train]'; or start the ranks by torchrun") from None

    def fit(job: TrainingJob, mailbox: Any) -> BaseException | None:
        gpus = _on_gpus(job)
        try:
            torch_api.TorchTrainer(
                rank_main,
                train_loop_config={"job": job, "mailbox": mailbox},
                torch_config=torch_api.TorchConfig(backend="cpu:gloo,cuda:nccl" if gpus else "gloo"),
                scaling_config=api.ScalingConfig(num_workers=job.ranks, use_gpu=gpus),
                run_config=api.RunConfig(
                    name="ranks", storage_path=str(job.folder / "ray"), failure_config=api.FailureConfig(max_failures=RESTARTS)
                ),
            ).fit()
        except Exception as error:  # Ray's own kinds; what ours said has come by the mailbox
            return error
        return None

    return fit


def rank_main(given: dict[str, Any]) -> None:
    """What Ray runs on each rank, also after a restart: a run that is there then is this one."""
    job, mailbox = given["job"], given["mailbox"]
    with open_ranks() as ranks:
        if not ranks.leads:
            follow(ranks)
            return
        options = {
            "resume": (job.folder / FILE).exists(),
            "on_event": mailbox.tell.remote,
            "stop": lambda: imported().get(mailbox.stopping.remote()),
            "ranks": ranks,
        }
        try:
            if job.stage == "sft":
                told: Any = sft(job.config, job.source, job.folder, **options)
            else:
                with ClusterDevices(job.judges) as host:
                    told = train(job.config, job.folder, inputs=partial(open_inputs, host=host), **options)
        except RankLostError:  # Ray starts all of them again
            raise
        except BottegaError as error:  # the same again on a restart, so it is none of Ray's business
            told = error
        imported().get(mailbox.tell.remote(told))
