"""Does a model learn the choices that a sweep found? It is fine-tuned on the winners' answers, then answers tasks that were set aside, and its
kernels are measured beside the rule's, the oracle's and random choices.

Set aside are a quarter of the modules (or all modules with combinations of operators that the training rows do not have: `--split kinds`), and the
built-in ones. Controls: the model before, and the same training on random choices instead of winners.

    PYTHONPATH=src python3 benchmarks/choice_distil.py rows sweep distil
    PYTHONPATH=src python3 benchmarks/choice_distil.py train distil winners --device cuda
    PYTHONPATH=src python3 benchmarks/choice_distil.py train distil random --device cuda
    PYTHONPATH=src python3 benchmarks/choice_distil.py answer distil --device cuda
    PYTHONPATH=src python3 benchmarks/choice_distil.py measure distil --device cuda --seconds 120
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer
from choice_sweep import RESULTS, SURE, Row, geometric_mean, interval, rows_of, tasks_of
from choice_tasks import FUSED, SweepTask
from figure import Device, Workers, where, write_rows
from own_kernels import own_kernels_change, with_own_kernels

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import DEPLOYMENT, read
from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput, messages
from bottega.backbone.chat import Message, Sampling
from bottega.backbone.choose import open_backbone
from bottega.compiler.answer_choices import changed
from bottega.compiler.callgraph_names import recorded
from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.data.answers import written
from bottega.judge.device_facts import device_facts
from bottega.judge.trusted.judge import TrustedJudge

RULE, WINNERS, RANDOM, ORACLE, BEFORE = "rule", "winners", "random", "oracle", "before"
TRAINED = (WINNERS, RANDOM)
MODULES, KINDS = "modules", "kinds"
HELD_OUT, ANSWERS, TIMES = "held_out.jsonl", "answers.jsonl", "times.jsonl"
ONE_IN = 4
ROUNDS, LONGEST_ANSWER = 24, 2048
NAMES = {
    RULE: "the rule's answer", ORACLE: "oracle: the sweep's winner", "random choice": "one of the sweep's variants, at random",
    BEFORE: "the model before", WINNERS: "the model, taught the winners", RANDOM: "the model, taught random choices",
    "rl": "taught the winners, then RL on choices", "shuffled": "the same with shuffled advantages",
    "before, right card": "the model before, with the right card", "no card": "taught to read cards: no card", "right card": "the right card",
    "wrong advice": "the same card, other advice",
}  # fmt: skip

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where rows, models, answers and times are kept.")]


# rows


@app.command()
def rows(
    sweep: Annotated[Path, typer.Argument(help="The sweep's folder.")],
    folder: Folder,
    results: Annotated[Path | None, typer.Option(help="The sweep's results, if not in its folder.")] = None,
    split: Annotated[str, typer.Option(help=f"What is set aside: {MODULES}, or whole {KINDS} of them.")] = MODULES,
    processes: Annotated[int, typer.Option(min=1)] = 12,
) -> None:
    """Write the training rows of both ways, and the tasks that are set aside. Needs no GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {one.id: one for one in tasks_of(sweep)}
    found = [row for row in rows_of(results or sweep / RESULTS) if row.get("rule_ms") and row["task"] in tasks]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        made = [
            one
            for one in pool.map(examples, [tasks[row["task"]] for row in found], found, [split] * len(found), chunksize=4)
            if one is not None
        ]
    for way in TRAINED:
        write_rows(folder / f"{way}.jsonl", [one["rows"][way] for one in made if not one["held_out"]])
    held = [one for one in made if one["held_out"]]
    write_rows(folder / HELD_OUT, held)
    changed_answers = sum(one["rows"][WINNERS] != one["rows"][RULE] for one in made if not one["held_out"])
    print(
        f"{len(made) - len(held)} training rows, {changed_answers} with another answer than the rule's; {len(held)} tasks set aside"
    )


def is_held_out(row: Row, split: str = KINDS) -> bool:
    """The built-in tasks, and one in four: of the modules, or of the sets of operators that modules are made of."""
    key = row["task"] if split == MODULES else " ".join(sorted(set(row["operators"])))
    return row["structure"] == "builtin" or int(hashlib.sha256(key.encode()).hexdigest(), 16) % ONE_IN == 0


