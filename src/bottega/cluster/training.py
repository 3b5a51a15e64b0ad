"""Training ranks in a Ray cluster: Ray Train places them, a GPU each, and starts them all again when one is lost.

The loop is the one that torchrun starts, and the run's folder its whole state, on a file system that all machines share. What the leading rank tells
comes to the command through a mailbox, an actor on the command's own machine; so the display, Ctrl-C and errors are those of a local run.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bottega.cluster.address import ClusterAddress, imported, join, leave
from bottega.cluster.judges import ClusterDevices
from bottega.core.errors import BottegaError, TrainingError, UsageError
from bottega.episodes.journal import FILE
from bottega.train.config import Stage
from bottega.train.learner import follow
from bottega.train.ranks import RankLostError, open_ranks
from bottega.train.rl import RlFinished, train
from bottega.train.rollout import open_inputs
from bottega.train.settings import Config
from bottega.train.sft import SftFinished, sft

RESTARTS = 3
"""How often a run goes on after a rank was lost."""
LISTEN_S = 0.5
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


def train_on_cluster(
    words: str, job: TrainingJob, on_event: Callable[[Any], None] = lambda event: None, stop: Callable[[], bool] = lambda: False
) -> Finished:
    """Raises `BottegaError` for what the leading rank could not do, and `TrainingError` where ranks were lost too often."""
    if not job.resume and (job.folder / FILE).exists():
        raise UsageError(f"{job.folder}: holds a run already; go on with it by --resume, or give another --out")
    fit = _trainer()
    joined = join(ClusterAddress.read(words).address)
    ray = imported()
    try:
        mailbox = ray.remote(Mailbox).options(num_cpus=0).remote()
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
    finally:
        if joined:
            leave()


def _trainer() -> Callable[[TrainingJob, Any], BaseException | None]:
    imported()
    try:
        api, torch_api = importlib.import_module("ray.train"), importlib.import_module("ray.train.torch")
    except ImportError:
        raise UsageError("--ranks needs Ray Train: pip install 'ray[train]'; or start the ranks by torchrun") from None

    def fit(job: TrainingJob, mailbox: Any) -> BaseException | None:
        gpus = job.config.model.device != "cpu"
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
