"""A scientist's notebook: each experiment with what was predicted and what was measured. Made of the log alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bottega.core.event import Event, Planned
from bottega.core.verdict import Verdict
from bottega.episodes.node import SearchNode
from bottega.episodes.strategies.islands import best_setting

CLOSE = 1.1
"""A prediction holds within this factor."""
NO_EFFECT = 1.02


@dataclass(frozen=True)
class NotebookEntry:
    node: str
    base: str
    change: str
    predicted: float | None
    """The base's time over the expected one; None where nothing was predicted."""
    measured: float | None
    """The base's time over the measured one; None where the kernel cannot be used, or its base could not."""
    outcome: str

    @property
    def finding(self) -> str:
        """How the prediction fared."""
        if self.measured is None:
            return f"failed: {self.outcome}" if self.outcome != "right" else "right, as its base was not"
        if self.predicted is None:
            return "nothing was predicted"
        if (self.predicted - 1) * (self.measured - 1) < 0 and min(
            abs(math.log(self.predicted)), abs(math.log(self.measured))
        ) > (math.log(NO_EFFECT)):
            return "the opposite"
        if abs(math.log(self.measured / self.predicted)) <= math.log(CLOSE):
            return "as predicted"
        return "more than predicted" if self.measured > self.predicted else "less than predicted"

    @property
    def line(self) -> str:
        """As the next plan is shown it."""
        predicted = f"predicted {self.predicted:.2f}x" if self.predicted is not None else "no prediction"
        measured = f", measured {self.measured:.2f}x" if self.measured is not None else ""
        return f"- {self.node} from {self.base}: {self.change} ({predicted}{measured}; {self.finding})"


def notebook_of(events: Iterable[Event], episode: str, nodes: Sequence[SearchNode], baseline: str) -> list[NotebookEntry]:
    """Experiments that were run, in the order of their plans."""
    known, entries = {node.id: node for node in nodes}, list[NotebookEntry]()
    for event in events:
        rows = event.experiments if isinstance(event, Planned) and event.episode == episode else ()
        entries += [_entry(row, known, nodes, baseline) for row in rows if row["node"] in known]
    return entries


def prediction_error(entries: Sequence[NotebookEntry]) -> float | None:
    """By which factor predictions were off, as a geometric mean; None where none can be compared."""
    logs = [
        abs(math.log(one.measured / one.predicted)) for one in entries if one.measured is not None and one.predicted is not None
    ]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _entry(
    row: Mapping[str, object], known: Mapping[str, SearchNode], nodes: Sequence[SearchNode], baseline: str
) -> NotebookEntry:
    node = best_setting(known[str(row["node"])], nodes, baseline)
    base, own = _point(known.get(str(row["base"])), baseline), _point(node, baseline)
    outcome = "right" if own else _outcome(node.verdict)
    predicted = row["predict"]
    return NotebookEntry(
        node=str(row["node"]),
        base=str(row["base"]),
        change=str(row["change"]),
        predicted=predicted if isinstance(predicted, float) else None,
        measured=own / base if own and base else None,
        outcome=outcome,
    )


def _point(node: SearchNode | None, baseline: str) -> float:
    speedup = node.speedup(baseline) if node is not None else None
    return speedup.point if speedup is not None else 0.0


def _outcome(verdict: Verdict | None) -> str:
    return verdict.outcome.value if verdict is not None else "no kernel"
