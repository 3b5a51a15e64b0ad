"""Findings of the choice sweep: which choice beats the rule's on which device, for which data type and range of sizes, as statements and as cards.

One half of the tasks chooses, the other measures, and the other way round: by a scan over ranges, the statement that is surest on the half that
chooses is taken, its tasks leave, and the next one is sought; a statement is kept where its interval on the other half, over resampled tasks, lies
above 1.02. The halves share no combination of operators. Tasks that `choice_distil.py` sets aside are in neither, and show what the findings are
worth.

    PYTHONPATH=src python3 benchmarks/choice_findings.py benchmarks/choice_sweep_h200 --cards cards.jsonl

The cards are proposed ones: no gate has proved them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Annotated

import typer
from choice_cards import ChoiceCard
from choice_distil import is_held_out
from choice_places import fused_place, places_of
from choice_sweep import RESULTS, SURE, Row, geometric_mean, interval, rows_of, tasks_of
from choice_tasks import DTYPES, FUSED

from bottega.compiler.choice_gains import LIKE_FUNCTIONS
from bottega.compiler.choice_places import ChoicePlace
from bottega.core.skill import Provenance
from bottega.core.trial import GainInterval, Trial
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.skills.validation import admit_data

CHOOSING, CONFIRMING, SET_ASIDE = "choosing", "confirming", "set aside"
FEWEST = 5
"""Tasks of a half on which a statement rests."""
CERTAIN = 1.0
"""Standard errors below the mean at which a statement must still be better, on the half that chooses. The other half is the test."""


@dataclass(frozen=True)
class Measured:
    """One choice at one place of one task."""

    task: str
    part: str
    place: ChoicePlace
    dtype: str
    choice: str
    name: str
    over_eager: tuple[float, float]
    """The rule's speed and this one's, in the sweep's first measurement."""
    ends: tuple[float, float]
    """Of the interval of this one's speed, as shares of it."""

    @property
    def gain(self) -> float:
        return self.over_eager[1] / self.over_eager[0]


@dataclass(frozen=True)
class Finding:
    device: str
    functions: tuple[str, ...]
    dtypes: tuple[str, ...]
    size: str
    """What the range is of; empty where the finding holds for all sizes."""
    low: int
    high: int
    choice: str
    gains: dict[str, dict[str, float]]
    """By the part, of each of its tasks."""

    def covers(self, place: ChoicePlace, dtype: str) -> bool:
        within = not self.size or self.low <= place.sizes.get(self.size, -1) <= self.high
        return within and place.function in self.functions and dtype in self.dtypes

    def interval(self, part: str) -> tuple[float, float, float]:
        """Mean and both ends."""
        gains = list(self.gains[part].values())
        return geometric_mean(gains), *interval(gains)

    @property
    def survives(self) -> bool:
        return len(self.gains[CONFIRMING]) >= FEWEST and self.interval(CONFIRMING)[1] > SURE

    @property
    def card(self) -> ChoiceCard:
        ranges = {self.size: (self.low, self.high)} if self.size else {}
        effect = f"Over the rule, by tasks that did not choose it: {self.statement(CONFIRMING)}; by tasks set aside: {self.statement(SET_ASIDE)}."
        claimed = round(self.interval(CONFIRMING)[0], 3) if self.gains[CONFIRMING] else None
        origin = Provenance("sweep", f"benchmarks/choice_findings.py, {self.device}", claimed_speedup=claimed)
        return ChoiceCard(self.device, self.functions, self.dtypes, ranges, self.choice, effect=effect, provenance=origin)

    def statement(self, part: str) -> str:
        if not self.gains[part]:
            return "no task"
        mean, low, high = self.interval(part)
        better = sum(gain > SURE for gain in self.gains[part].values())
        return f"{mean:.3f} [{low:.3f}, {high:.3f}], better in {better} of {len(self.gains[part])}"


def part_of(row: Row) -> str:
    """By the operators, as what is set aside."""
    if is_held_out(row):
        return SET_ASIDE
    key = "half " + " ".join(sorted(set(row["operators"])))
    return CHOOSING if int(hashlib.sha256(key.encode()).hexdigest(), 16) % 2 else CONFIRMING


def measurements(known: Mapping[str, Mapping[str, ChoicePlace]], rows: Iterable[Row]) -> Iterator[Measured]:
    """`known`: by task, its places."""
    for row in rows:
        if not row.get("rule_ms") or not row.get("eager_ms"):
            continue
        places = known[row["task"]]
        for variant in row["variants"]:
            if variant["ms"] and variant.get("eager") and variant["place"] in places:
                over = (row["eager_ms"] / row["rule_ms"], row["eager_ms"] / variant["ms"])
                facts = (row["task"], part_of(row), places[variant["place"]], row["dtype"], variant["label"])
                point, low, high = variant["eager"]
                yield Measured(*facts, row["name"], over, (low / point, high / point))


# the scan


def findings(measured: Sequence[Measured], device: str) -> list[Finding]:
    """All that were chosen, by one half and by the other; `Finding.survives` says which the other half bears out."""
    swapped = {CHOOSING: CONFIRMING, CONFIRMING: CHOOSING, SET_ASIDE: SET_ASIDE}
    return [*chosen(measured, device), *chosen([replace(one, part=swapped[one.part]) for one in measured], device)]


