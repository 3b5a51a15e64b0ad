"""Does a second turn help more than a second sample? The model's own wrong answers, with the judge's diagnosis, are answered by the compiler, and
drawn anew after each round (DAgger); then turns in a row are held against samples side by side, at an equal number of answers.

The control is trained on the same answers to the same tasks as often, without a wrong attempt in the prompt. Stages, because a GPU may be lent for
minutes: each goes on where it was cut. `edge_data.py` makes the tasks.

    PYTHONPATH=src python3 benchmarks/repair.py cold edge --count 1000 --epochs 10                  # a model that is right on some of them
    PYTHONPATH=src python3 benchmarks/repair.py draw edge --round 1 --skip 1000 --model local:edge/cold/model
    PYTHONPATH=src python3 benchmarks/repair.py train edge repair --round 1 --skip 1000 --model local:edge/cold/model
    PYTHONPATH=src python3 benchmarks/repair.py train edge control --round 1 --skip 1000 --model local:edge/cold/model
    PYTHONPATH=src python3 benchmarks/repair.py evaluate edge repair-1 --answers 4
    PYTHONPATH=src python3 benchmarks/repair.py report edge
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated

import numpy as np
import typer
from choice_distil import code_of
from choice_sweep import Row, rows_of
from edge_data import (
    Asked,
    Folder,
    Processes,
    Tokens,
    Verdicts,
    answered,
    chat_row,
    difference,
    is_right,
    judge_answers,
    log,
    outcome_of,
    points,
    prompt_of,
    sft_command,
    split_of,
    turn_of,
    wholly_judged,
)
from figure import Device, Workers, write_rows

from bottega.agents.earlier_turn import EarlierTurn
from bottega.bench.bootstrap import Draws

REPAIR, CONTROL, COLD = "repair", "control", "cold"
WAYS = ("serial", "parallel")
LONGEST_ANSWER = 1536
Lines = dict[tuple[str, str], list[Row]]
"""Answers by task and way, in the order in which they were given."""

app = typer.Typer(add_completion=False, help=__doc__)
Model = Annotated[str, typer.Option(help="As `--backbone` takes it.")]
Round = Annotated[int, typer.Option(min=1)]
Seconds = Annotated[float, typer.Option(min=1, help="Begin no verdict after so long; the same call goes on.")]
Limit = Annotated[int, typer.Option(min=0, help="So many tasks; 0 for all.")]
Skip = Annotated[int, typer.Option(min=0, help="So many tasks are passed over: those that the model was taught.")]
Settings = Annotated[str, typer.Option(help="Further settings of `bottega sft`, separated by spaces.")]


@app.command()
def cold(
    folder: Folder,
    device: Device = "cuda",
    count: Limit = 0,
    epochs: int = 10,
    model: Model = "embedded:base",
    name: Annotated[
        str, typer.Option(help="Of its folder here: several may be tried, until one is right on a third to two thirds.")
    ] = COLD,
    settings: Settings = "data.batch_tokens=32768",
) -> None:
    """Teach a plain model the compiler's answers, too briefly to be right always."""
    path = folder / f"{COLD}.jsonl"
    write_rows(path, [chat_row(row["prompt"], row["answer"]) for row in split_of(folder, False, count)])
    _train(sft_command(path, folder / name, model, device, epochs, ["optimiser.lr=5e-4", *settings.split()]))


