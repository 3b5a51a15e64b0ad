"""A library that grows while a model learns: it begins empty, RL draws choices and judges them, the model itself summarises what won, and what the
gate admits is shown from the next step on. Then the writer answers unseen tasks with that library, with the one after its first admission, and with
none.

The cold start knows the forms of all roles and not what is fast (`growing_rows.py`), so that a gain has one source: what was judged in this run.
BM25 over cards whose conditions hold picks in place of the model's selector. The trusted judge judges, also at the gate (`batching_judge.py`).
Calls may be cut: `grow` stops at its time with a checkpoint and goes on when called again, also after a kill; `measure` likewise.

    PYTHONPATH=src python3 benchmarks/growing_library.py rows benchmarks/choice_sweep_h200 growing --processes 14
    PYTHONPATH=src python3 benchmarks/choice_distil.py train growing cold --epochs 3
    PYTHONPATH=src python3 benchmarks/growing_library.py grow growing --seconds 900
    PYTHONPATH=src python3 benchmarks/growing_library.py answer growing
    PYTHONPATH=src python3 benchmarks/growing_library.py measure growing --seconds 120
    PYTHONPATH=src python3 benchmarks/growing_library.py report growing

`edge_rl.py pack growing grown OUT` and `unpack` carry the run to another machine. On a CPU (`--device cpu`) built-in tasks in C++ and the shipped
model stand in: everything runs, and nothing is learned in minutes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from batching_judge import trusted_inputs
from choice_card_rows import Known, known
from choice_distil import ends, gain_of, generated, is_held_out
from choice_sweep import RESULTS, Row, rows_of, tasks_of
from edge_rl import FIGURES, run_arm
from figure import Device, Workers, where, write_rows
from growing_rows import cold_rows

from bottega.agents import writer
from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import DEPLOYMENT, read
from bottega.agents.prompts import Prompts
from bottega.compiler.build_step import Refusal
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.compiler.library_compiler import LibraryCompiler
from bottega.core.skill import Skill, SkillState
from bottega.core.task import Task
from bottega.judge.device_facts import device_facts
from bottega.judge.trusted.judge import TrustedJudge
from bottega.languages import candidate_from
from bottega.skills.library import Library
from bottega.skills.query import query_for
from bottega.skills.relations import compatible, in_order
from bottega.skills.retrieve import Filter
from bottega.tasks.load import load_tasks
from bottega.train.run_directory import LIBRARY, MODEL

COLD, GROWN = "cold", "grown"
TASKS, UNSEEN, RULES, ANSWERS, TIMES = "tasks", "unseen", "rules.jsonl", "answers.jsonl", "times.jsonl"
RULE, NONE, FIRST, WHOLE = "rule", "no library", "first admission's library", "grown library"
LONGEST_MS, LEAST_GAIN, LEAST_SHARE, SHOWN, ROUNDS = 2.0, 1.1, 0.1, 2, 24
SETTINGS = (
    "model.lora.rank=8", "model.lora.alpha=16", "data.steps=1000", "data.longest=4096", "rollout.tasks=64",
    "rollout.schemes=1", "rollout.samples=4", "rollout.turns=2", "rollout.summaries=2", "rollout.margin=1.1",
    f"rollout.skills={SHOWN}", "rollout.temperature=1.0", "rollout.max_tokens=1536", "rollout.replaced=0",
    "rollout.style=terse", "rollout.timeout=20", "reward.name=davinci", "reward.cap=6", "advantage.even=true",
    "ablations.selector=bm25", "skills.library=empty", "skills.unproved=false", "skills.proofs=32", "skills.siblings=6",
    "skills.least_rounds=3", "skills.rounds=16", "skills.threshold=1.02", "skills.cap=6", "skills.at_once=14",
    "optimiser.lr=1e-4", "optimiser.warmup=0", "checkpoint.every=2", "checkpoint.keep=1", "checkpoint.export=bfloat16",
    "log.tensorboard=false",
)  # fmt: skip
"""By simulation on the sweep's times (docs/log, 2026-11-18): many tasks a step, since a round of the gate takes as long for thirty proofs as for one,
and a cap of 6, since the rule's answer is more than three times as fast as eager on a third of the tasks. So a group has 8 rollouts, not 16."""
SMALL = (
    "rollout.language=cpp", "rollout.tasks=1", "rollout.samples=1", "rollout.max_tokens=512", "skills.proofs=1",
    "skills.siblings=1", "skills.rounds=3", "skills.at_once=2", "data.longest=3072", "data.pack_tokens=3072",
)  # fmt: skip
"""On a CPU."""
TOLD = (
    *FIGURES, "skills/proposed", "skills/known", "skills/proved", "skills/passed", "seconds/rollout", "seconds/gate", "seconds/training", "admitted",
    "cards",
)  # fmt: skip

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where rows, models, the run, answers and times are kept.")]
Limit = Annotated[int, typer.Option(min=0, help="So many tasks; 0 for all.")]
Processes = Annotated[int, typer.Option(min=1)]
Seconds = Annotated[float, typer.Option(min=1, help="Begin nothing new after so long; the same call goes on.")]


