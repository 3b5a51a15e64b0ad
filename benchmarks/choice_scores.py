"""What was gained on tasks that were validated on or set aside: the files of scores, and the report over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from choice_distil import ends
from choice_folds import FOLDS, rows_file
from choice_sweep import SURE, Row, rows_of
from figure import where, write_rows

VALIDATED, SET_ASIDE = "validated", "set aside"
GREEDY, SAMPLED = "greedy", "sampled"
ORACLE, RANDOM = BOUNDS = ("oracle", "an option at random")
"""What nothing need be compared with."""


def told(made: Sequence[Row]) -> str:
    """What the last part that was scored gains."""
    last = [one for one in made if (one["setting"], one["part"]) == (made[-1]["setting"], made[-1]["part"])]
    means = {measure: math.exp(sum(one[measure] for one in last) / len(last)) for measure in (GREEDY, SAMPLED)}
    return ", ".join(f"{measure} {mean:.3f}" for measure, mean in means.items())


def score_rows(
    way: str, fold: int, seed: int, setting: str, part: str, tasks: Iterable[str], found: Sequence[Mapping[str, float]]
) -> list[Row]:
    facts = {"way": way, "fold": fold, "seed": seed, "setting": setting, "part": part}
    return [
        {**facts, "task": task, **{name: round(value, 5) for name, value in one.items()}} for task, one in zip(tasks, found)
    ]


def scores_file(folder: Path, way: str, fold: int, seed: int, setting: str) -> Path:
    return folder / f"scores-{way}-{fold}-{seed}-{setting}.jsonl"


def write_scores(path: Path, made: Sequence[Row]) -> None:
    write_rows(path.with_suffix(".part"), made)
    path.with_suffix(".part").rename(path)


def settled(scores: Sequence[Row], measure: str) -> dict[str, dict[str, float]]:
    """By way and task, the log of the gain on tasks set aside: of each fold and seed with the setting that is best on the part that chooses, the mean
    over seeds."""
    validated: dict[tuple[str, int, int], dict[str, list[float]]] = {}
    for one in scores:
        if one["part"] == VALIDATED:
            by_setting = validated.setdefault((one["way"], one["fold"], one["seed"]), {})
            by_setting.setdefault(one["setting"], []).append(one[measure])
    best = {key: max(by, key=lambda setting: sum(by[setting]) / len(by[setting])) for key, by in validated.items()}
    found: dict[str, dict[str, list[float]]] = {}
    for one in scores:
        key = one["way"], one["fold"], one["seed"]
        if one["part"] == SET_ASIDE and best.get(key, one["setting"]) == one["setting"]:
            found.setdefault(one["way"], {}).setdefault(one["task"], []).append(one[measure])
    return {way: {task: sum(logs) / len(logs) for task, logs in by.items()} for way, by in found.items()}


def report_lines(known: Mapping[str, Mapping[str, float]], scores: Sequence[Row]) -> Iterable[str]:
    """`known`: by way and task, logs of gains that need no model. Intervals are over resampled tasks."""
    ways = {measure: {**known, **settled(scores, measure)} for measure in (GREEDY, SAMPLED)}
    names = list(ways[GREEDY])
    tasks = set.intersection(*(set(ways[GREEDY][way]) for way in names)) if names else set()
    yield f"{len(tasks)} tasks that every way has\n"
    yield f"| who chose | tasks | over the rule, {GREEDY} | {SAMPLED} |"
    yield "|---|---|---|---|"
    for way in names:
        cells = " | ".join(ends([math.exp(gain) for gain in ways[measure][way].values()]) for measure in (GREEDY, SAMPLED))
        yield f"| {way} | {len(ways[GREEDY][way])} | {cells} |"
    yield f"\n| | tasks | {GREEDY} | {SAMPLED} | faster, slower by 2 % |\n|---|---|---|---|---|"
    learned = sorted(
        (way for way in names if way not in known), key=lambda way: -sum(ways[GREEDY][way].values()) / len(ways[GREEDY][way])
    )
    for way, other in (
        (way, other)
        for at, way in enumerate(learned)
        for other in (*learned[at + 1 :], *(name for name in known if name not in BOUNDS))
    ):
        both = [task for task in ways[GREEDY][way] if task in ways[GREEDY][other]]
        if both:
            ratios = [[math.exp(ways[of][way][task] - ways[of][other][task]) for task in both] for of in (GREEDY, SAMPLED)]
            apart = f"{sum(one > SURE for one in ratios[0])}, {sum(one < 1 / SURE for one in ratios[0])}"
            yield f"| {way} over {other} | {len(both)} | {ends(ratios[0])} | {ends(ratios[1])} | {apart} |"


def all_scores(folder: Path) -> list[Row]:
    return [row for path in sorted(folder.glob("scores-*.jsonl")) for row in rows_of(path)]


def known_ways(held: Sequence[Row]) -> dict[str, dict[str, float]]:
    """What needs no model, by task."""
    found: dict[str, dict[str, float]] = {
        "the rule": {row["task"]: 0.0 for row in held},
        ORACLE: {row["task"]: math.log(max(1.0, row["gain"])) for row in held},
        RANDOM: {row["task"]: sum(row["gains"]) / len(row["gains"]) for row in held},
    }
    for row in held:
        for way, pick in row.get("controls", {}).items():
            found.setdefault(way, {})[row["task"]] = row["gains"][pick]
        for way, one in row.get("beside", {}).items():
            found.setdefault(way, {})[row["task"]] = one["gain"]
    return found


def print_report(folder: Path, rows: Path | None = None) -> None:
    """What is gained on the tasks that were set aside; beside it what needs no model, where their rows are given."""
    held = [row for fold in range(FOLDS) for row in rows_of(rows_file(rows, fold)) if row["held_out"]] if rows else []
    print("\n".join(report_lines(known_ways(held) if rows else {}, all_scores(folder))))
    print(f"\n{where('cuda' if torch.cuda.is_available() else 'cpu')}")
