"""What a run came to: how many were accepted, why the others were not, and which operators are covered."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from bottega.tasks.synth.catalogue import CATALOGUE
from bottega.tasks.synth.journal import Record
from bottega.tasks.synth.plan import Plan
from bottega.tasks.synth.sample import Synthesised


@dataclass(frozen=True)
class Summary:
    wanted: int
    accepted: int
    looked_at: int
    dropped: dict[str, int]
    """By reason."""
    levels: dict[str, int]
    families: dict[str, int]
    structures: dict[str, int]
    dtypes: dict[str, int]
    operators: dict[str, int]
    """Of accepted tasks: in how many each occurs."""
    uncovered: tuple[str, ...]
    """Operators of the catalogue that no accepted task has."""
    failing: dict[str, str]
    """Operators that did not run here although they stood alone, with what they said."""
    lost: dict[str, str]
    """Sketches that the examiner itself failed on; they are tried again when the run is taken up."""
    eager_ms: dict[str, float]
    plan: dict[str, Any]
    seconds: float
    interrupted: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Tally:
    wanted: int
    accepted: int = 0
    looked_at: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    families: Counter[str] = field(default_factory=Counter)
    structures: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    failing: dict[str, str] = field(default_factory=dict)
    losses: dict[str, str] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)

    def count(self, made: Synthesised, record: Record) -> None:
        self.looked_at += 1
        if not record.accepted:
            self.dropped[record.reason] += 1
            if record.reason == "does_not_run" and len(set(made.operators)) == 1 and made.structure != "variation":
                self.failing.setdefault(made.operators[0], record.detail)
            return
        self.accepted += 1
        self.levels[str(made.level)] += 1
        self.families.update(made.families)
        self.structures[made.structure] += 1
        self.dtypes[made.dtype] += 1
        self.operators.update(set(made.operators))
        if record.eager_ms is not None:
            self.times.append(record.eager_ms)

    def lost(self, made: Synthesised, words: str) -> None:
        self.losses[str(made.index)] = words[:300]

    def words(self) -> str:
        return ", ".join(f"{reason} {count}" for reason, count in self.dropped.most_common(4)) or "nothing dropped"

    def summary(self, plan: Plan, seconds: float, interrupted: bool) -> Summary:
        times = sorted(self.times)
        shares = {"least": 0.0, "p10": 0.1, "median": 0.5, "p90": 0.9, "most": 1.0}
        return Summary(
            wanted=self.wanted,
            accepted=self.accepted,
            looked_at=self.looked_at,
            dropped=dict(self.dropped.most_common()),
            levels=dict(sorted(self.levels.items())),
            families=dict(self.families.most_common()),
            structures=dict(self.structures.most_common()),
            dtypes=dict(self.dtypes.most_common()),
            operators=dict(self.operators.most_common()),
            uncovered=tuple(sorted(set(CATALOGUE) - set(self.operators))),
            failing=dict(self.failing),
            lost=dict(self.losses),
            eager_ms={name: round(times[int(share * (len(times) - 1))], 4) for name, share in shares.items()} if times else {},
            plan=plan.terms() | {"count": plan.count},
            seconds=round(seconds, 2),
            interrupted=interrupted,
        )