# tasks and rows


@app.command()
def rows(
    sweep: Annotated[Path, typer.Argument(help="The choice sweep's folder.")],
    folder: Folder,
    device: Device = "cuda",
    processes: Processes = 12,
    limit: Limit = 0,
) -> None:
    """Write the cold start's rows, the tasks to learn from and the unseen ones. Needs no GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    if device == "cpu":
        _built_in(folder, limit or 8)
        return
    tasks = {one.id: one for one in tasks_of(sweep)}
    found = [row for row in rows_of(sweep / RESULTS) if 0 < (row.get("rule_ms") or 0) <= LONGEST_MS and row["task"] in tasks]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        every = list(pool.map(known, [tasks[row["task"]] for row in found], found, chunksize=4))
        mattering = functions_that_matter(every)
        chosen = [one for one in every if any(place.function in mattering for place in one.places.values())][: limit or None]
        train, unseen = ([one for one in chosen if is_held_out(one.row) == aside] for aside in (False, True))
        made = [row for some in pool.map(cold_rows, train, chunksize=2) for row in some]
    write_rows(folder / f"{COLD}.jsonl", made)
    for name, some in ((TASKS, train), (UNSEEN, unseen)):
        _write_tasks(folder / name, [one.task.task for one in some])
    write_rows(folder / RULES, [{"task": one.task.id, "rule": one.task.whole} for one in unseen])
    print(f"{len(made)} rows {dict(Counter(row['kind'] for row in made))}")
    print(f"{len(train)} tasks to learn from, {len(unseen)} unseen; functions: {', '.join(sorted(mattering))}")


def functions_that_matter(every: Sequence[Known]) -> set[str]:
    """Those of which a choice gained in a tenth of the tasks to learn from, and in more than one. All tasks with such a function are taken, also
    where nothing gains: a card is to be tried there too."""
    there, gained = Counter[str](), Counter[str]()
    for one in every:
        if not is_held_out(one.row):
            there.update({place.function for place in one.places.values()})
            some = [variant for variant in one.row["variants"] if variant["ms"] and variant["place"] in one.places]
            fast = [variant for variant in some if one.row["rule_ms"] / variant["ms"] >= LEAST_GAIN]
            gained.update({one.places[variant["place"]].function for variant in fast})
    return {name for name, count in gained.items() if count > 1 and count >= LEAST_SHARE * there[name]}


def _built_in(folder: Path, limit: int) -> None:
    """The shortest tasks; every fourth is unseen."""
    some = sorted(load_tasks(["builtin"], size="cpu").tasks, key=lambda task: len(task.source))[:limit]
    unseen = some[::4]
    _write_tasks(folder / TASKS, [task for task in some if task not in unseen])
    _write_tasks(folder / UNSEEN, unseen)
    write_rows(
        folder / RULES, [{"task": one.id, "rule": _rule(one)} for one in load_tasks([folder / UNSEEN], size="cpu").tasks]
    )
    print(f"{len(some) - len(unseen)} tasks to learn from, {len(unseen)} unseen")


def _rule(task: Task) -> str:
    try:
        return LibraryCompiler().build(task, "cpp").steps[-1].candidate.source
    except Refusal:
        return ""


def _write_tasks(place: Path, tasks: Sequence[Task]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        (place / f"{task.name[:60]}_{task.id[:6]}.py").write_text(task.source, encoding="utf-8")


# the run


@app.command()
def grow(
    folder: Folder,
    seconds: Seconds = 900.0,
    model: Annotated[str, typer.Option(help="The cold start, as model.name takes it; the folder's if empty.")] = "",
    device: Device = "cuda",
    workers: Workers = 14,
    settings: Annotated[str, typer.Option(help="Further settings of `bottega train`, separated by spaces.")] = "",
) -> None:
    """RL for so long, with a library that begins empty."""
    begun = time.monotonic()
    model = model or ("embedded" if device == "cpu" else str(folder / COLD / MODEL))
    own = [f"model.name={model}", f"model.device={device}", f"rollout.judge_workers={workers}"]
    own += [f"data.tasks={json.dumps([str(folder / TASKS)])}", *(SMALL if device == "cpu" else ()), *settings.split()]
    run_arm(folder / GROWN, device, [*SETTINGS, *own], lambda: time.monotonic() - begun > seconds, trusted_inputs, TOLD)
    with Library(folder / GROWN / LIBRARY, create=False) as library:
        print("\n".join(card_table(library)))


def versions(library: Library) -> dict[str, int]:
    """Of the library that a way of answering is shown."""
    changes = [row["version"] for row in library.store.rows("SELECT version FROM changes ORDER BY version")]
    first = next((at for at in changes if library.cards(SkillState.ADMITTED, at)), library.version)
    return {NONE: 0, FIRST: first, WHOLE: library.version}


# unseen tasks


@app.command()
def answer(
    folder: Folder,
    device: Device = "cuda",
    tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = 1024,
    limit: Limit = 0,
    processes: Processes = 12,
) -> None:
    """The learned writer's greedy answers to the unseen tasks, with each library. Equal prompts are asked once."""
    language = "cpp" if device == "cpu" else "triton"
    tasks = load_tasks([folder / UNSEEN], size="cpu" if device == "cpu" else "gpu").tasks[: limit or None]
    asked: list[tuple[Task, str, list[str], list[Row]]] = []
    with Library(folder / GROWN / LIBRARY, create=False) as library:
        for way, version in versions(library).items():
            for task in tasks:
                cards = shown(library, task, device, language, version)
                asked.append((task, way, [card.name for card in cards], prompt_of(task, cards, device, language)))
    distinct = list({json.dumps(prompt): prompt for *_, prompt in asked}.items())
    texts = asyncio.run(generated(f"local:{folder / GROWN / MODEL}", device, [prompt for _, prompt in distinct], tokens))
    by_prompt = {key: text for (key, _), text in zip(distinct, texts)}
    said = [by_prompt[json.dumps(prompt)] for *_, prompt in asked]
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        sources = list(pool.map(_read, said, [task.source for task, *_ in asked], [language] * len(asked), chunksize=4))
    write_rows(
        folder / ANSWERS,
        [
            {"task": task.id, "way": way, "cards": cards, "text": text, "source": source}
            for (task, way, cards, _), text, source in zip(asked, said, sources)
        ],
    )
    for way in (FIRST, WHOLE):
        print(f"{way}: cards for {sum(bool(cards) for _, of, cards, _ in asked if of == way)} of {len(tasks)} tasks")
    (folder / TIMES).unlink(missing_ok=True)


