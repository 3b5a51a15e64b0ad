"""A learning run's folder: what kind of run it holds, its settings, and whether it may go on with others.

config.json      kind and settings
events.jsonl     every figure; reports and displays read this
steps/000001/    one step's own log: every answer with its tokens, every verdict; kept as long as a checkpoint may need it
validation/      one log for each time that the validation tasks were answered
tokenizer/       of the model that an RL run began with
library/         the run's copy of the skill library
proofs/          every proposal that the gate tried, with its evidence
checkpoints/     weights, optimiser, random states, and the cards that became visible with them
model/           the finished model
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.event import RunStarted
from bottega.core.files import json_text, write
from bottega.core.settings import changed, checked, overrides_of
from bottega.episodes.journal import FILE, read_events
from bottega.train.config import Stage, refuse_without_effect
from bottega.train.settings import Config

CONFIG, STEPS, LIBRARY, PROOFS, CHECKPOINTS, MODEL = "config.json", "steps", "library", "proofs", "checkpoints", "model"
TOKENIZER, VALIDATION = "tokenizer", "validation"
FREE_TO_CHANGE = (
    "checkpoint.",
    "log.",
    "sharding.",
    "rollout.judge_workers",
    "rollout.slots",
    "rollout.cache_tokens",
    "skills.at_once",
)
"""What a resumed run may be told otherwise without becoming another run."""


LONGEST_CHAIN = 8
"""Runs that follow each other, at most."""


def runs_before(run: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A run with what its config.json holds, then the run whose model it began with, and so on; nothing from where one cannot be read."""
    for _ in range(LONGEST_CHAIN):
        try:
            content = json.loads((run / CONFIG).read_text(encoding="utf-8"))
            name = str((dict(content["config"]).get("model") or {}).get("name") or "")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return
        yield run, {**content, "began_with": name}
        before = Path(name).expanduser()
        if not before.is_dir():
            return
        run = before.resolve().parent if before.name == MODEL else before.resolve()


@dataclass(frozen=True)
class RunDirectory:
    folder: Path

    def step(self, number: int) -> Path:
        return self.folder / STEPS / f"{number:06}"

    def validation(self, version: int) -> Path:
        return self.folder / VALIDATION / f"{version:06}"

    def drop_steps(self, before: int) -> None:
        """Remove the logs of earlier steps. Called when no checkpoint is left from which they would be walked again, so it does not matter
        how much of it a kill leaves undone."""
        for place in (self.folder / STEPS).glob("[0-9]" * 6 + "*"):
            if place.name.isdecimal() and int(place.name) < before:
                shutil.rmtree(place, ignore_errors=True)

    def begin(self, stage: Stage, config: Config, data: str | None = None) -> None:
        """`data`: where an SFT run has its rows from."""
        facts = {} if data is None else {"data": data}
        write(self.folder / CONFIG, json_text({"stage": stage, **facts, "config": config.model_dump(mode="json")}))


def require_no_run(folder: Path) -> None:
    """Raises `UsageError` where a run has begun. A log in which nothing stands is of one that was refused or killed before it had."""
    if (folder / FILE).exists() and (folder / FILE).stat().st_size:
        raise UsageError(f"{folder}: holds a run already; go on with it by --resume, or give another --out")


def kind_of(folder: Path) -> str:
    """`rl`, `sft`, `bench`, …: as its config says, or else the command that began it. Raises `UsageError` where no run is."""
    if (folder / CONFIG).exists():
        return str(_content(folder).get("stage", ""))
    if not (folder / FILE).exists():
        raise UsageError(f"{folder}: holds no run (neither {CONFIG} nor {FILE})")
    started = next((event for event in read_events(folder) if isinstance(event, RunStarted)), None)
    words = started.command.split() if started is not None else []
    return next((word for word in words if word in ("optimize", "sft", "train", "bench")), "unknown")


def data_of(folder: Path) -> str:
    """Where an SFT run has its rows from, as its config says; empty where it says nothing."""
    return str(_content(folder).get("data", ""))


def resumed_config(stage: Stage, folder: Path, overrides: Sequence[str] = (), said: Config | None = None) -> Config:
    """The settings of the run in a folder. Overrides may change how it is logged, kept and spread over the machine.

    `said`: all settings, where the command that began the run is given again, with its preset or file: they must be the run's own.
    """
    content = _content(folder)
    if content.get("stage") != stage:
        raise UsageError(
            f"{folder}: holds a run of `{content.get('stage')}`, not of {stage.upper()}; go on with it by its own command"
        )
    try:
        kept = checked(Config, content["config"], str(folder / CONFIG))
    except KeyError:
        raise UsageError(f"{folder / CONFIG}: holds no settings") from None
    wanted = said or checked(Config, overrides_of(Config, overrides, content["config"]), "overrides")
    refuse_without_effect(stage, overrides_of(Config, overrides), "overrides")
    other = [key for key in changed(kept, wanted) if not key.startswith(FREE_TO_CHANGE)]
    if other:
        raise UsageError(f"a resumed run stays the same run: {', '.join(other)} cannot be changed; begin a new one for that")
    return wanted


def _content(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder}: no run to resume there (it has no {CONFIG})") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / CONFIG}: cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{folder / CONFIG}: is no object")
    return content
