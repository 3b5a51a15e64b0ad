"""Tasks for learning at the edge of ability, each with the writer's prompt and the compiler's answer; and what draws and judges answers to them.

    PYTHONPATH=src python3 benchmarks/edge_data.py edge --count 3000 --seed 41

Needs no GPU. Tasks with combinations of operators that training has not are set aside (`held_out`). What the scripts on top of it (`repair.py`,
`edge_rl.py`) share stands here: answers of a model to many prompts together, and verdicts of the trusted judge, every distinct kernel once, kept in
`verdicts.jsonl` as they come, so that a call which is cut goes on.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from choice_sweep import Row, rows_of

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import DEPLOYMENT, read
from bottega.agents.earlier_turn import UNUSABLE, EarlierTurn, judged_turn
from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput, messages
from bottega.backbone.chat import Message, Sampling
from bottega.backbone.choose import open_backbone
from bottega.bench.bootstrap import Draws, Estimate
from bottega.compiler.build_step import Refusal
from bottega.compiler.callgraph_names import recorded
from bottega.compiler.library_compiler import LibraryCompiler
from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.data.answers import written
from bottega.judge.device_facts import device_facts
from bottega.judge.judge import Judge
from bottega.judge.trusted.judge import TrustedJudge
from bottega.tasks.synth import synthesise

TASKS, VERDICTS, ISOLATED = "tasks.jsonl", "verdicts.jsonl", "isolated.jsonl"
LONGEST_CHARACTERS = 4000
ONE_IN = 6
"""Of the combinations of operators one is set aside."""
UNJUDGED = 0.02
UNREADABLE = "unreadable"
Verdicts = dict[tuple[str, str], Verdict]
"""By task and candidate."""

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where tasks, answers and verdicts are kept.")]
Processes = Annotated[int, typer.Option(min=1)]
Tokens = Annotated[int, typer.Option(min=1, help="Of an answer.")]


# tasks


@app.command()
def tasks(
    folder: Folder,
    count: Annotated[int, typer.Option(min=1, help="Numbers of the series; of some no task comes.")] = 3000,
    seed: Annotated[int, typer.Option(help="Of the series.")] = 41,
    processes: Processes = 2,
) -> None:
    """Write the tasks. The same call goes on where it was cut."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TASKS
    known = [row["number"] for row in rows_of(path)]
    left = range(max(known, default=-1) + 1, count)
    # Not a ProcessPoolExecutor: with max_tasks_per_child it hangs (CPython's issue 115634).
    with open(path, "a", encoding="utf-8") as file, get_context("forkserver").Pool(processes, maxtasksperchild=25) as pool:
        for row in pool.imap(partial(made_task, seed=seed), left, chunksize=8):
            if row is not None:
                file.write(json.dumps(row) + "\n")
                file.flush()
    every = rows_of(path)
    print(f"{len(every)} tasks, {sum(row['held_out'] for row in every)} of them set aside")


def made_task(number: int, seed: int) -> Row | None:
    """None where the compiler refuses, and where the answer is too long for a small model or has no kernel of its own to be wrong."""
    try:
        made = synthesise(
            seed, number, "cpu", (1, 2), low_precision=0.3
        )  # nothing is timed, and a verdict waits for large inputs
        step = LibraryCompiler().build(made.task, "triton").steps[-1]
        graph = recorded(made.task.source)
        answer = written(step.candidate.source, "", "terse", task_source=made.task.source, callgraph=graph)
    except (BottegaError, Refusal):
        return None
    if len(answer) > LONGEST_CHARACTERS or "@triton.jit" not in answer:
        return None
    key = " ".join(sorted(set(made.operators)))
    return {
        "number": number, "task": made.task.id, "name": made.task.name, "source": made.task.source, "family": made.family, "dtype": made.dtype,
        "level": made.level, "operators": made.operators, "prompt": prompt_of(made.task.source, made.task.name), "answer": answer,
        "held_out": int(hashlib.sha256(key.encode()).hexdigest(), 16) % ONE_IN == 0,
    }  # fmt: skip


