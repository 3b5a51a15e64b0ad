"""What there is to win by choices: of many tasks the rule's answer and variants of it that differ in tiles, warps, stages, splits, blocks, rows of
a program, own kernel or torch's, all measured side by side on the judge's trusted mode.

`write` draws the tasks and writes the answers, on any machine; `run` compiles and measures on the GPU, and goes on where it was stopped; `report`
prints the table again. The variant that looks best was picked for its noise too, so it is measured again against the rule, and that counts.

    PYTHONPATH=src python3 benchmarks/choice_sweep.py write sweep --processes 2
    PYTHONPATH=src python3 benchmarks/choice_sweep.py run sweep --device cuda --seconds 420
    PYTHONPATH=src python3 benchmarks/choice_sweep.py report benchmarks/choice_sweep_h200

The last is the sweep that is kept: 794 tasks on one H200, packed with xz.
"""

from __future__ import annotations

import json
import lzma
import math
import os
import random
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from choice_tasks import FUSED, SweepTask, builtin, series
from figure import Device, Workers, say, where

from bottega.compiler.answer_choices import AnswerChange, changed
from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError
from bottega.core.verdict import Verdict
from bottega.judge.trusted.judge import TrustedJudge
from bottega.tasks.synth import FAMILIES

TASKS, RESULTS = "tasks.jsonl", "results.jsonl"
ROUNDS, AGAIN = 12, 24
"""Of all variants together, and of the rule against those that looked best."""
LOOKS_BETTER = 1.01
FINALISTS = 2
"""Single changes that are measured again: the best may turn out to do too little of its own work."""
AIM = 1.05
SURE = 1.02
"""Gain of a winner in its last pairing with the rule from which it counts as better: two medians of one kernel differ by less."""
RESAMPLES = 2000

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where tasks and results are kept.")]
Row = dict[str, Any]


@app.command()
def write(
    folder: Folder,
    count: Annotated[int, typer.Option(min=1, help="Tasks of the synthesis; the built-in ones come beside them.")] = 650,
    seed: int = 26,
    most: Annotated[int, typer.Option(min=1, help="Variants of a task.")] = 10,
    processes: Annotated[int, typer.Option(min=1)] = 2,
    suite: Annotated[bool, typer.Option("--suite/--no-suite", help="Also the built-in tasks.")] = True,
    family: Annotated[list[str] | None, typer.Option(help="Of this family; may be given several times. Else of all.")] = None,
) -> None:
    """Draw the tasks and write all answers. Needs no GPU; the same command goes on."""
    folder.mkdir(parents=True, exist_ok=True)
    known, path = tasks_of(folder), folder / TASKS
    drawn = [one for one in known if one.structure != "builtin"]
    with open(path, "a", encoding="utf-8") as file:
        if suite and len(drawn) == len(known):
            for one in builtin(most):
                _append(file, one.to_json())
        for number, one in enumerate(series(drawn, count, seed, most, processes, tuple(family or FAMILIES)), len(drawn) + 1):
            _append(file, one.to_json())
            if number % 20 == 0:
                say(f"{number} of {count} tasks")
    written = tasks_of(folder)
    say(
        f"{len(written)} tasks, {sum(len(one.variants) + bool(one.fused) for one in written)} variants, {path.stat().st_size >> 10} KiB"
    )


