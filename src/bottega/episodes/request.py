"""What a user wants of one module, and the folder that keeps the run: the same request goes on where it stopped, another is refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.event import RunStarted
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.journal import FILE, EpisodeJournal
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.machine import Workers
from bottega.tasks.module import ModuleTask


@dataclass(frozen=True)
class OptimizeRequest:
    subject: ModuleTask
    settings: EpisodeSettings
    backbone: str
    """As the user named it."""
    caps: BudgetCaps = field(default_factory=BudgetCaps)
    """Not part of the request: a run may be resumed with more to spend."""
    training: bool | None = None
    prompts: Path | None = None
    library: str = ""
    """The folder of the skill library; empty for none."""
    workers: Workers = "auto"
    command: str = ""

    def terms(self) -> dict[str, Any]:
        """What must be the same when a run is resumed, as plain JSON."""
        settings = self.settings.to_json()
        stopping = settings.pop("stopping")
        del settings["drafts"]  # the log has those that the run began with
        own = {
            "module": self.subject.task.id,
            "class": self.subject.class_name,
            "backbone": self.backbone,
            "mode": {None: "as-built", True: "train", False: "eval"}[self.training],
            "prompts": str(self.prompts or ""),
            "library": self.library,
        }
        return dict(json.loads(json.dumps({**own, **settings, **stopping})))

    @property
    def judging(self) -> dict[str, Any]:
        """Options of both judges, the one of the search and the one of the last word."""
        return {"precision": self.settings.precision, "training": self.training}


@contextlib.contextmanager
def opened_run(folder: Path, request: OptimizeRequest, resume: bool) -> Iterator[EpisodeJournal]:
    """The run's log, locked for us. A run that never began leaves no folder behind."""
    try:
        made, there = not folder.exists(), (folder / FILE).exists()
        filled = not there and not made and any(folder.iterdir())
    except OSError as error:
        raise UsageError(f"{folder}: no run can be kept there: {error.strerror}") from None
    if there and not resume:
        raise UsageError(f"{folder}: holds a run already; go on with --resume, or give another --out")
    if resume and not there:
        raise UsageError(f"{folder}: no run to resume is there")
    if filled:
        raise UsageError(f"{folder}: is not empty; give another --out")
    with EpisodeJournal(folder) as journal:
        try:
            started = next((event for event in journal.events if isinstance(event, RunStarted)), None)
            terms = request.terms()
            before = {
                "redraws": 0,
                "steps": terms["steps"],
                "skill_files": "",
                "likeliest_first": terms["likeliest_first"],
                "repeats": terms["repeats"],
                "knobs": 0,
                "exploration": terms["exploration"],
                "instructions": terms["instructions"],
            }  # of runs from when there was no such setting
            differing = differences({**before, **started.settings}, terms) if started else []
            if differing:
                raise UsageError(
                    f"{folder}: was begun with other settings: {'; '.join(differing)}. Resume with those, or give another --out"
                )
            yield journal
        finally:
            if not journal.events:
                with contextlib.suppress(OSError):
                    journal.path.unlink()
                    if made:
                        folder.rmdir()


def differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [f"{name} {_shown(then.get(name))} then, {_shown(now[name])} now" for name in now if then.get(name) != now[name]]


def next_folder(name: str, parent: Path, resume: bool) -> Path:
    """`bottega-NAME-1`, `-2`, …: the first that is free, or the last that there is to be resumed."""
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name) or "module"
    number = 1
    while (parent / f"bottega-{safe}-{number}").exists():
        number += 1
    if resume and number == 1:
        raise UsageError(f"no run of {name} to resume is in {parent.resolve()}; name its folder with --out")
    return parent / f"bottega-{safe}-{number - 1 if resume else number}"


def _shown(value: Any) -> str:
    return "none" if value in (None, "") else json.dumps(value, ensure_ascii=False)
