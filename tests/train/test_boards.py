"""Figures outside of the run's log: what TensorBoard and W&B are given, also after a restart. Each runs where the package is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from bottega.core.errors import UsageError
from bottega.core.event import RunStarted
from bottega.episodes.journal import Journal
from bottega.train.metrics import Metrics, require_packages
from bottega.train.settings import LogSettings


def told(folder: Path, settings: LogSettings, steps: range) -> None:
    """A run, or the rest of one, that measures these steps."""
    with Journal(folder) as journal:
        if not journal.events:
            journal.write(RunStarted("bottega train", {"data": {"seed": 3}}, {}))
        with Metrics(journal, settings) as figures:
            for step in steps:
                figures.measured("train", step, {"reward": step / 4, "write/count": 2.0, "odd": float("nan")})
            figures.measured("checkpoint", steps[-1], {"cards": 5.0})


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder / "tensorboard"))
    read.Reload()
    return {tag: [(found.step, found.value) for found in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_tensorboard_has_every_figure_once_also_after_a_restart(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    told(tmp_path, LogSettings(tensorboard=False), range(1, 3))  # not installed at first, say
    told(tmp_path, LogSettings(), range(2, 5))
    told(tmp_path, LogSettings(), range(4, 6))
    assert scalars(tmp_path) == {
        "train/reward": [(step, step / 4) for step in range(1, 6)],
        "train/write/count": [(step, 2.0) for step in range(1, 6)],
        "checkpoint/cards": [(2, 5.0), (4, 5.0), (5, 5.0)],
    }


def test_wandb_gets_the_figures_in_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    given: list[tuple[int, dict[str, float]]] = []
    plain = wandb.Run.log

    def heard(self: Any, data: dict[str, float], step: int) -> None:
        given.append((step, data))
        plain(self, data, step=step)

    monkeypatch.setattr(wandb.Run, "log", heard)
    settings = LogSettings(tensorboard=False, wandb="bottega-test")
    told(tmp_path, settings, range(1, 3))
    told(tmp_path, settings, range(3, 4))
    ids = {place.name.rpartition("-")[2] for place in (tmp_path / "wandb").glob("offline-run-*")}
    assert len(ids) == 1, "a resumed run goes on in the same one"
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert (3, {"train/reward": 0.75, "train/write/count": 2.0}) in given
    assert (3, {"checkpoint/cards": 5.0}) in given


def test_wandb_that_is_missing_is_told_before_a_run_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "wandb" else find(name, *rest))
    require_packages(LogSettings())
    with pytest.raises(UsageError, match=r"bottega\[wandb\]"):
        require_packages(LogSettings(wandb="project"))


def test_wandb_that_cannot_begin_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")

    def refused(**options: Any) -> Any:
        raise wandb.errors.UsageError("No API key configured.\nUse `wandb login`.")

    monkeypatch.setattr(wandb, "init", refused)
    with pytest.raises(UsageError, match=r"No API key configured\.\); log in by"):
        told(tmp_path, LogSettings(tensorboard=False, wandb="bottega-test"), range(1, 2))