@app.command()
def run(
    folder: Folder,
    device: Device = "cuda",
    workers: Workers = 14,
    seconds: Annotated[float, typer.Option(min=1, help="Begin no task after so long; the same command goes on.")] = 420.0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds of one variant's own time, compiling too.")] = 40.0,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks; 0 for all.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The file of results; else it is kept in the folder.")] = None,
) -> None:
    """Measure every task that has no result, and print the table."""
    begun, path = time.monotonic(), out or folder / RESULTS
    known = {row["task"] for row in rows_of(path)}
    tasks = [one for one in tasks_of(folder) if one.id not in known]
    random.Random(0).shuffle(tasks)  # families in turn, so that a run that is cut short is a sample of all
    queue = iter(tasks[: limit or None])
    say(f"{len(tasks)} tasks to measure, {len(known)} are measured already")
    lock, done, place = threading.Lock(), Counter[str](), where(device)
    judge = TrustedJudge(device, workers=workers, timeout=timeout)

    def work(file: Any) -> None:
        while time.monotonic() - begun < seconds:
            with lock:
                one = next(queue, None)
            if one is None:
                return
            started = time.monotonic()
            try:
                row = measured(one, judge)
            except Exception as error:  # one task may not end the rest
                row = {"task": one.id, "error": f"{type(error).__name__}: {str(error)[:300]}"}
                if time.monotonic() - begun < seconds:
                    say(f"{one.origin}: {traceback.format_exc(limit=3)}")
            row |= {"seconds": round(time.monotonic() - started, 2), "where": place}
            with lock:
                done[row.get("error", "")[:40] or ("measured" if row["rule_ms"] else "without a time")] += 1
                if "error" not in row:
                    _append(file, row)

    with open(path, "a", encoding="utf-8") as file:
        threads = [threading.Thread(target=work, args=(file,), daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        told = begun
        while any(thread.is_alive() for thread in threads) and time.monotonic() - begun < seconds + 45:
            time.sleep(0.2)
            if time.monotonic() - told > 20:
                told = time.monotonic()
                spent = ", ".join(f"{name} {value:.0f}" for name, value in judge.seconds.most_common(8))
                say(f"[{told - begun:.0f} s] {sum(done.values())} of {len(tasks)} tasks, {dict(done)}; worker seconds: {spent}")
        with lock:
            file.flush()
    say(f"replaced workers {dict(judge.replaced)}; {len(judge.errors)} errors {[text[-300:] for text in judge.errors[:3]]}")
    late = any(thread.is_alive() for thread in threads)
    judge.close()
    print("\n".join(table(rows_of(path))), flush=True)
    print(f"\n{place}", flush=True)
    if late:  # threads that wait for a worker would keep the process
        os._exit(0)


@app.command()
def report(
    folder: Folder, out: Annotated[Path | None, typer.Option(help="The file of results, if not the folder's.")] = None
) -> None:
    """Print the table from what there is."""
    print("\n".join(table(rows_of(out or folder / RESULTS))))


# one task


def measured(one: SweepTask, judge: TrustedJudge) -> Row:
    """All variants together, then the best again; the changes of several places that each look better are also tried together."""
    task, rule = one.task, one.candidate()
    tried = [(change.place, change.label, one.candidate([change])) for change in one.variants]
    tried += [(FUSED, "own kernels with what follows fused", Candidate(one.fused, "triton", one.name))] if one.fused else []
    candidates = {each.id: each for each in (rule, *(candidate for _, _, candidate in tried))}
    found = dict(zip(candidates, judge.judge_many(task, list(candidates.values()), rounds=ROUNDS, profiled=False)))
    verdict = found[rule.id]
    if verdict is None:
        raise JudgeError("the rule's answer has no verdict")
    base = _ms(verdict)
    row: Row = {
        "task": one.id, "name": one.name, "origin": one.origin, "family": one.family, "dtype": one.dtype, "structure": one.structure,
        "level": one.level, "operators": one.operators, "rule_ms": base, "outcome": verdict.outcome.value,
        "eager_ms": verdict.times_ms.get("eager"), "diagnosis": "" if base else verdict.diagnosis[:200],
        "variants": [_told(place, label, found[candidate.id]) for place, label, candidate in tried], "again": [], "winner": [], "gain": 1.0,
    }  # fmt: skip
    if base is None:
        return row
    gains = [base / ms if (ms := _ms(found[candidate.id])) else 0.0 for _, _, candidate in tried]
    better = [place for place, gain in enumerate(gains) if gain > LOOKS_BETTER]
    if not better:
        return row
    finalists = [[place] for place in sorted(better, key=lambda place: -gains[place])[:FINALISTS]]
    best_of = {tried[place][0]: place for place in sorted(better, key=lambda place: gains[place]) if tried[place][0] != FUSED}
    if len(best_of) > 1:
        finalists.append(list(best_of.values()))
    while True:  # each time against the rule, and fewer of them: what counts was not picked by the numbers that are reported
        named = {_candidate(one, tried, chosen).id: chosen for chosen in finalists}
        again = [rule, *(_candidate(one, tried, chosen) for chosen in named.values())]
        verdicts = judge.judge_many(task, again, rounds=AGAIN, profiled=True)
        times = [_ms(each) for each in verdicts]
        row["again"].append(
            [
                [[tried[place][1] for place in chosen], _told("", "", each)]
                for chosen, each in zip(([], *named.values()), verdicts)
            ]
        )
        if times[0] is None or not any(times[1:]):
            return row
        ranked = sorted((ms, chosen) for ms, chosen in zip(times[1:], named.values()) if ms)
        if len(finalists) == 1:
            row |= {"gain": times[0] / ranked[0][0], "winner": [[*tried[place][:2]] for place in ranked[0][1]]}
            row["answer"] = (
                ""
                if tried[ranked[0][1][0]][0] == FUSED
                else changed(one.answer, [one.variants[place] for place in ranked[0][1]])
            )
            return row
        finalists = [ranked[0][1]]


def _candidate(one: SweepTask, tried: Sequence[tuple[str, str, Candidate]], chosen: Sequence[int]) -> Candidate:
    if len(chosen) == 1:
        return tried[chosen[0]][2]
    changes: list[AnswerChange] = [one.variants[place] for place in chosen]
    return one.candidate(changes)


def _ms(verdict: Verdict | None) -> float | None:
    """Milliseconds of a call, where the outputs were right and it was timed."""
    return verdict.times_ms.get("candidate") if verdict is not None and verdict.outcome.accepted else None


def _told(place: str, label: str, verdict: Verdict | None) -> Row:
    if verdict is None:
        return {"place": place, "label": label, "outcome": "none", "ms": None}
    speedup = verdict.speedup.get("eager")
    told: Row = {"place": place, "label": label, "outcome": verdict.outcome.value, "ms": _ms(verdict)}
    told |= {"eager": [round(speedup.point, 4), round(speedup.low, 4), round(speedup.high, 4)]} if speedup else {}
    told |= {} if verdict.outcome.accepted else {"diagnosis": verdict.diagnosis[:160]}
    return told


# table


def table(rows: Sequence[Row]) -> Iterable[str]:
    """Geometric means over tasks, with intervals of resampled tasks; the oracle's is of the second measurement alone."""
    timed = [row for row in rows if row.get("rule_ms")]
    variants = [variant for row in timed for variant in row["variants"]]
    right = sum(variant["ms"] is not None for variant in variants)
    yield f"{len(timed)} of {len(rows)} tasks timed, {right} of {len(variants)} variants right"
    wrong = Counter(variant["outcome"] for variant in variants if variant["ms"] is None)
    yield f"others: {dict(wrong)}; rules that were not timed: {dict(Counter(row['outcome'] for row in rows if not row.get('rule_ms')))}"
    yield ""
    yield f"| family | dtype | tasks | oracle over rule | {SURE:.2f}× or more in the last pairing | random choice over rule | rule over eager |"
    yield "|---|---|---|---|---|---|---|"
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in timed:
        family = row["family"].split(" ")[0] if row["structure"] == "builtin" else row["family"]
        for key in ((family, row["dtype"]), ("all", row["dtype"]), ("all", "all")):
            groups[key].append(row)
    for (family, dtype), some in sorted(groups.items(), key=lambda item: (item[0][0] == "all", item[0])):
        low, high = interval([row["gain"] for row in some])
        mean = geometric_mean([row["gain"] for row in some])
        chance = [row["rule_ms"] / variant["ms"] for row in some for variant in row["variants"] if variant["ms"]]
        eager = [row["eager_ms"] / row["rule_ms"] for row in some if row["eager_ms"]]
        yield (
            f"| {family} | {dtype} | {len(some)} | {mean:.3f} [{low:.3f}, {high:.3f}]{'' if mean >= AIM else ' below the aim'} | "
            f"{sum(row['gain'] >= SURE for row in some)} | {geometric_mean(chance):.3f} | {geometric_mean(eager):.3f} |"
        )
    yield ""
    kinds: dict[str, list[float]] = defaultdict(list)
    for row in timed:
        for place, _ in row["winner"]:
            kinds[place.split(" ")[0]].append(row["gain"])
    yield "winners by place: " + ", ".join(
        f"{kind} {len(gains)} ({geometric_mean(gains):.2f})"
        for kind, gains in sorted(kinds.items(), key=lambda item: -len(item[1]))
    )


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def interval(values: Sequence[float]) -> tuple[float, float]:
    chance, logs = random.Random(0), [math.log(value) for value in values]
    means = sorted(sum(chance.choices(logs, k=len(logs))) / len(logs) for _ in range(RESAMPLES))
    return math.exp(means[RESAMPLES // 40]), math.exp(means[-RESAMPLES // 40])


# files


def tasks_of(folder: Path) -> list[SweepTask]:
    return [SweepTask.from_json(row) for row in rows_of(folder / TASKS)]


def rows_of(path: Path) -> list[Row]:
    """From the file, or from the packed one beside it. A last line that was cut off is left out."""
    packed = path.with_name(f"{path.name}.xz")
    if path.exists():
        text = path.read_text(encoding="utf-8")
    else:
        text = lzma.decompress(packed.read_bytes()).decode() if packed.exists() else ""
    rows = []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def _append(file: Any, row: Row) -> None:
    file.write(json.dumps(row) + "\n")
    file.flush()


if __name__ == "__main__":
    app()