def shown(library: Library, task: Task, device: str, language: str, version: int) -> list[Skill]:
    """As BM25 picks them in the run: admitted cards whose conditions hold."""
    facts = device_facts(device)
    only = Filter((SkillState.ADMITTED,), language, facts.kind, workload=lambda: shared_tracer().workload(task, facts))
    hits = library.search(query_for(task), 20, only, at=version) if version else []
    return in_order(compatible([hit.skill for hit in hits], SHOWN))


def prompt_of(task: Task, cards: Sequence[Skill], device: str, language: str) -> list[Row]:
    given = writer.WriterInput(task, language, device_facts(device), tuple(cards), callgraph=shared_tracer().trace(task))
    return [{"role": one.role, "content": one.content} for one in writer.messages(given, Prompts("terse"))]


def _read(text: str, source: str, language: str) -> str:
    found = read(text, AnswerContext(source, language, "terse"), DEPLOYMENT)
    return "" if found.fault else found.source


@app.command()
def measure(folder: Folder, device: Device = "cuda", workers: Workers = 14, seconds: Seconds = 120.0) -> None:
    """Time all answers to a task side by side with the rule's."""
    begun, lock, path = time.monotonic(), threading.Lock(), folder / TIMES
    done, rules = {row["task"] for row in rows_of(path)}, {row["task"]: row["rule"] for row in rows_of(folder / RULES)}
    given: dict[str, dict[str, Row]] = {}
    for row in rows_of(folder / ANSWERS):
        given.setdefault(row["task"], {})[row["way"]] = row
    tasks = load_tasks([folder / UNSEEN], size="cpu" if device == "cpu" else "gpu").tasks
    with TrustedJudge(device, workers=workers) as judge, open(path, "a", encoding="utf-8") as file:

        def one(task: Task) -> None:
            if task.id in done or task.id not in given or not rules[task.id] or time.monotonic() - begun > seconds:
                return
            sources = {RULE: rules[task.id], **{way: row["source"] for way, row in given[task.id].items()}}
            candidates = {source: candidate_from(source) for source in sources.values() if source}
            try:
                found = dict(zip(candidates, judge.judge_many(task, list(candidates.values()), rounds=ROUNDS)))
            except Exception as error:  # one task may not end the rest
                print(f"{task.name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr, flush=True)
                return
            times = {}
            for way, source in sources.items():
                verdict = found.get(source)
                right = verdict is not None and verdict.outcome.accepted
                times[way] = {"ms": verdict.times_ms.get("candidate") if right and verdict else None}
            cards = {way: row["cards"] for way, row in given[task.id].items()}
            with lock:
                file.write(json.dumps({"task": task.id, "name": task.name, "times": times, "cards": cards}) + "\n")
                file.flush()

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(one, tasks))
    report(folder)
    print(f"\n{where(device)}")