@app.command()
def draw(
    folder: Folder,
    round: Round = 1,
    model: Model = f"local:edge/{COLD}/model",
    device: Device = "cuda",
    limit: Limit = 1000,
    skip: Skip = 0,
    samples: Annotated[int, typer.Option(min=1, help="Of each task.")] = 6,
    temperature: float = 1.0,
    workers: Workers = 12,
    seconds: Seconds = 150.0,
    tokens: Tokens = LONGEST_ANSWER,
    processes: Processes = 12,
) -> None:
    """Answers to each task to learn from, judged; of the wrong ones rows are made, of every text once."""
    tasks = split_of(folder, False, limit, skip)
    by_task, path = {row["task"]: row for row in tasks}, folder / f"draws-{round}.jsonl"
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        if not path.exists():
            asked = [
                Asked(row, row["prompt"], temperature, 1000 * round + number) for row in tasks for number in range(samples)
            ]
            write_rows(path, answered(model, device, asked, tokens, pool))
        drawn = rows_of(path)
        verdicts = judge_answers(folder, drawn, by_task, device, workers, seconds)
        distinct = {(row["task"], row["text"]): row for row in drawn}.values()
        wrong = [row for row in distinct if is_right(row, verdicts) is False and can_be_mended(row, by_task[row["task"]])]
        past = [[turn_of(row, verdicts)] for row in wrong]
        prompts = pool.map(later_prompt, [by_task[row["task"]] for row in wrong], past, chunksize=8)
        repairs = [
            {**chat_row(prompt, by_task[row["task"]]["answer"]), "task": row["task"]} for row, prompt in zip(wrong, prompts)
        ]
    write_rows(folder / f"repairs-{round}.jsonl", repairs)
    told = Counter(outcome_of(row, verdicts) or "not judged" for row in drawn)
    right = sum(bool(is_right(row, verdicts)) for row in drawn)
    print(f"round {round}: {right} of {len(drawn)} right, {len(repairs)} repairs; {dict(told)}")


def can_be_mended(row: Row, task: Row) -> bool:
    """Not where the compiler's own answer was found wrong, or too slow to be judged: it would be taught to repeat itself."""
    return code_of(row["text"]) != code_of(task["answer"])


def later_prompt(row: Row, past: Sequence[EarlierTurn]) -> list[Row]:
    return prompt_of(row["source"], row["name"], past)


@app.command()
def train(
    folder: Folder,
    way: Annotated[str, typer.Argument(help=f"{REPAIR} or {CONTROL}")],
    round: Round = 1,
    model: Model = f"local:edge/{COLD}/model",
    device: Device = "cuda",
    epochs: int = 3,
    limit: Limit = 1000,
    skip: Skip = 0,
    settings: Settings = "",
) -> None:
    """Fine-tune on the repairs of all rounds so far, beside first attempts; or on the same answers as first attempts."""
    by_task = {row["task"]: row for row in split_of(folder, False)}
    firsts = [chat_row(row["prompt"], row["answer"]) for row in split_of(folder, False, limit, skip)]
    repairs = [row for number in range(1, round + 1) for row in rows_of(folder / f"repairs-{number}.jsonl")]
    again = (
        repairs
        if way == REPAIR
        else [chat_row(by_task[row["task"]]["prompt"], by_task[row["task"]]["answer"]) for row in repairs]
    )
    path = folder / f"{way}-{round}.jsonl"
    write_rows(path, [*firsts, *again])
    print(f"{len(firsts)} first attempts and {len(again)} {'repairs' if way == REPAIR else 'of them again'}")
    _train(sft_command(path, folder / f"{way}-{round}", model, device, epochs, ["optimiser.lr=1e-4", *settings.split()]))


def _train(command: Sequence[str]) -> None:
    begun = time.monotonic()
    code = subprocess.run(command, check=False).returncode
    print(f"taught in {time.monotonic() - begun:.0f} s, exit code {code}", flush=True)
    raise typer.Exit(code)