def prompt_of(source: str, name: str, past: Sequence[EarlierTurn] = ()) -> list[Row]:
    """The writer's, in the style of the shipped model."""
    graph = recorded(source)
    given = WriterInput(
        Task(source, name), "triton", device_facts("cpu"), past=tuple(past), callgraph=graph if graph.calls else None
    )
    return [{"role": one.role, "content": one.content} for one in messages(given, Prompts("terse"))]


def chat_row(prompt: Sequence[Row], answer: str) -> Row:
    return {"messages": [*prompt, {"role": "assistant", "content": answer}], "role": "write", "split": "train"}


def split_of(folder: Path, held_out: bool, limit: int = 0, skip: int = 0) -> list[Row]:
    """Tasks to learn from, or those set aside; in an order that has nothing to do with their making."""
    found = [row for row in rows_of(folder / TASKS) if row["held_out"] == held_out]
    found.sort(key=lambda row: hashlib.sha256(row["task"].encode()).hexdigest())
    return found[skip : skip + limit if limit else None]


# answers


@dataclass(frozen=True)
class Asked:
    """One prompt that a model is to answer."""

    row: Row
    prompt: Sequence[Row]
    temperature: float = 1.0
    seed: int = 0


def answered(spec: str, device: str, asked: Sequence[Asked], tokens: int, pool: ProcessPoolExecutor) -> list[Row]:
    """For each prompt the task, the text and the kernel that is read from it, empty where none can be read."""
    texts, begun = drawn_texts(spec, device, asked, tokens), time.monotonic()
    found = list(pool.map(_read, texts, [one.row["source"] for one in asked], chunksize=8))
    made = [
        {"task": one.row["task"], "text": text, "source": source, "fault": fault}
        for one, text, (source, fault) in zip(asked, texts, found)
    ]
    log(f"read in {time.monotonic() - begun:.0f} s")
    return made


def drawn_texts(spec: str, device: str, asked: Sequence[Asked], tokens: int) -> list[str]:
    begun = time.monotonic()
    found = asyncio.run(_texts(spec, device, asked, tokens))
    log(f"{len(found)} answers of {spec} in {time.monotonic() - begun:.0f} s")
    return found


async def _texts(spec: str, device: str, asked: Sequence[Asked], tokens: int) -> list[str]:
    client = open_backbone(spec, device=device)
    chats = [[Message(each["role"], each["content"]) for each in one.prompt] for one in asked]
    sampling = [Sampling(tokens, one.temperature, seed=one.seed) for one in asked]
    try:
        found = await asyncio.gather(*(client.generate(*each) for each in zip(chats, sampling)))
    finally:
        await client.close()
    return [one.text for one in found]


def _read(text: str, source: str) -> tuple[str, str]:
    found = read(text, AnswerContext(source, "triton", "terse"), DEPLOYMENT)
    return ("", found.fault) if found.fault else (found.source, "")


# verdicts


def known_verdicts(folder: Path, isolated: bool = False) -> Verdicts:
    rows = rows_of(folder / (ISOLATED if isolated else VERDICTS))
    return {(row["task"], row["candidate"]): Verdict.from_json(row["verdict"]) for row in rows}