# report


@app.command()
def report(folder: Folder) -> None:
    """Print the admitted cards with their evidence, and what each library gains on unseen tasks."""
    with Library(folder / GROWN / LIBRARY, create=False) as library:
        print("\n".join([*card_table(library), "", *answer_table(rows_of(folder / TIMES))]))


def card_table(library: Library) -> Iterator[str]:
    cards = library.cards(SkillState.ADMITTED)
    yield f"{len(cards)} cards admitted"
    yield ""
    yield "| card | tasks | pairs | why |"
    yield "|---|---:|---:|---|"
    for card in cards:
        trials = library.evidence.trials(card.name)
        yield f"| {card.name} | {len(trials)} | {sum(len(trial.with_skill) for trial in trials)} | {card.reason} |"


def answer_table(found: Sequence[Row]) -> Iterator[str]:
    """A wrong answer counts as the rule's."""
    timed = [row for row in found if row["times"].get(RULE, {}).get("ms") and WHOLE in row["times"]]
    if not timed:
        return
    yield f"{len(timed)} unseen tasks; geometric means, intervals over tasks"
    yield ""
    yield "| library | right | over the rule |"
    yield "|---|---:|---|"
    for way in (NONE, FIRST, WHOLE):
        gains = [gain_of(row, way) for row in timed]
        yield f"| {way} | {sum(gain is not None for gain in gains)} | {ends([gain or 1.0 for gain in gains])} |"
    yield ""
    yield "| | all tasks | those with a card |"
    yield "|---|---|---|"
    for one, other in ((WHOLE, FIRST), (WHOLE, NONE), (FIRST, NONE)):
        some = [row for row in timed if row["cards"][one]]
        ratios = [[(gain_of(row, one) or 1.0) / (gain_of(row, other) or 1.0) for row in part] for part in (timed, some)]
        yield f"| {one} over {other} | {ends(ratios[0])} | {f'{ends(ratios[1])} ({len(some)})' if some else 'none'} |"


if __name__ == "__main__":
    app()
