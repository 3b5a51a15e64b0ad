"""A lineage as a tree of lines: the expert at the root, one branch down for each step, refused steps as leaves where they were tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.foreign_text import one_line
from bottega.lineage.journal import Record
from bottega.lineage.relations import PairAttempt
from bottega.lineage.round_trip import RoundTrip
from bottega.lineage.step import Attempt, Step


@dataclass(frozen=True)
class RecordedLineage:
    """What a journal tells, finished or not."""

    started: Record
    steps: tuple[Step, ...]
    refused: tuple[tuple[int, Attempt], ...]
    trips: Mapping[int, RoundTrip]
    pairs: tuple[PairAttempt, ...]
    ended: str
    """Why the walk ended; empty while it goes on."""
    verdicts: int
    finished: bool

    @property
    def name(self) -> str:
        return str(self.started.get("kernel", "kernel"))

    @property
    def surely(self) -> str:
        """How many effects were measured well enough to tell a gain from a loss; empty where nothing was timed."""
        effects = [step.attempt.effect for step in self.steps if step.attempt.effect is not None]
        sure = sum(effect.kind != "unclear" for effect in effects)
        why = "" if sure or not effects else ": the machine was busy, or the task is small; quick=false measures longer"
        return f"{sure or 'none'} of {len(effects)} effects sure{why}" if effects else ""


def recorded(records: Mapping[str, Record]) -> RecordedLineage:
    """Raises `UsageError` where records say what no run writes."""
    try:
        return _recorded(records)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"the lineage has a record that cannot be read ({type(error).__name__}: {error})") from None


def _recorded(records: Mapping[str, Record]) -> RecordedLineage:
    walked = records.get("walked", {})
    steps: Sequence[Any] = walked.get("steps") or [record["step"] for key, record in records.items() if key.startswith("step/")]
    pairs = [
        PairAttempt(pair["first"], pair["second"], Attempt.from_json(pair["together"]), Attempt.from_json(pair["better_alone"]))
        for pair in records.get("pairs", {}).get("pairs", [])
    ]
    trips = [RoundTrip.from_json(record["trip"]) for key, record in records.items() if key.startswith("trip/")]
    return RecordedLineage(
        records.get("started", {}),
        tuple(Step.from_json(step) for step in steps),
        tuple((entry["after"], Attempt.from_json(entry["attempt"])) for entry in walked.get("refused", [])),
        {trip.number: trip for trip in trips},
        tuple(pairs),
        walked.get("ended", ""),
        sum(key.startswith("verdict/") for key in records),
        "ended" in records,
    )


def tree_lines(found: RecordedLineage) -> Iterator[str]:
    yield f"{found.name}: the expert kernel"
    for depth in range(len(found.steps) + 1):
        lead = "   " * depth
        leaves = [attempt for after, attempt in found.refused if after == depth]
        last = depth == len(found.steps)
        for place, attempt in enumerate(leaves):
            mark = "└─" if last and place == len(leaves) - 1 else "├─"
            yield f"{lead}{mark} × {attempt.feature} in {attempt.where}: {attempt.outcome}"
        if not last:
            yield f"{lead}└─ {_step_text(found.steps[depth], found.trips.get(found.steps[depth].number))}"
    yield f"{'   ' * len(found.steps)}   {found.ended or 'the walk goes on'}"


def _step_text(step: Step, trip: RoundTrip | None) -> str:
    effect = step.attempt.effect
    what = f"without {step.feature}" + (f" ({one_line(step.attempt.value, 40)})" if step.attempt.value else "")
    worth = f": it was worth {effect.text}" if effect else ": right, not timed"
    redone = "" if trip is None else " ✓ redone" if trip.verified else f" ✗ not redone{trip.only_here}"
    return what + worth + redone
