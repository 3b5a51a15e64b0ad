"""All expert kernels of `examples/experts` mined on one device, what came of it as tables, and the admission gate for the most promising cards.

    PYTHONPATH=src python3 benchmarks/lineages.py mine lineages --device cuda
    PYTHONPATH=src python3 benchmarks/lineages.py table lineages
    PYTHONPATH=src python3 benchmarks/lineages.py export lineages examples/experts/cards_h200.jsonl
    PYTHONPATH=src python3 benchmarks/lineages.py gate lineages gated --device cuda --seconds 300

`mine` runs `bottega lineage mine` for each kernel, several side by side; `export` writes the cards that were verified on the sibling too. `gate` puts
cards to `bottega skills verify` with `follow_cards.py` as the writer. Both arms get all other cards of the lineage, because alone in a plain kernel
most steps stay below eager, where the gate counts nothing: the question is what a step is worth in an otherwise good kernel. That writer always
writes the same text, so the bound is about measuring, not about writers. Every command goes on where it was cut.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.lineage.journal import read_records
from bottega.lineage.round_trip import RoundTrip, by_rules_or_example
from bottega.lineage.rule import rules_of
from bottega.lineage.step import Effect, Step
from bottega.lineage.tree import RecordedLineage, recorded
from bottega.skills.exchange import import_file
from bottega.skills.gate import Rules
from bottega.skills.library import Library
from bottega.skills.relations import conflicting, in_order
from bottega.skills.validation import admit_data

EXPERTS = Path(__file__).parent.parent / "examples/experts"
PRODUCTS = ("swiglu", "linear_mish_residual", "router_weights", "causal_attention", "strided_conv2d")
ROWS = ("smoothed_cross_entropy", "rms_norm_rows")
HEADS, MATRICES, SUMS = "per_head_projection", "gram_matrices", "logsumexp_rows"
SIBLINGS = {
    "cpp": {
        **dict.fromkeys(PRODUCTS, HEADS),
        "causal_attention": SUMS,
        "smoothed_cross_entropy": SUMS,
        "cumsum_over_time": "gated_scan",
    },
    "triton": {**dict.fromkeys(PRODUCTS, MATRICES), "cumsum_over_time": SUMS, **dict.fromkeys(ROWS, SUMS)},
}
for _siblings in SIBLINGS.values():
    _siblings["rms_norm_rows"] = "group_norm_sequence"
BOTTEGA = (sys.executable, "-m", "bottega")
WORTH = 1.03
"""Where the expert itself is no faster than eager the gate can see nothing."""
CAP = Rules().cap
"""Beyond it the gate sees no gain: siblings whose experts stay below it come first."""
LEAST = 1.1
"""What a card must have been worth in all its tries together: the gate has no time for one that did nothing."""
STRONGEST = math.log(CAP)
"""No single effect counts for more than this: one of 54 times was measured with everything else in place."""

app = typer.Typer(add_completion=False, help=__doc__)
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Language = Annotated[str, typer.Option(help="triton or cpp.")]


@app.command()
def mine(
    out: Path,
    device: Device = "cuda",
    language: Language = "triton",
    at_once: int = 8,
    seconds: Annotated[float, typer.Option(help="For each kernel.")] = 900,
) -> None:
    out.mkdir(parents=True, exist_ok=True)

    def run(name: str) -> str:
        sibling = SIBLINGS[language][name]
        command = [*BOTTEGA, "lineage", "mine", str(EXPERTS / language / f"{name}.py"), "--task", f"builtin:{name}"]
        command += ["--sibling", f"builtin:{sibling}", "--device", device, "--out", str(out / name)]
        command += [f"sibling_kernel={EXPERTS / 'plain' / language / f'{sibling}.py'}", "pairs=3", "timeout=40"]
        return f"{name}: {_ended(command, out / f'{name}.txt', seconds)}"

    with ThreadPoolExecutor(at_once) as pool:
        for told in pool.map(run, SIBLINGS[language]):
            typer.echo(told, err=True)
    table(out)


def _ended(command: Sequence[str], log: Path, seconds: float) -> str:
    with log.open("a", encoding="utf-8") as file:
        try:
            code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            return "cut off"
    return f"exit code {code}"


@app.command()
def table(folder: Path) -> None:
    typer.echo("| kernel | over eager | steps | verdicts | redone on the plain kernel | verified on the sibling too | |")
    typer.echo("|---|---|---:|---:|---:|---:|---|")
    sure = []
    for name, found, speed in _lineages(folder):
        trips = found.trips.values()
        redone = sum(trip.own is not None and trip.own.correct and _kind(trip.own.effect) != "loss" for trip in trips)
        counts = f"{len(found.steps)} | {found.verdicts} | {redone} | {sum(trip.verified for trip in trips)}"
        typer.echo(f"| `{name}` | {speed:.2f} | {counts} | {'' if found.finished else 'cut off'} |")
        for step in found.steps:
            trip = found.trips.get(step.number)
            if _kind(step.attempt.effect) in ("gain", "loss"):
                assert step.attempt.effect is not None
                sure.append(
                    f"- {name}: {step.provided} {step.attempt.effect.text} at its place; {trip.text if trip else 'not redone yet'}"
                )
    typer.echo("\nSurely above or below 1 at their place:\n" + "\n".join(sure))


def _kind(effect: Effect | None) -> str:
    return effect.kind if effect is not None else ""


def _lineages(folder: Path) -> list[tuple[str, RecordedLineage, float]]:
    """Each with what its expert is over eager, 0 where that was not timed."""
    found = []
    for each in sorted(path for path in folder.iterdir() if path.is_dir()):
        records = read_records(each)
        verdicts = [record["verdict"] for key, record in records.items() if key.startswith("verdict/")]
        if verdicts:
            found.append((each.name, recorded(records), next((one["point"] for one in verdicts[0]["speedup"].values()), 0.0)))
    return found


@app.command()
def export(folder: Path, file: Path) -> None:
    lines = [line for path in sorted(folder.glob("*/cards.jsonl")) for line in path.read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if _shown_on_a_sibling(json.loads(line))]
    file.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    typer.echo(f"{len(kept)} of {len(lines)} cards in {file}")


def _shown_on_a_sibling(card: Mapping[str, object]) -> bool:
    trials = card["evidence"]
    assert isinstance(trials, list)
    return str(card["reason"]).startswith("verified") and any(trial["sibling"] for trial in trials)


@dataclass(frozen=True)
class Choice:
    """A card for the gate, with the tasks and the cards beside it."""

    card: Skill
    task: str
    siblings: tuple[str, ...]
    beside: tuple[Skill, ...]


@app.command()
def gate(
    lineages: Path,
    out: Path,
    device: Device = "cuda",
    language: Language = "triton",
    cards: Annotated[int, typer.Option(help="So many, the most promising first.")] = 6,
    only: Annotated[str, typer.Option(help="These cards, by comma; else the most promising ones are chosen.")] = "",
    at_once: int = 3,
    rounds: int = 20,
    seconds: Annotated[float, typer.Option(help="For all together.")] = 600,
    dry: Annotated[bool, typer.Option(help="Only say which.")] = False,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    chosen = choices(lineages, language, cards, only.split(",") if only else ())
    for one in chosen:
        typer.echo(
            f"to the gate: {one.card.name} on {one.task} and {', '.join(one.siblings)}, beside {len(one.beside)} cards",
            err=True,
        )

    def verify(one: Choice) -> str:
        left, name = end - time.monotonic(), one.card.name
        if left <= 0:
            return f"{name}: not begun"
        with Library(out / name) as library:
            if not len(library):
                import_file(library, lineages / one.task / "cards.jsonl")
        command = [
            *BOTTEGA,
            "skills",
            "verify",
            name,
            "--task",
            f"builtin:{one.task}",
            "--library",
            str(out / name),
            "--device",
            device,
        ]
        command += [part for sibling in one.siblings for part in ("--sibling", f"builtin:{sibling}")]
        command += ["--writer", f"{sys.executable} {EXPERTS / 'follow_cards.py'} {lineages}", f"rounds={rounds}"]
        command += [f"workers={max(2, (os.cpu_count() or 2) // at_once)}"]
        command += [f"beside={','.join(other.name for other in one.beside)}"] if one.beside else []
        ended = _ended(command, out / f"{name}.txt", left)
        last = [line for line in (out / f"{name}.txt").read_text(encoding="utf-8").splitlines() if line.strip()][-1:]
        return f"{name}: {ended}: {' '.join(last)}"

    with ThreadPoolExecutor(at_once) as pool:
        for told in pool.map(verify, () if dry else chosen):
            typer.echo(told)


def choices(lineages: Path, language: str, most: int, only: Sequence[str] = ()) -> list[Choice]:
    """By what the step was worth at its place (twice), on the plain kernel and on the sibling; of one technique the best first."""
    plains = {path.stem: path.read_text(encoding="utf-8") for path in (EXPERTS / "plain" / language).glob("*.py")}
    mined, speeds, ranked = dict[str, list[Skill]](), dict[str, float](), list[tuple[float, str, Skill]]()
    for name, found, speed in _lineages(lineages):
        if speed < WORTH or not found.finished:
            continue
        plains[name], speeds[name] = (lineages / name / "plain.py").read_text(encoding="utf-8"), speed
        mined[name] = [_card(line) for line in (lineages / name / "cards.jsonl").read_text(encoding="utf-8").splitlines()]
        steps = {f"step {step.number} of": step for step in found.steps}
        for card in mined[name]:
            step = next(step for told, step in steps.items() if told in card.provenance.source)
            worth = float(-only.index(card.name)) if card.name in only else _promise(step, found.trips[step.number])
            if card.reason.startswith("verified") and (card.name in only if only else worth > math.log(LEAST)):
                ranked.append((worth, name, card))
    taken, chosen = Counter[str](), list[Choice]()
    for each_at_most in (len(only),) if only else (1, 2, 3):
        for _, name, card in sorted(ranked, key=lambda one: -one[0]):
            feature = card.relations.provides[0].partition("=")[0]
            if len(chosen) == most or taken[feature] == each_at_most or any(one.card is card for one in chosen):
                continue
            beside = tuple(other for other in mined[name] if other.name != card.name and not conflicting(card, other))
            group = [each for each in (PRODUCTS if name in PRODUCTS else ROWS) if each != name and each in speeds]
            near = (*sorted(group, key=lambda each: (speeds[each] > CAP, -speeds[each])), SIBLINGS[language][name])
            siblings = tuple(each for each in near if _differs(plains[each], card, beside, language))[:2]
            if siblings and _differs(plains[name], card, beside, language):
                taken[feature] += 1
                chosen.append(Choice(card, name, siblings, beside))
    return chosen


def _card(line: str) -> Skill:
    return admit_data({name: value for name, value in json.loads(line).items() if name != "evidence"})


def _promise(step: Step, trip: RoundTrip) -> float:
    tries = (step.attempt, step.attempt, trip.own, trip.sibling)
    effects = [one.effect for one in tries if one is not None and one.effect is not None]
    return sum(max(-STRONGEST, min(STRONGEST, math.log(effect.point))) for effect in effects)


def _differs(plain: str, card: Skill, beside: Sequence[Skill], language: str) -> bool:
    return _followed(plain, (*beside, card), language) != _followed(plain, beside, language)


def _followed(kernel: str, cards: Sequence[Skill], language: str) -> str:
    redo, unused = by_rules_or_example(rules_of(language)), Task("", "unused")
    for card in in_order(cards):
        kernel = next((edit.source for edit in redo(card, unused, kernel)), kernel)
    return kernel


if __name__ == "__main__":
    app()