@app.command()
def evaluate(
    folder: Folder,
    name: Annotated[
        str, typer.Argument(help="Of the model's folder here, such as repair-1; with --model of whatever it is called.")
    ],
    model: Model = "",
    device: Device = "cuda",
    answers: Annotated[int, typer.Option(min=2, help="Of each way.")] = 2,
    limit: Limit = 240,
    temperature: float = 0.8,
    workers: Workers = 12,
    seconds: Seconds = 100.0,
    tokens: Tokens = LONGEST_ANSWER,
    processes: Processes = 12,
) -> None:
    """Both ways begin with the same answer and end with the first right one. A way is asked on where it has none yet."""
    tasks = split_of(folder, True, limit)
    by_task, path = {row["task"]: row for row in tasks}, folder / f"evaluated-{name}.jsonl"
    spec = model or f"local:{folder / name / 'model'}"
    lines: Lines = {(row["task"], way): [] for row in tasks for way in WAYS}
    verdicts: Verdicts = {}
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        for number in range(answers):
            prompts = next_prompts(lines, by_task, verdicts, pool)
            if not prompts:
                break
            keys = [key for key in prompts if number or key[1] == WAYS[0]]
            asked = [Asked(by_task[key[0]], prompts[key], temperature, number) for key in keys]
            found = dict(zip(keys, answered(spec, device, asked, tokens, pool)))
            for task, way in prompts:
                lines[task, way].append(found[task, way if number else WAYS[0]])
            drawn = [line[-1] for line in lines.values()]
            verdicts = judge_answers(folder, drawn, by_task, device, workers, seconds)
    ways = [{way: [is_right(one, verdicts) for one in lines[task, way]] for way in WAYS} for task in by_task]
    judged = [all(None not in found for found in one.values()) for one in ways]
    kept = wholly_judged(judged)
    log(f"the first {kept} of {len(tasks)} tasks, {kept - sum(judged[:kept])} of them without verdicts")
    rows = [
        {"task": row["task"], "family": row["family"], "dtype": row["dtype"], "answers": answers, **one}
        for row, one, whole in zip(tasks[:kept], ways, judged)
        if whole
    ]
    write_rows(path, rows)
    print("\n".join(table({name: rows})))


def next_prompts(
    lines: Lines, by_task: dict[str, Row], verdicts: Verdicts, pool: ProcessPoolExecutor
) -> dict[tuple[str, str], list[Row]]:
    """Of each way that has no right answer yet, the prompt of its next one: with its wrong answers before it, or the first one again."""
    open_ways = [key for key, line in lines.items() if not line or is_right(line[-1], verdicts) is False]
    serial = [key for key in open_ways if key[1] == "serial" and lines[key]]
    past = [[turn_of(one, verdicts) for one in lines[key]] for key in serial]
    made = dict(zip(serial, pool.map(later_prompt, [by_task[key[0]] for key in serial], past, chunksize=8)))
    return {key: by_task[key[0]]["prompt"] for key in open_ways} | made


@app.command()
def report(folder: Folder) -> None:
    """Print what was evaluated, and the models against each other."""
    found = {path.stem.removeprefix("evaluated-"): rows_of(path) for path in sorted(folder.glob("evaluated-*.jsonl"))}
    print("\n".join([*table(found), "", *contrasts(found)]))


def right_after(row: Row, way: str, answers: int) -> float:
    return float(any(row[way][:answers]))


def table(found: dict[str, list[Row]]) -> Iterator[str]:
    yield "| model | tasks | answers | samples | turns | turns over samples, points | wrong first answers that the second puts right |"
    yield "|---|---:|---:|---:|---:|---|---|"
    for name, rows in found.items():
        wrong = [row for row in rows if not row["serial"][0]]
        for answers in range(1, max((row["answers"] for row in rows), default=0) + 1):
            serial, parallel = ([right_after(row, way, answers) for row in rows] for way in ("serial", "parallel"))
            shares = [f"{share.point or 0:.0%}" for share in Draws(len(rows)).shares(np.stack([parallel, serial], axis=1))]
            mended = [sum(right_after(row, way, 2) for row in wrong) for way in ("parallel", "serial")]
            told = f"{mended[0]:.0f} by a sample, {mended[1]:.0f} by a turn, of {len(wrong)}" if answers == 2 else ""
            yield f"| {name} | {len(rows)} | {answers} | {' | '.join(shares)} | {points(difference(serial, parallel))} | {told} |"


def contrasts(found: dict[str, list[Row]]) -> Iterator[str]:
    """The gain of turns over samples, one model's less another's, on the same tasks."""
    names = list(found)
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            theirs = {row["task"]: row for row in found[other]}
            both = [(row, theirs[row["task"]]) for row in found[one] if row["task"] in theirs]
            if both:
                answers = min(both[0][0]["answers"], both[0][1]["answers"])
                gains = [
                    [right_after(row, "serial", answers) - right_after(row, "parallel", answers) for row in pair]
                    for pair in both
                ]
                yield f"{one} less {other}, {len(both)} tasks: {points(difference(*zip(*gains)))} points"


if __name__ == "__main__":
    app()
