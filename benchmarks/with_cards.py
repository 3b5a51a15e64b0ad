"""Kernels with lineage cards against kernels without, on tasks that no card was mined or tried on, at equal numbers of kernels.

    python benchmarks/with_cards.py lineages/*/cards.jsonl --device cuda --out runs/with_cards

The writer does to a task's plain kernel what one card after the other says, and keeps a step where the judge finds it surely faster; else
it is taken back, and tried again after others were kept. Each kernel that is judged counts, up to `--kernels` of a task beside the plain
one. With `cards` it gets those that retrieval offers for the task (typed conditions checked, what gained most first and behind what it
requires, one for each feature), of those that were verified and surely gained something. With `any` it gets the steps of all cards in an
order that is drawn: it can do the same, and does not know what pays where. What counts of a task is what its user keeps: the last kernel
where it is surely faster than eager, else eager. Intervals are over tasks. Run again with the same folder, it goes on.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bottega.bench.bootstrap import Draws, Estimate
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.episodes.selecting import retrieve
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.device_host import LOCAL
from bottega.languages import candidate_from
from bottega.lineage.round_trip import by_rules_or_example
from bottega.lineage.rule import rules_of
from bottega.lineage.step import effect_between
from bottega.skills.exchange import import_file
from bottega.skills.library import Library
from bottega.skills.relations import compatible, in_order
from bottega.skills.validation import admit_data
from bottega.tasks.load import load_task

PLAIN = Path(__file__).parent.parent / "examples/experts/plain"
ARMS = ("plain", "cards", "any")
FILE, LIBRARY, PROVED = "verdicts.jsonl", "library", "proved.jsonl"


def main(
    cards: Annotated[list[Path], typer.Argument(help="cards.jsonl of `bottega lineage mine`.")],
    out: Annotated[Path, typer.Option(help="A folder for the library and the verdicts.")],
    device: str = "cpu",
    language: str = "triton",
    only: Annotated[str, typer.Option(help="Tasks, by comma; all that have a plain kernel and are unseen if left out.")] = "",
    kernels: Annotated[int, typer.Option(help="Of a task and an arm, beside the plain one.")] = 6,
    workers: Annotated[int, typer.Option(help="Kernels judged side by side.")] = 12,
    judged: Annotated[bool, typer.Option(help="Else it only says which cards a task gets.")] = True,
) -> None:
    lines = [json.loads(line) for path in cards for line in path.read_text(encoding="utf-8").splitlines()]
    seen = {str(trial["task_name"]) for line in lines for trial in line["evidence"]}
    names = only.split(",") if only else [path.stem for path in sorted((PLAIN / language).glob("*.py"))]
    tasks = [load_task(f"builtin:{name}", size="cpu" if device == "cpu" else "gpu") for name in names if name not in seen]
    shutil.rmtree(out / LIBRARY, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / PROVED).write_text("".join(f"{json.dumps(line)}\n" for line in lines if proved(line)), encoding="utf-8")
    with Library(out / LIBRARY) as library:
        import_file(library, out / PROVED)
        steps = [admit_data({name: value for name, value in line.items() if name != "evidence"}) for line in lines]
        given = {
            task.name: dict(zip(ARMS, ([], offered(library, task, device, language), drawn(task, steps)))) for task in tasks
        }
    for name, arms in given.items():
        typer.echo(f"{name}: {', '.join(card.name for card in arms['cards']) or 'no card'}", err=True)
    if judged:
        with judging(device, workers, out / FILE) as judge:
            print("\n".join(rows(climbs(tasks, given, language, kernels, judge, workers))))


def proved(line: Mapping[str, Any]) -> bool:
    """Verified, and surely faster somewhere: most steps that can be redone are worth nothing by themselves, and cost a kernel."""
    return str(line["reason"]).startswith("verified") and any(
        trial["gain"] is not None and trial["gain"]["low"] > 1 for trial in line["evidence"]
    )


def offered(library: Library, task: Task, device: str, language: str) -> list[Skill]:
    settings = EpisodeSettings(device=device, language=language, select="bm25", unproved=True)
    found = retrieve(library, task, settings, LOCAL.facts(device), library.version)
    gains = {card.name: max(trial.gain.low for trial in library.evidence.trials(card.name) if trial.gain) for card in found}
    return in_order(compatible(sorted(found, key=lambda card: -gains[card.name]), len(found)))


def drawn(task: Task, steps: Sequence[Skill]) -> list[Skill]:
    return random.Random(task.name).sample(list(steps), len(steps))


Judging = Callable[[Task, str], Verdict]


@contextmanager
def judging(device: str, workers: int, path: Path) -> Iterator[Judging]:
    """Each text of a task once; what the file has is not judged again."""
    known: dict[tuple[str, str], Verdict] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        data = json.loads(line)
        known[data["task"], data["text"]] = Verdict.from_json(data["verdict"])
    lock = threading.Lock()
    with (
        LOCAL.judge(device, workers=workers, baselines=("eager",), quick=True, timeout=40.0) as judge,
        path.open("a", encoding="utf-8") as file,
    ):

        def verdict(task: Task, text: str) -> Verdict:
            if (task.name, text) not in known:
                found = judge.judge(task, candidate_from(text))
                with lock:
                    known[task.name, text] = found
                    file.write(json.dumps({"task": task.name, "text": text, "verdict": found.to_json()}) + "\n")
                    file.flush()
            return known[task.name, text]

        yield verdict


@dataclass(frozen=True)
class Climb:
    """What an arm came to on one task."""

    verdict: Verdict
    """Of the kernel that is left in the end."""
    kernels: int = 0
    kept: tuple[str, ...] = ()


def climb(task: Task, plain: str, cards: Iterable[Skill], language: str, most: int, judge: Judging) -> Climb:
    """A step that was taken back is tried again after others were kept: tensor cores lose on tiles of 16 by 16, and gain on large ones."""
    redo, kernel, best, spent, steps = by_rules_or_example(rules_of(language)), plain, judge(task, plain), 0, list[str]()
    left, back = list(cards), list[Skill]()
    while left and spent < most:
        card = left.pop(0)
        edit = next(redo(card, task, kernel), None)
        if edit is None or edit.source == kernel:
            continue
        found, spent = judge(task, edit.source), spent + 1
        effect = effect_between(best, found) if found.outcome.accepted else None
        if effect is not None and effect.kind == "gain":
            kernel, best = edit.source, found
            steps.append(card.relations.provides[0])
            left, back = [*left, *back], []
        else:
            back.append(card)
    return Climb(best, spent, tuple(steps))


def climbs(
    tasks: Sequence[Task],
    given: Mapping[str, Mapping[str, Sequence[Skill]]],
    language: str,
    kernels: int,
    judge: Judging,
    workers: int,
) -> dict[str, dict[str, Climb]]:
    """By task and arm. The plain kernels first, so that they are judged once."""

    def one(asked: tuple[Task, str]) -> Climb:
        task, arm = asked
        plain = (PLAIN / language / f"{task.name}.py").read_text(encoding="utf-8")
        return climb(task, plain, given[task.name][arm], language, kernels, judge)

    found: dict[str, dict[str, Climb]] = {task.name: {} for task in tasks}
    with ThreadPoolExecutor(workers) as pool:
        for arms in (ARMS[:1], ARMS[1:]):
            asked = [(task, arm) for arm in arms for task in tasks]
            for (task, arm), came in zip(asked, pool.map(one, asked)):
                found[task.name][arm] = came
    return found


def speed(verdict: Verdict) -> float | None:
    """None where it is wrong."""
    timed = verdict.speedup.get("eager") if verdict.outcome.accepted else None
    return timed.point if timed is not None and timed.point > 0 else None


def kept(verdict: Verdict) -> float:
    """What a user has of it: its speedup where it is surely faster, else 1."""
    timed = verdict.speedup.get("eager") if verdict.outcome.accepted else None
    return timed.point if timed is not None and timed.low > 1 else 1.0


def rows(found: Mapping[str, Mapping[str, Climb]]) -> list[str]:
    """As Markdown: each task with its speedups over eager and the steps that were kept, then the means."""
    there = {task: arms for task, arms in found.items() if speed(arms["plain"].verdict) is not None}
    lines = [f"| task | {' | '.join(ARMS)} | steps kept with cards |", f"|---|{'---|' * len(ARMS)}---|"]
    for task, arms in found.items():
        cells = [
            f"{point:.2f}" if (point := speed(one.verdict)) else one.verdict.outcome.value for one in map(arms.get, ARMS) if one
        ]
        lines.append(f"| `{task}` | {' | '.join(cells)} | {', '.join(arms['cards'].kept)} |")
    if not there:
        return lines
    draws, speeds = Draws(len(there)), dict[str, np.ndarray]()
    kepts = dict[str, np.ndarray]()
    for arm in ARMS:
        speeds[arm] = np.array([speed(arms[arm].verdict) for arms in there.values()], dtype=float)
        kepts[arm] = np.array([kept(arms[arm].verdict) for arms in there.values()])
    over = [_interval(draws.geometric_mean(speeds[arm] / speeds["plain"])) for arm in ARMS[1:]]
    keeps = [f"{math.exp(float(np.mean(np.log(kepts[arm])))):.2f}" for arm in ARMS]
    spent = [f"{sum(arms[arm].kernels for arms in there.values()) / len(there):.1f}" for arm in ARMS[1:]]
    lines.append(f"| over the plain kernel, geometric mean | 1 | {' | '.join(over)} | |")
    lines.append(f"| kept over eager, geometric mean | {' | '.join(keeps)} | |")
    lines.append(f"| kernels beside the plain one, mean | 0 | {' | '.join(spent)} | |")
    against = [_interval(draws.geometric_mean(each["cards"] / each["any"])) for each in (speeds, kepts)]
    lines.append(f"\ncards over any: {against[0]} as fast; {against[1]} of what is kept")
    return lines


def _interval(found: Estimate) -> str:
    if found.point is None or found.low is None or found.high is None:
        return "—"
    return f"{found.point:.2f} ({found.low:.2f} to {found.high:.2f})"


if __name__ == "__main__":
    typer.run(main)