def examples(task: SweepTask, row: Row, split: str = MODULES) -> dict[str, Any] | None:
    """What the task's prompt is to be answered with, one way and the other; None where an answer cannot be read back."""
    graph, facts = recorded(task.source), device_facts("cpu")  # a terse prompt says nothing of the device
    prompt = messages(WriterInput(task.task, "triton", facts, callgraph=graph if graph.calls else None), Prompts("terse"))
    right = [place for place, variant in enumerate(row["variants"]) if variant["ms"] and variant["place"] != FUSED]
    choices = [task.variants[place] for place in right]
    choices += [change] if task.fused and (change := own_kernels_change(task.answer)) else []
    texts = {
        RULE: task.answer,
        WINNERS: taught(task, row),
        RANDOM: changed(task.answer, [random.Random(task.id).choice(choices)]) if choices else task.answer,
    }
    try:
        said = {way: written(text, "", "terse", task_source=task.source, callgraph=graph) for way, text in texts.items()}
    except BottegaError:
        return None
    content = [{"role": message.role, "content": message.content} for message in prompt]
    each = {
        way: {"messages": [*content, {"role": "assistant", "content": text}], "role": "write", "split": "train"}
        for way, text in said.items()
    }
    facts_of = {key: row[key] for key in ("task", "name", "family", "dtype", "structure", "gain")}
    return {
        **facts_of,
        "held_out": is_held_out(row, split),
        "rows": each,
        "oracle": oracle(task, row),
        "random": texts[RANDOM],
        "sweep": task.to_json(),
    }


def oracle(task: SweepTask, row: Row) -> str:
    """The winner's answer; empty where the rule's is the best."""
    fused = bool(row["winner"]) and row["winner"][0][0] == FUSED
    return "" if row["gain"] <= 1 else task.fused if fused else row.get("answer", "")


def taught(task: SweepTask, row: Row) -> str:
    """The winner's answer where it beat the rule surely; where kernels of its own won, the line that asks for them."""
    if row["gain"] < SURE:
        return task.answer
    own = own_kernels_change(task.answer) if row["winner"] and row["winner"][0][0] == FUSED else None
    return changed(task.answer, [own]) if own else row.get("answer") or task.answer


# train and answer


@app.command()
def train(
    folder: Folder,
    way: Annotated[str, typer.Argument(help=" or ".join(TRAINED))],
    device: Device = "cuda",
    model: Annotated[str, typer.Option(help="That is taught.")] = "embedded",
    epochs: Annotated[int, typer.Option(min=1)] = 8,
    settings: Annotated[str, typer.Option(help="Further settings of `bottega sft`, separated by spaces.")] = "",
) -> None:
    """Fine-tune the model on the rows of one way."""
    words = [
        "sft", "--preset", "one-gpu" if device.startswith("cuda") else "laptop", "--data", str(folder / f"{way}.jsonl"), "--out", str(folder / way),
        "--quiet", f"model.name={model}", f"model.device={device}", f"data.epochs={epochs}", "data.held_out=0", "optimiser.lr=1e-4",
        "optimiser.warmup=5", "checkpoint.every=1000", *settings.split(),
    ]  # fmt: skip
    begun = time.monotonic()
    code = subprocess.run([sys.executable, "-m", "bottega.app.cli", *words], check=False).returncode
    print(f"{way}: taught in {time.monotonic() - begun:.0f} s, exit code {code}", flush=True)
    raise typer.Exit(code)


@app.command()
def answer(
    folder: Folder,
    device: Device = "cuda",
    model: Annotated[str, typer.Option(help="As it was before.")] = "embedded",
    tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = LONGEST_ANSWER,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks; 0 for all.")] = 0,
    processes: Annotated[int, typer.Option(min=1)] = 12,
) -> None:
    """Each model's greedy answer to every task that is set aside."""
    held = rows_of(folder / HELD_OUT)[: limit or None]
    taught_models = {place.parent.name: f"local:{place}" for place in sorted(folder.glob("*/model"))}
    specs = {BEFORE: model, **{way: taught_models[way] for way in NAMES if way in taught_models}}
    made: list[Row] = []
    for way, spec in specs.items():
        begun = time.monotonic()
        texts = asyncio.run(generated(spec, device, [row["rows"][RULE]["messages"][:-1] for row in held], tokens))
        with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
            sources = list(pool.map(read_answer, texts, [row["sweep"]["source"] for row in held], chunksize=4))
        made += [
            {"task": row["task"], "way": way, "text": text, "source": source} for row, text, source in zip(held, texts, sources)
        ]
        same = sum(code_of(text) == code_of(row["rows"][RULE]["messages"][-1]["content"]) for row, text in zip(held, texts))
        print(f"{way}: {len(held)} answers in {time.monotonic() - begun:.0f} s, {same} word for word the rule's", flush=True)
    write_rows(folder / ANSWERS, made)


async def generated(spec: str, device: str, prompts: Sequence[Sequence[Row]], tokens: int) -> list[str]:
    """A model's greedy answers, to all prompts together."""
    client = open_backbone(spec, device=device)
    chats = [[Message(one["role"], one["content"]) for one in prompt] for prompt in prompts]
    try:
        found = await asyncio.gather(*(client.generate(chat, Sampling(tokens, 0.0, seed=0)) for chat in chats))
    finally:
        await client.close()
    return [one.text for one in found]


def read_answer(text: str, source: str) -> str:
    return with_own_kernels(read(text, AnswerContext(source, "triton", "terse"), DEPLOYMENT).source, source)


