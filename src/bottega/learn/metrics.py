"""Where figures go: into the run's event log, which everything else reads, and to TensorBoard or W&B where someone asked for them."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from types import TracebackType
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.event import Measured
from bottega.episodes.journal import Journal
from bottega.learn.settings import LogSettings


class Metrics:
    """A step is measured once: what a resumed run computes again is in the log already, with the same numbers."""

    def __init__(self, journal: Journal, settings: LogSettings, resumed_at: int = 0) -> None:
        self.journal = journal
        self._board = _tensorboard(journal.folder, resumed_at) if settings.tensorboard else None
        self._wandb = _wandb(settings.wandb, journal.folder) if settings.wandb else None

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish()

    def measured(self, name: str, step: int, values: dict[str, float], note: str = "") -> None:
        """`name` is the kind: `train`, `eval`. A value that is no number is left out and told in the note."""
        odd = sorted(key for key, value in values.items() if not math.isfinite(value))
        plain = {key: float(value) for key, value in values.items() if math.isfinite(value)}
        told = "; ".join(part for part in (note, f"no number: {', '.join(odd)}" if odd else "") if part)
        key = f"{name}/{step}"
        if self.journal.done(key, Measured) is None:
            self.journal.write(Measured(key, step, plain, told))
        for tag, value in plain.items():
            if self._board is not None:
                self._board.add_scalar(f"{name}/{tag}", value, step)
        if self._wandb is not None:
            self._wandb.log({f"{name}/{tag}": value for tag, value in plain.items()}, step=step)


def _tensorboard(folder: Path, resumed_at: int) -> Any:
    try:
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
    except ImportError:
        return None
    return writer(str(folder / "tensorboard"), purge_step=resumed_at or None)


def _wandb(project: str, folder: Path) -> Any:
    try:
        return importlib.import_module("wandb").init(project=project, dir=str(folder), name=folder.name, resume="allow")
    except ImportError:
        raise UsageError("log.wandb needs the package wandb: pip install wandb, or leave the setting out") from None
