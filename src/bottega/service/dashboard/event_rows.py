"""What lists and charts need of an event: a few short fields, whatever the event is. Kernels, prompts and tokens stay in the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bottega.core.foreign_text import one_line
from bottega.core.verdict import Outcome
from bottega.service.dashboard.reading import list_at, number_at, object_at, text_at, whole_at

SHORT = 160
MOST_VALUES = 400
ACCEPTED = frozenset(outcome.value for outcome in Outcome if outcome.accepted)
NO_KERNEL = "no_kernel"


@dataclass(frozen=True, slots=True)
class VerdictRow:
    outcome: str
    speedup: dict[str, tuple[float, float | None, float | None]]
    """By baseline: point, low, high; of right and honest candidates alone."""
    times_ms: dict[str, float]
    baseline: str = ""

    def best(self) -> tuple[float, float | None, float | None] | None:
        """Against the baseline that the outcome speaks of."""
        return self.speedup.get(self.baseline) or next(iter(self.speedup.values()), None)


@dataclass(frozen=True, slots=True)
class EventRow:
    type: str
    key: str
    at: float
    episode: str = ""
    node: str = ""
    parent: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    """Short texts and numbers, by name."""
    values: dict[str, float] = field(default_factory=dict)
    verdict: VerdictRow | None = None


def event_row(data: dict[str, Any]) -> EventRow:
    kind = text_at(data, "type", longest=SHORT)
    made = _FACTS.get(kind, _short_fields)
    return EventRow(
        kind,
        text_at(data, "key", longest=400),
        number_at(data, "at") or 0.0,
        text_at(data, "episode", longest=200),
        text_at(data, "node", longest=200),
        text_at(data, "parent", longest=200),
        made(data),
        numbers_of(data, "values") if kind == "measured" else {},
        verdict_row(data["verdict"]) if isinstance(data.get("verdict"), dict) else None,
    )


def verdict_row(data: dict[str, Any], times: bool = True) -> VerdictRow:
    """`times`: whether they are kept; a table of ten thousand attempts shows none."""
    outcome = text_at(data, "outcome", longest=40)
    speedup = {}
    if outcome in ACCEPTED:
        for name, span in object_at(data, "speedup").items():
            point = number_at(span, "point")
            if point is not None and point > 0:
                speedup[name[:40]] = (point, number_at(span, "low"), number_at(span, "high"))
    named = text_at(data, "baseline", longest=40)
    kept = numbers_of(data, "times_ms") if times else {}
    return VerdictRow(outcome, speedup, kept, named if named in speedup else next(iter(speedup), ""))


def numbers_of(data: dict[str, Any], name: str) -> dict[str, float]:
    found = object_at(data, name)
    numbers = ((key[:120], number_at(found, key)) for key in list(found)[:MOST_VALUES])
    return {key: value for key, value in numbers if value is not None}


def _short_fields(data: dict[str, Any]) -> dict[str, Any]:
    """Of an event that is not known: what is short."""
    named = (name for name in data if name not in ("type", "key", "at", "episode", "node", "parent"))
    found = {name[:40]: data[name] for name in named if isinstance(data[name], int | float | str | bool)}
    return {name: one_line(value, SHORT) if isinstance(value, str) else value for name, value in list(found.items())[:12]}


def _turn(data: dict[str, Any]) -> dict[str, Any]:
    turn = object_at(data, "turn")
    return {
        "prompt_tokens": whole_at(turn, "prompt_tokens"),
        "output_tokens": whole_at(turn, "output_tokens"),
        "fault": one_line(text_at(turn, "fault", longest=1000), SHORT),
        "stop_reason": text_at(turn, "stop_reason", longest=40),
        "policy_version": whole_at(turn, "policy_version"),
    }


def _wrote(data: dict[str, Any]) -> dict[str, Any]:
    return {
        **_turn(data),
        "author": one_line(text_at(data, "author", longest=400), 80),
        "scheme": whole_at(data, "scheme"),
        "seconds": number_at(data, "seconds") or 0.0,
        "lines": text_at(data, "turn", "source").count("\n"),
    }


def _judged(data: dict[str, Any]) -> dict[str, Any]:
    verdict = object_at(data, "verdict")
    return {
        "same_as": text_at(data, "same_as", longest=200),
        "seconds": number_at(data, "seconds") or 0.0,
        "diagnosis": one_line(text_at(verdict, "diagnosis", longest=1000), SHORT),
        "final": "/final/" in text_at(data, "key", longest=400),
        "share": number_at(verdict, "coverage", "share"),
    }


def _started(data: dict[str, Any]) -> dict[str, Any]:
    settings = object_at(data, "settings")
    return {
        "command": one_line(text_at(data, "command", longest=2000), 400),
        "steps": whole_at(settings, "data", "steps"),
        "model": one_line(text_at(settings, "model", "name", longest=400) or text_at(settings, "backbone", longest=400), 80),
    }


def _episode(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": one_line(text_at(data, "task_name", longest=400), 80),
        "family": text_at(data, "family", longest=80),
        "device": text_at(data, "device", longest=80),
        "library_version": whole_at(data, "library_version"),
        "retrieved": len(list_at(data, "retrieved")),
    }


def _selected(data: dict[str, Any]) -> dict[str, Any]:
    return {**_turn(data), "scheme": whole_at(data, "scheme"), "names": _names(data, "names")}


def _summarised(data: dict[str, Any]) -> dict[str, Any]:
    return {**_turn(data), "proposals": ", ".join(text_at(each, "name", longest=80) for each in list_at(data, "proposals")[:8])}


def _drafted(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "author": one_line(text_at(data, "author", longest=400), 80),
        "drafts": len(list_at(data, "drafts")),
        "refused": one_line(text_at(data, "refused", longest=1000), SHORT),
    }


def _names(data: dict[str, Any], name: str) -> str:
    return ", ".join(each[:80] for each in list_at(data, name)[:8] if isinstance(each, str))


def _credited(data: dict[str, Any]) -> dict[str, Any]:
    return {"step": whole_at(data, "step"), "credits": len(list_at(data, "credits"))}


def _measured(data: dict[str, Any]) -> dict[str, Any]:
    return {"step": whole_at(data, "step"), "note": one_line(text_at(data, "note", longest=4000), 400)}


_FACTS = {
    "run_started": _started,
    "episode_started": _episode,
    "drafted": _drafted,
    "selected": _selected,
    "wrote": _wrote,
    "judged": _judged,
    "summarised": _summarised,
    "credited": _credited,
    "measured": _measured,
}