def code_of(text: str) -> str:
    """Without comments and empty lines."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))


# measure


@app.command()
def measure(
    folder: Folder,
    device: Device = "cuda",
    workers: Workers = 14,
    seconds: Annotated[float, typer.Option(min=1, help="Begin no task after so long; the same command goes on.")] = 120.0,
    timeout: Annotated[float, typer.Option(min=1)] = 40.0,
) -> None:
    """Measure all answers to a task side by side, and print the table."""
    begun, path = time.monotonic(), folder / TIMES
    known = {row["task"] for row in rows_of(path)}
    given: dict[str, dict[str, str]] = {}
    for row in rows_of(folder / ANSWERS):
        given.setdefault(row["task"], {})[row["way"]] = row["source"]
    held = [row for row in rows_of(folder / HELD_OUT) if row["task"] in given and row["task"] not in known]
    lock = threading.Lock()

    with open(path, "a", encoding="utf-8") as file, TrustedJudge(device, workers=workers, timeout=timeout) as judge:

        def one(row: Row) -> None:
            if time.monotonic() - begun > seconds:
                return
            try:
                task = SweepTask.from_json(row["sweep"])
                candidates = answers_of(task, row, given[row["task"]])
                distinct = {candidate.id: candidate for candidate in candidates.values()}
                verdicts = judge.judge_many(Task(task.source, task.name), list(distinct.values()), rounds=ROUNDS, profiled=True)
            except Exception as error:  # one task may not end the rest
                print(f"{row['name']}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr, flush=True)
                return
            found = dict(zip(distinct, verdicts))
            times = {}
            for way, candidate in candidates.items():
                verdict = found[candidate.id]
                right = verdict is not None and verdict.outcome.accepted
                times[way] = {
                    "ms": verdict.times_ms.get("candidate") if right and verdict else None,
                    "outcome": verdict.outcome.value if verdict else "none",
                }
            times |= {way: {"ms": None, "outcome": "unreadable"} for way in given[row["task"]] if way not in times}
            facts = {key: row[key] for key in ("task", "name", "family", "dtype", "structure", "gain")}
            with lock:
                file.write(json.dumps({**facts, "times": times, "where": where(device)}) + "\n")
                file.flush()

        with ThreadPoolExecutor(workers) as pool:
            for number, _ in enumerate(pool.map(one, held)):
                if number % 20 == 0:
                    print(f"[{time.monotonic() - begun:.0f} s] {number} of {len(held)} tasks", file=sys.stderr, flush=True)
    report(folder)
    print(f"\n{where(device)}")


def answers_of(task: SweepTask, row: Row, model: dict[str, str]) -> dict[str, Candidate]:
    """By who gave it. Of the sweep's own answers only the class differs from the rule's; the fused one stands alone."""
    own = task.answer
    texts = {RULE: own, "random choice": row["random"], ORACLE: row["oracle"] or own}
    found = {}
    for way, text in texts.items():
        whole = (
            text
            if text == task.fused
            else task.whole.replace(own[own.index("class ModelNew") :], text[text.index("class ModelNew") :])
        )
        found[way] = Candidate(whole, "triton", task.name)
    return found | {way: Candidate(source, "triton", task.name) for way, source in model.items() if source}


@app.command()
def report(folder: Folder) -> None:
    """Print the table from what there is."""
    print("\n".join(table(rows_of(folder / TIMES))))


def table(found: Sequence[Row]) -> Iterable[str]:
    timed = [row for row in found if row["times"][RULE]["ms"]]
    yield f"{len(timed)} tasks set aside; speed over the rule's answer, geometric means, intervals over tasks"
    yield ""
    yield "| who chose | right | over the rule, where right | wrong ones counted as the rule's | float32 | bfloat16 |"
    yield "|---|---|---|---|---|---|"
    for way, told in NAMES.items():
        gains = {
            dtype: [gain_of(row, way) for row in timed if row["dtype"] == dtype and way in row["times"]]
            for dtype in dict.fromkeys(row["dtype"] for row in timed)
        }
        every = [gain for some in gains.values() for gain in some]
        right = [gain for gain in every if gain is not None]
        if not right:
            continue
        filled = [gain or 1.0 for gain in every]
        cells = [
            f"{geometric_mean([gain or 1.0 for gain in gains[dtype]]):.3f}" if gains.get(dtype) else ""
            for dtype in ("float32", "bfloat16")
        ]
        yield f"| {told} | {len(right)} of {len(every)} | {ends(right)} | {ends(filled)} | {' | '.join(cells)} |"


def gain_of(row: Row, way: str) -> float | None:
    """Over the rule's answer; None where it was wrong."""
    ms = row["times"][way]["ms"]
    return row["times"][RULE]["ms"] / ms if ms else None


def ends(gains: Sequence[float]) -> str:
    low, high = interval(gains)
    return f"{geometric_mean(gains):.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    app()