def judge_answers(
    folder: Path,
    rows: Iterable[Row],
    by_task: dict[str, Row],
    device: str,
    workers: int,
    seconds: float,
    isolated: bool = False,
) -> Verdicts:
    """All verdicts that there are; those missing are judged, and none is begun after so many seconds. `isolated`: by the judge that takes every
    kernel for hostile, and in a file of their own."""
    known = known_verdicts(folder, isolated)
    wanted: dict[str, dict[str, Candidate]] = {}
    for row in rows:
        if row["source"]:
            candidate = Candidate(row["source"], "triton", by_task[row["task"]]["name"])
            if (row["task"], candidate.id) not in known:
                wanted.setdefault(row["task"], {})[candidate.id] = candidate
    if not wanted:
        return known
    begun, lock, before, asked = time.monotonic(), threading.Lock(), len(known), sum(map(len, wanted.values()))
    with ExitStack() as open_things:
        file = open_things.enter_context(open(folder / (ISOLATED if isolated else VERDICTS), "a", encoding="utf-8"))
        alone = open_things.enter_context(Judge(device, workers=workers, quick=True, timeout=25)) if isolated else None
        together = open_things.enter_context(TrustedJudge(device, workers=workers, timed=False)) if not isolated else None

        def one(name: str) -> None:
            def keep(candidate: Candidate, verdict: Verdict) -> None:
                with lock:
                    known[name, candidate.id] = verdict
                    kept = {key: value for key, value in verdict.to_json().items() if key not in ("fingerprint", "profile")}
                    file.write(json.dumps({"task": name, "candidate": candidate.id, "verdict": kept}) + "\n")
                    file.flush()

            if time.monotonic() - begun > seconds:
                return
            task = Task(by_task[name]["source"], by_task[name]["name"])
            try:
                if together is not None:
                    together.judge_many(task, list(wanted[name].values()), keep)
                if alone is not None:
                    for candidate in wanted[name].values():
                        keep(candidate, alone.judge(task, candidate))
            except Exception as error:  # one task may not end the rest
                log(f"{name}: {type(error).__name__}: {str(error)[:200]}")

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(one, wanted))
        for name, each in wanted.items():  # what found no memory beside the others
            for key in [key for key in each if (name, key) in known]:
                del each[key]
            if each and not isolated:
                one(name)
    where = {key: round(spent) for key, spent in together.seconds.most_common(6)} if together is not None else ""
    log(f"{len(known) - before} of {asked} kernels judged in {time.monotonic() - begun:.0f} s {where}")
    return known


def verdict_of(row: Row, verdicts: Verdicts) -> Verdict | None:
    return verdicts.get((row["task"], Candidate(row["source"], "triton").id)) if row["source"] else None


def outcome_of(row: Row, verdicts: Verdicts) -> str | None:
    """None where there is no verdict yet."""
    if not row["source"]:
        return UNREADABLE
    verdict = verdict_of(row, verdicts)
    return None if verdict is None or verdict.outcome.value == "invalid_task" else verdict.outcome.value


def is_right(row: Row, verdicts: Verdicts) -> bool | None:
    """By kernels of its own: the reference copied is not."""
    if not row["source"]:
        return False
    verdict = verdict_of(row, verdicts)
    if verdict is None or verdict.outcome.value == "invalid_task":
        return None
    return verdict.outcome.accepted and verdict.does_own_work


def turn_of(row: Row, verdicts: Verdicts) -> EarlierTurn:
    """An answer as the next turn's prompt shows it."""
    verdict = verdict_of(row, verdicts)
    if verdict is None:
        return EarlierTurn("", "", row["fault"] or "the answer held no kernel", UNUSABLE, None)
    return judged_turn(row["source"], "", verdict, "eager")


def wholly_judged(found: Sequence[bool]) -> int:
    """Of how many tasks in a row all but one in fifty are judged. Those behind are left out, all of them: where time was up, a right first answer
    needed no second verdict, and tasks that are whole all the same are mostly right."""
    missing = np.cumsum([not each for each in found])
    return max((number for number in range(1, len(found) + 1) if missing[number - 1] <= UNJUDGED * number), default=0)


def difference(one: Sequence[float], other: Sequence[float]) -> Estimate:
    """Of means over the same tasks, with its interval over tasks."""
    return Draws(len(one)).mean(np.asarray(one, float) - np.asarray(other, float))


def points(estimate: Estimate) -> str:
    if estimate.point is None:
        return "no task"
    ends = (
        f" ({100 * estimate.low:+.1f} to {100 * estimate.high:+.1f})"
        if estimate.low is not None and estimate.high is not None
        else ""
    )
    return f"{100 * estimate.point:+.1f}{ends}"


def sft_command(rows: Path, out: Path, model: str, device: str, epochs: int, settings: Sequence[str] = ()) -> list[str]:
    preset = "one-gpu" if device.startswith("cuda") else "laptop"
    return [
        sys.executable, "-m", "bottega", "sft", "--preset", preset, "--data", str(rows), "--out", str(out), "--quiet", f"model.name={model}",
        f"model.device={device}", f"data.epochs={epochs}", "data.held_out=0", "optimiser.warmup=5", "checkpoint.every=10000",
        "checkpoint.export=bfloat16", *settings,
    ]  # fmt: skip


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    app()
