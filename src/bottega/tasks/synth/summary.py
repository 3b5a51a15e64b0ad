"""What a run came to: how many were accepted, why the others were not, and which operators are covered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bottega.tasks.synth.catalogue import CATALOGUE
from bottega.tasks.synth.plan import SynthPlan
from bottega.tasks.synth.run_log import RunRecord
from bottega.tasks.synth.sample import Synthesised

SHARES = {"least": 0.0, "p10": 0.1, "median": 0.5, "p90": 0.9, "most": 1.0}


@dataclass
class SynthTally:
    accepted: int = 0
    looked_at: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """By reason."""
    levels: Counter[str] = field(default_factory=Counter)
    families: Counter[str] = field(default_factory=Counter)
    structures: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    """Of accepted tasks: in how many each occurs."""
    failing: dict[str, str] = field(default_factory=dict)
    """Operators that did not run here although they stood alone, with what they said."""
    lost: dict[str, str] = field(default_factory=dict)
    """Samples that the examiner itself failed on; they are tried again when the run is taken up."""
    times: list[float] = field(default_factory=list)

    def count(self, made: Synthesised, record: RunRecord) -> None:
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

    def words(self) -> str:
        return ", ".join(f"{reason} {count}" for reason, count in self.dropped.most_common(4)) or "nothing dropped"


@dataclass
class SynthSummary(SynthTally):
    """The tally of a run that has ended."""

    plan: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Operators of the catalogue that no accepted task has."""
        return tuple(sorted(set(CATALOGUE) - set(self.operators)))

    @property
    def eager_ms(self) -> dict[str, float]:
        times = sorted(self.times)
        return {name: round(times[int(share * (len(times) - 1))], 4) for name, share in SHARES.items()} if times else {}

    def to_json(self) -> dict[str, Any]:
        plain = {name: value for name, value in vars(self).items() if name != "times"}
        return plain | {"uncovered": self.uncovered, "eager_ms": self.eager_ms}


def summary_of(tally: SynthTally, plan: SynthPlan, seconds: float, interrupted: bool) -> SynthSummary:
    counted = {name: Counter(dict(value.most_common())) for name, value in vars(tally).items() if isinstance(value, Counter)}
    counted["levels"] = Counter(dict(sorted(tally.levels.items())))
    terms = plan.terms() | {"count": plan.count}
    return SynthSummary(**(vars(tally) | counted), plan=terms, seconds=round(seconds, 2), interrupted=interrupted)