def chosen(measured: Sequence[Measured], device: str) -> list[Finding]:
    """By the half that chooses alone."""
    functions = dict.fromkeys(one.place.function for one in measured)
    roots: list[tuple[str, ...]] = [group for group in LIKE_FUNCTIONS if any(name in functions for name in group)]
    roots += [tuple(name for name in functions if name.startswith(FUSED))]
    roots += [(name,) for name in functions if not any(name in root for root in roots)]
    return [found for root in roots if root for found in _covering(root, measured, device)]


def _covering(root: tuple[str, ...], measured: Sequence[Measured], device: str) -> Iterator[Finding]:
    left = [one for one in measured if one.part == CHOOSING and one.place.function in root]
    while (best := max(_candidates(root, left, device), key=_score, default=None)) is not None:
        whole = _with_gains(best, measured)
        if _score(whole) > 0:  # also with the tasks that an earlier statement covers
            yield whole
        left = [one for one in left if not best.covers(one.place, one.dtype)]


def _candidates(root: tuple[str, ...], left: Sequence[Measured], device: str) -> Iterator[Finding]:
    for functions in dict.fromkeys([root, *((name,) for name in root)]):
        for dtypes in (DTYPES, *((name,) for name in DTYPES)):
            some = [one for one in left if one.place.function in functions and one.dtype in dtypes]
            by_choice: dict[str, list[Measured]] = defaultdict(list)
            for one in some:
                by_choice[one.choice].append(one)
            for choice, own in by_choice.items():
                for size, low, high in _ranges(own):
                    found = _with_gains(Finding(device, functions, dtypes, size, low, high, choice, {}), own)
                    if _score(found) > 0:
                        yield found


def _ranges(own: Sequence[Measured]) -> Iterator[tuple[str, int, int]]:
    """Between powers of two."""
    yield "", 0, 0
    for size in {name for one in own for name in one.place.sizes}:
        powers = sorted({one.place.sizes[size].bit_length() - 1 for one in own if size in one.place.sizes})
        for low, high in combinations_with_replacement(powers, 2):
            yield size, 1 << low, (2 << high) - 1


def _with_gains(found: Finding, measured: Sequence[Measured]) -> Finding:
    by_task: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in measured:
        if one.choice == found.choice and found.covers(one.place, one.dtype):
            by_task[one.part, one.task].append(one.gain)
    gains = {
        part: {task: geometric_mean(some) for (of, task), some in by_task.items() if of == part}
        for part in (CHOOSING, CONFIRMING, SET_ASIDE)
    }
    return replace(found, gains=gains)


def _score(found: Finding) -> float:
    """What is surely won over all tasks that choose, beyond what two medians differ by; 0 where nothing is."""
    logs = [math.log(gain / SURE) for gain in found.gains[CHOOSING].values()]
    if len(logs) < FEWEST:
        return 0.0
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((one - mean) ** 2 for one in logs) / (len(logs) - 1) / len(logs))
    return max(0.0, len(logs) * (mean - CERTAIN * spread))


def table(found: Sequence[Finding]) -> Iterator[str]:
    kept = [one for one in found if one.survives]
    few = sum(len(one.gains[CONFIRMING]) < FEWEST for one in found)
    yield f"{len(found)} statements chosen, {len(kept)} kept; {few} had fewer than {FEWEST} tasks in the other half"
    yield ""
    yield "| where | choice | chosen on | confirmed on | set aside | kept |"
    yield "|---|---|---|---|---|---|"
    for one in sorted(found, key=lambda one: -one.survives):
        cells = " | ".join(one.statement(part) for part in (CHOOSING, CONFIRMING, SET_ASIDE))
        yield f"| {' or '.join(one.dtypes)}, {one.card.where} | {one.choice} | {cells} | {'yes' if one.survives else 'no'} |"


def card_line(found: Finding, measured: Sequence[Measured]) -> str:
    """A line of a library's file: the card, with a trial for every task that did not choose it."""
    skill = found.card.skill()
    admit_data(skill.to_json(), skill.name)
    trials = [
        Trial(
            skill.name, 1, "sweep", one.task, one.name, True, "eager", found.device, JUDGE_VERSION, (one.over_eager[1],), (one.over_eager[0],),
            GainInterval(one.gain, one.gain * one.ends[0], one.gain * one.ends[1]), "unfinished", "one pairing of the sweep; no gate has tried it",
        ).to_json()
        for one in measured
        if one.choice == found.choice and one.task in found.gains[CONFIRMING] and found.covers(one.place, one.dtype)
    ]  # fmt: skip
    return json.dumps({**skill.to_json(), "evidence": trials}, ensure_ascii=False, sort_keys=True)


def device_of(rows: Sequence[Row]) -> str:
    return str(rows[0]["where"]).split(",")[0]


def main(
    folder: Annotated[Path, typer.Argument(help="The sweep's.")],
    cards: Annotated[Path | None, typer.Option(help="Write what is kept as cards to this file.")] = None,
) -> None:
    rows = rows_of(folder / RESULTS)
    measured = list(measurements({one.id: {**places_of(one), **fused_place(one)} for one in tasks_of(folder)}, rows))
    found = findings(measured, device_of(rows))
    print("\n".join(table(found)))
    if cards is not None:
        cards.write_text("".join(f"{card_line(one, measured)}\n" for one in found if one.survives), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
