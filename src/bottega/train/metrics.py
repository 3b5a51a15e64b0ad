"""Metrics sinks: the run's event log, which everything else reads, and optionally TensorBoard or W&B.

Both are copies of the log. TensorBoard's is written anew whenever a run goes on, so that nothing is missing or there twice after a kill; a run on
W&B has an id that follows from the log, so that a resumed run goes on in the same one.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.event import Measured, RunStarted
from bottega.episodes.journal import EpisodeJournal
from bottega.train.settings import LogSettings


@dataclass(frozen=True)
class TrainingStarted:
    """What there is to do, told to whoever watches before the first step."""

    steps: int
    step: int
    """Steps that were taken before, where a run goes on."""
    model: str
    parameters: int
    trained: int
    what: str
    """What is learned from, in words."""
    cards: int | None = None
    """In the library now, admitted or not; none where there is no library."""
    past: tuple[Measured, ...] = ()
    """What the steps before told."""


def require_packages(settings: LogSettings) -> None:
    """Raises `UsageError` for what was asked for by name and is not installed: before a run is begun, not in the middle of one."""
    if settings.wandb and importlib.util.find_spec("wandb") is None:
        raise UsageError("log.wandb needs the package wandb: pip install 'bottega[wandb]', or leave the setting out")


class Metrics:
    """A step is measured once: what a resumed run computes again is in the log already, with the same numbers."""

    def __init__(self, journal: EpisodeJournal, settings: LogSettings) -> None:
        self.journal = journal
        self._wandb = _wandb(settings.wandb, journal) if settings.wandb else None
        self._board = _tensorboard(journal.folder) if settings.tensorboard else None
        for event in journal.events:
            if isinstance(event, Measured):
                self._draw(event)

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish(exit_code=0 if kind is None else 1)

    def measured(self, name: str, step: int, values: dict[str, float], note: str = "") -> None:
        """`name` is the kind: `train`, `eval`. A value that is no number is left out and told in the note."""
        odd = sorted(key for key, value in values.items() if not math.isfinite(value))
        plain = {key: float(value) for key, value in values.items() if math.isfinite(value)}
        told = "; ".join(part for part in (note, f"no number: {', '.join(odd)}" if odd else "") if part)
        key = f"{name}/{step}"
        if self.journal.done(key, Measured) is None:
            self._draw(self.journal.write(Measured(key, step, plain, told)))
        if self._wandb is not None and plain:  # what it has already it passes over
            self._wandb.log({f"{name}/{tag}": value for tag, value in plain.items()}, step=step)

    def _draw(self, event: Measured) -> None:
        if self._board is None:
            return
        name = event.key.rpartition("/")[0]
        for tag, value in event.values.items():
            self._board.add_scalar(f"{name}/{tag}", value, event.step, walltime=event.at)


def _tensorboard(folder: Path) -> Any:
    try:
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
    except ImportError:
        return None
    return writer(str(folder / "tensorboard"), purge_step=0)


def _wandb(project: str, journal: EpisodeJournal) -> Any:
    """Raises `UsageError` where no run can be begun there: nobody is logged in, say."""
    started = next((event for event in journal.events if isinstance(event, RunStarted)), None)
    named = hashlib.sha256(f"{started.at if started else journal.folder}".encode()).hexdigest()[:16]
    wandb = importlib.import_module("wandb")
    try:
        return wandb.init(
            project=project, dir=str(journal.folder), name=journal.folder.name, id=named, resume="allow",
            config=started.settings if started else {},
        )  # fmt: skip
    except Exception as error:  # of wandb's own kinds, and whatever the network raises
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(
            f"log.wandb={project}: W&B does not begin a run ({told[0]}); log in by `wandb login`, set WANDB_MODE=offline, or go on without "
            "it: --resume log.wandb=none"
        ) from None
