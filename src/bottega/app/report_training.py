"""What there is to say about a learning run, SFT or RL: read from its events alone."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from bottega.core.event import Checkpointed, Event, Measured, RunEnded, RunStarted
from bottega.core.settings import changed, checked
from bottega.episodes.attempts import clock, seconds_of
from bottega.episodes.delivery.page import Drawings, ReportPage, ReportTable
from bottega.episodes.journal import read_events
from bottega.service.dashboard.training_plots import Measurements, Rows, points_of, training_plots
from bottega.train.run_directory import data_of
from bottega.train.settings import Config
from bottega.train.validation import WITH_SKILLS

MOST_NOTES = 40
WINDOW = 5
"""Steps whose mean stands for a run's beginning and its end."""

COMPARED = ("reward", "reward_best", "correct", "fast_1", "fast_1.2", "fast_2", "coverage", "write/reward", "select/reward",
            "summarise/reward", "junk", "entropy", "mismatch", "dropped/coverage", "dropped/mismatch", "skills/passed", "nll")  # fmt: skip

VALIDATED = ("correct", "fast_1", "speedup", "with_skills/correct", "with_skills/fast_1", "with_skills/speedup")
SHARES = {"correct", "fast_1", "fast_1.2", "fast_2", "coverage", "junk", "dropped/coverage", "dropped/mismatch"}
STAGES = {
    "seconds/step": ("whole step", "{:,.1f} s"),
    "seconds/rollout": ("rollouts and verdicts", "{:,.1f} s"),
    "seconds/gate": ("gate", "{:,.1f} s"),
    "seconds/training": ("update", "{:,.1f} s"),
    "busy/generator": ("generator busy", "{:.0%}"),
    "busy/judge": ("judge busy", "{:.0%}"),
    "busy/trainer": ("trainer busy", "{:.0%}"),
    "tokens_per_second": ("tokens sampled a second", "{:,.0f}"),
    "training_tokens_per_second": ("tokens learned a second", "{:,.0f}"),
    "memory_gib": ("memory", "{:.1f} GiB"),
}


def training_page(folder: Path, kind: str) -> ReportPage:
    events = list(read_events(folder))
    steps, held_out = _measured(events, "train"), _measured(events, "eval")
    plots = training_plots(kind, {"": Measurements(_rows(steps), _rows(held_out), _rows(_measured(events, "checkpoint")))})
    alarms = [f"step {event.step}: {event.note}" for event in _measured(events, "alarm")]
    notes = [f"step {event.step}: {event.note}" for event in steps if event.note]
    more = [f"and {len(notes) - MOST_NOTES} more"] if len(notes) > MOST_NOTES else []
    what = "Reinforcement learning" if kind == "rl" else "Supervised fine-tuning"
    tables = [_compared(steps, held_out), *([_stages(steps)] if kind == "rl" else [])] if steps else []
    return ReportPage(
        title=f"{what}: {folder.resolve().name}",
        facts=_facts(folder, kind, events, steps),
        warnings=alarms,
        blocks=[*tables, Drawings("Curves", plots, "No step is finished yet.")],
        notes=[*notes[:MOST_NOTES], *more],
    )


def _measured(events: Sequence[Event], kind: str) -> list[Measured]:
    return [event for event in events if isinstance(event, Measured) and event.key.startswith(f"{kind}/")]


def _rows(events: Sequence[Measured]) -> Rows:
    return [(event.step, event.values) for event in events]


def _values(events: Sequence[Measured], name: str) -> list[float]:
    return [value for _, value in points_of(_rows(events), name)]


def _facts(folder: Path, kind: str, events: Sequence[Event], steps: Sequence[Measured]) -> list[tuple[str, str]]:
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    ended = next((event for event in reversed(events) if isinstance(event, RunEnded)), None)
    kept = [event for event in events if isinstance(event, Checkpointed)]
    facts: list[tuple[str, str]] = []
    if started is not None:
        facts.append(("begun", time.strftime("%Y-%m-%d %H:%M", time.gmtime(started.at)) + " UTC"))
        config = checked(Config, started.settings, "the run's settings")
        facts.append(("model", config.model.name))
        facts.append(("tasks", ", ".join(config.data.tasks)) if kind == "rl" else ("data", data_of(folder)))
        differing = [f"{key}={_at(config, key)}" for key in changed(Config(), config)]
        facts.append(("settings", ", ".join(differing) or "all as they come"))
        machine = [f"{name} {value}" for name, value in started.fingerprint.items() if isinstance(value, str | int | float)]
        facts.append(("where", ", ".join(machine)))
    facts += [("steps", str(steps[-1].step if steps else 0)), ("time", clock(seconds_of(events)))]
    facts.append(
        ("ended", ended.ended if ended is not None else f"still running, or killed; `{_resumed(folder, kind)}` goes on")
    )
    facts.append(("last checkpoint", kept[-1].folder if kept else "none"))
    return facts


def _resumed(folder: Path, kind: str) -> str:
    return f"bottega {'train' if kind == 'rl' else 'sft'} --out {shlex.quote(str(folder))} --resume"


def _at(config: Config, key: str) -> object:
    found: object = config.model_dump()
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _compared(steps: Sequence[Measured], held_out: Sequence[Measured]) -> ReportTable:
    rows = []
    found = {name: _values(steps, name) for name in COMPARED}
    found["held-out nll"] = _values(held_out, "nll")
    found |= {f"validation {name}": _values(held_out, name) for name in VALIDATED}
    for name, values in found.items():
        if values:
            share, count = _is_share(name), min(WINDOW, max(1, len(values) // 2))
            first, last = sum(values[:count]) / count, sum(values[-count:]) / count
            if share:
                told = [f"{first:.1%}", f"{last:.1%}", f"{100 * (last - first):+.1f}"]
            else:
                digits = 1 if max(abs(first), abs(last)) < 1e-3 else 3  # rounding in the last place: its size is enough
                told = [f"{first:.{digits}g}", f"{last:.{digits}g}", f"{last - first:+.{min(2, digits)}g}"]
            rows.append((name, *(text.replace("e-0", "e-").replace("-", "−") for text in told)))
    how = f"Means of the first and of the last {WINDOW} steps, or of each half of a shorter run."
    how += " Shares change by percentage points." if any(_is_share(name) and values for name, values in found.items()) else ""
    return ReportTable("Beginning and end", ("", "first", "last", "change"), rows, how)


def _is_share(name: str) -> bool:
    return name.removeprefix("validation ").removeprefix(WITH_SKILLS) in SHARES


def _stages(steps: Sequence[Measured]) -> ReportTable:
    rows = []
    for name, (told, form) in STAGES.items():
        values = sorted(_values(steps, name))
        if values:
            rows.append((told, *(form.format(value) for value in (values[len(values) // 2], values[0], values[-1]))))
    return ReportTable("Time and memory of a step", ("", "median", "least", "most"), rows)
