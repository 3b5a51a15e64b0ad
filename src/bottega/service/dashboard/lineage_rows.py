"""What lists need of the log of a lineage, in the form that events of other runs have."""

from __future__ import annotations

from typing import Any

from bottega.lineage.round_trip import RoundTrip
from bottega.service.dashboard.event_rows import SHORT, EventRow, verdict_row
from bottega.service.dashboard.reading import list_at, number_at, object_at, text_at, whole_at

TYPES = {"started": "run_started", "ended": "run_ended", "verdict": "judged"}
"""Records by what the same thing is called in other logs."""


def lineage_row(data: dict[str, Any]) -> EventRow:
    """What lists need of a record."""
    key = text_at(data, "key", longest=400)
    kind = key.partition("/")[0]
    told: dict[str, Any] = {}
    effect: dict[str, float] = {}
    if kind == "started":
        told = {name: text_at(data, name, longest=SHORT) for name in ("kernel", "task", "sibling", "backbone")}
    elif kind == "step":
        attempt = object_at(data, "step", "attempt")
        told = {"number": whole_at(data, "step", "number"), **short_attempt(attempt)}
        effect = _effect(attempt)
    elif kind == "trip":
        trip = RoundTrip.from_json(object_at(data, "trip"))
        told = {"number": whole_at(data, "trip", "number"), "verified": trip.verified, "text": trip.text[:400]}
    elif kind == "walked":
        told = {"walked": text_at(data, "ended", longest=400), "refused": len(list_at(data, "refused"))}
    elif kind == "ended":
        told = {"ended": "finished", "verified": whole_at(data, "verified")}
    verdict = verdict_row(data["verdict"]) if isinstance(data.get("verdict"), dict) else None
    return EventRow(TYPES.get(kind, kind), key, number_at(data, "at") or 0.0, facts=told, values=effect, verdict=verdict)


def short_attempt(attempt: dict[str, Any]) -> dict[str, str]:
    return {name: text_at(attempt, name, longest=SHORT) for name in ("feature", "value", "where", "outcome", "diagnosis")}


def _effect(attempt: dict[str, Any]) -> dict[str, float]:
    found = {name: number_at(attempt, "effect", name) for name in ("point", "low", "high")}
    return {name: value for name, value in found.items() if value is not None}
