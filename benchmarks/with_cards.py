"""Kernels with lineage cards against kernels without, on tasks that no card was mined or tried on.

    python benchmarks/with_cards.py lineages/*/cards.jsonl --device cuda --out runs/with_cards

The writer is `examples/experts/follow_cards.py`: a task's plain kernel with the steps of the given cards done to it, and nothing else. Each arm
writes one kernel a task: the plain one (`none`), with the first 3 and 8 cards that retrieval offers for the task (its conditions checked), and
with 8 cards drawn from all (`any`). A wrong kernel is worth as much as the plain one where kernels are compared, and as eager where it is asked
what its user keeps. Intervals are over tasks. Run again with the same folder, it goes on.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bottega.bench.bootstrap import Draws, Estimate
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.trial import Trial
from bottega.core.verdict import Verdict
from bottega.episodes.selecting import retrieve
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.device_host import LOCAL
from bottega.languages import candidate_from
from bottega.lineage.round_trip import by_rules_or_example
from bottega.lineage.rule import rules_of
from bottega.skills.exchange import import_file
from bottega.skills.library import Library
from bottega.skills.relations import compatible, in_order
from bottega.tasks.load import load_task

PLAIN = Path(__file__).parent.parent / "examples/experts/plain"
ARMS = ("none", "3 cards", "8 cards", "any")
FEW, MANY = 3, 8
FILE, LIBRARY = "verdicts.jsonl", "library"


def main(
    cards: Annotated[list[Path], typer.Argument(help="cards.jsonl of `bottega lineage mine`.")],
    out: Annotated[Path, typer.Option(help="A folder for the library and the verdicts.")],
    device: str = "cpu",
    language: str = "triton",
    only: Annotated[str, typer.Option(help="Tasks, by comma; all that have a plain kernel and are unseen if left out.")] = "",
    workers: Annotated[int, typer.Option(help="Kernels judged side by side.")] = 12,
    gaining_only: Annotated[
        bool, typer.Option(help="Leave out cards that were not surely faster where they were tried.")
    ] = True,
    judged: Annotated[bool, typer.Option(help="Else the texts are made and nothing is judged.")] = True,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with Library(out / LIBRARY) as library:
        if not len(library):
            for path in cards:
                import_file(library, path)
        seen = {trial.task_name for card in library.cards() for trial in library.evidence.trials(card.name)}
        pool = [card for card in library.cards() if card.reason.startswith("verified")]
        pool = [card for card in pool if not gaining_only or gained(library.evidence.trials(card.name))]
        names = only.split(",") if only else [path.stem for path in sorted((PLAIN / language).glob("*.py"))]
        tasks = [load_task(f"builtin:{name}", size="cpu" if device == "cpu" else "gpu") for name in names if name not in seen]
        texts = {task.name: texts_for(library, task, pool, device, language) for task in tasks}
    for name, arms in texts.items():
        changed = [arm for arm, text in arms.items() if text != arms["none"]]
        print(f"{name}: changed by {', '.join(changed) or 'no card'}", file=sys.stderr)
    if judged:
        verdicts = judge_all(tasks, texts, device, workers, out / FILE)
        print(
            "\n".join(rows({task: {arm: verdicts[task, text] for arm, text in arms.items()} for task, arms in texts.items()}))
        )


def gained(trials: Iterable[Trial]) -> bool:
    """Of cards that were redone right and no slower most are worth nothing by themselves: a step done for nothing can only harm."""
    return any(trial.gain is not None and trial.gain.low > 1 for trial in trials)


def texts_for(library: Library, task: Task, pool: Sequence[Skill], device: str, language: str) -> dict[str, str]:
    """By arm."""
    plain = (PLAIN / language / f"{task.name}.py").read_text(encoding="utf-8")
    settings = EpisodeSettings(device=device, language=language, select="bm25", unproved=True)
    found = retrieve(library, task, settings, LOCAL.facts(device), library.version)
    known = {card.name for card in pool}
    offered = [card for card in found if card.name in known]
    drawn = random.Random(task.name).sample(list(pool), min(MANY, len(pool)))
    given = ((), compatible(offered, FEW), compatible(offered, MANY), drawn)
    return {arm: followed(task, plain, skills, language) for arm, skills in zip(ARMS, given)}


def followed(task: Task, plain: str, cards: Sequence[Skill], language: str) -> str:
    """As `follow_cards.py` does it."""
    redo, kernel = by_rules_or_example(rules_of(language)), plain
    for card in in_order(cards):
        edit = next(redo(card, task, kernel), None)
        kernel = edit.source if edit is not None else kernel
    return kernel


def judge_all(
    tasks: Iterable[Task], texts: Mapping[str, Mapping[str, str]], device: str, workers: int, path: Path
) -> dict[tuple[str, str], Verdict]:
    """Each text of a task once; what the file has is not judged again."""
    found: dict[tuple[str, str], Verdict] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        data = json.loads(line)
        found[data["task"], data["text"]] = Verdict.from_json(data["verdict"])
    wanted = [(task, text) for task in tasks for text in dict.fromkeys(texts[task.name].values())]
    wanted = [(task, text) for task, text in wanted if (task.name, text) not in found]
    with (
        LOCAL.judge(device, workers=workers, baselines=("eager",), quick=True) as judge,
        ThreadPoolExecutor(workers) as pool,
        path.open("a", encoding="utf-8") as file,
    ):
        for (task, text), verdict in zip(wanted, pool.map(lambda one: judge.judge(one[0], candidate_from(one[1])), wanted)):
            found[task.name, text] = verdict
            file.write(json.dumps({"task": task.name, "text": text, "verdict": verdict.to_json()}) + "\n")
            file.flush()
    return found


def speed(verdict: Verdict) -> float | None:
    """None where it is wrong."""
    timed = verdict.speedup.get("eager") if verdict.outcome.accepted else None
    return timed.point if timed is not None and timed.point > 0 else None


def kept(verdict: Verdict) -> float:
    """What a user has of it: its speedup where it is surely faster, else 1."""
    timed = verdict.speedup.get("eager") if verdict.outcome.accepted else None
    return timed.point if timed is not None and timed.low > 1 else 1.0


def rows(verdicts: Mapping[str, Mapping[str, Verdict]]) -> list[str]:
    """As Markdown: each task with its speedups over eager, then the means."""
    there = {task: arms for task, arms in verdicts.items() if speed(arms["none"]) is not None}
    lines = [f"| task | {' | '.join(ARMS)} |", f"|---|{'---|' * len(ARMS)}"]
    for task, arms in verdicts.items():
        cells = [f"{point:.2f}" if (point := speed(arms[arm])) is not None else arms[arm].outcome.value for arm in ARMS]
        lines.append(f"| `{task}` | {' | '.join(cells)} |")
    if not there:
        return lines
    draws = Draws(len(there))
    plain = np.array([speed(arms["none"]) for arms in there.values()], dtype=float)
    over, keeps = [], []
    for arm in ARMS:
        own = np.array([speed(arms[arm]) or speed(arms["none"]) for arms in there.values()], dtype=float)
        over.append(_interval(draws.geometric_mean(own / plain)) if arm != "none" else "1")
        held = [kept(arms[arm]) for arms in there.values()]
        keeps.append(f"{math.exp(float(np.mean(np.log(held)))):.2f}")
    lines.append(f"| over the plain kernel, geometric mean | {' | '.join(over)} |")
    lines.append(f"| kept over eager, geometric mean | {' | '.join(keeps)} |")
    return lines


def _interval(found: Estimate) -> str:
    if found.point is None or found.low is None or found.high is None:
        return "—"
    return f"{found.point:.2f} ({found.low:.2f} to {found.high:.2f})"


if __name__ == "__main__":
    typer.run(main)
