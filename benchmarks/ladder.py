"""What each part adds, on modules that the model never saw: its text alone, the task's file, the kernel library, lint with resampling and repairs;
and the rule-based compiler without any model. Beside it the ablation of every repair and lint rule (`ablation.py`), over all sets of modules.

Stages, because a GPU may be lent for minutes: `draw` writes the model's texts and the compiler's kernels to a folder, `judge` judges every distinct
source once, the ladder's first, and goes on where it was stopped, `report` prints both tables from what there is.

    PYTHONPATH=src python3 benchmarks/ladder.py draw run --device cuda
    PYTHONPATH=src python3 benchmarks/ladder.py judge run --device cuda --workers 13 --seconds 300
    PYTHONPATH=src python3 benchmarks/ladder.py report run
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import ablation
import typer
from figure import Device, Workers, rows_in, say, spread, where, write_rows

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import DEPLOYMENT, AnswerPolicy, read
from bottega.agents.prompt_budget import PromptBudget
from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput, messages
from bottega.backbone.chat import Sampling
from bottega.backbone.choose import open_backbone
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.data.drafts import CompilerDrafts
from bottega.episodes.backbone_defaults import answer_tokens
from bottega.episodes.context import PROMPT_SHARE, seed_of
from bottega.episodes.writing import RESAMPLING_TEMPERATURE
from bottega.judge.device_facts import device_facts
from bottega.judge.judge import Judge
from bottega.languages import candidate_from
from bottega.tasks.load import load_tasks

HERE = Path(__file__).parent
UNSEEN = "fourth_modules"
SETS = (UNSEEN, "third_modules", "builtin")
"""The ladder's set first, then by how little their authors had seen."""
DRAWS, COMPILED, VERDICTS = "draws.jsonl", "compiled.jsonl", "verdicts.jsonl"
FIRST_TEXT = {"text": AnswerPolicy(link=False), "text and task": AnswerPolicy(library=False), "linked": AnswerPolicy()}
RUNGS = {
    "text": "the model's text alone",
    "text and task": "the same behind the task's own file",
    "linked": "with the kernel library linked",
    "whole": "with lint, resampling and repairs",
    "compiler": "the rule-based compiler, no model",
}

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where texts, kernels and verdicts are kept.")]
Processes = Annotated[int, typer.Option(min=1, help="For the compiler and the lint.")]


@dataclass(frozen=True)
class Draw:
    """One greedy answer to one task: its text, and those that were sampled because one before was certain to fail."""

    set: str
    task: str
    name: str
    level: int
    source: str
    texts: tuple[str, ...] = ()

    @property
    def context(self) -> AnswerContext:
        return AnswerContext(self.source, "triton", "terse")


@dataclass(frozen=True)
class Planned:
    """The sources that have a part in a figure, by their candidates' ids; an empty id is an answer without code."""

    draw: Draw
    rungs: dict[str, str]
    variants: dict[str, str]
    sources: dict[str, str]

    @property
    def waves(self) -> tuple[set[str], set[str]]:
        """What the ladder judges, and what the ablation does: nothing where every rule ends at the same source."""
        ends = set(self.variants.values())
        return {*self.rungs.values()} - {""}, (ends if len(ends) > 1 else set()) - {""}


# draw


@app.command()
def draw(
    folder: Folder,
    device: Device = "cuda",
    sets: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(SETS),
    limit: Annotated[int, typer.Option(min=0, help="So many tasks of each set, at even distances; 0 for all.")] = 0,
    processes: Processes = 12,
    max_tokens: Annotated[int, typer.Option(help="Of an answer; 0 takes the command's default.")] = 0,
) -> None:
    """Sample every answer, and compile every module of the unseen set. Needs the GPU for the model alone."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [(name, task) for name in sets.split(",") for task in spread(_tasks(name), limit)]
    compiling = threading.Thread(target=_compile, args=(folder, [task for name, task in tasks if name == UNSEEN], processes))
    compiling.start()
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        draws = asyncio.run(_draw(tasks, device, max_tokens, pool))
    write_rows(folder / DRAWS, map(asdict, draws))
    say(f"{len(draws)} answers, {sum(len(each.texts) - 1 for each in draws)} further samples")
    compiling.join()


def _tasks(name: str) -> list[Task]:
    return list(load_tasks([name if name == "builtin" else HERE / name], size="gpu").tasks)


async def _draw(tasks: Sequence[tuple[str, Task]], device: str, max_tokens: int, pool: ProcessPoolExecutor) -> list[Draw]:
    client, prompts, facts = open_backbone("embedded", device=device), Prompts("terse"), device_facts(device)
    tokens = answer_tokens("embedded", max_tokens or None)
    room = PromptBudget(min(int(client.context * PROMPT_SHARE), client.context - tokens), client.count_tokens)
    graphs = await asyncio.gather(*(asyncio.to_thread(shared_tracer().trace, task) for _, task in tasks))
    given = {task.id: WriterInput(task, "triton", facts, callgraph=graph) for (_, task), graph in zip(tasks, graphs)}

    async def sampled(row: Draw) -> Draw:
        """Seeds are those of `bottega bench`, so that its answers come out again."""
        again, key = len(row.texts), f"{row.task}/sample0/write/s0r0t0"
        seed = seed_of(0, f"{key}/again{again}" if again else key)
        sampling = Sampling(tokens, RESAMPLING_TEMPERATURE if again else 0.0, seed=seed)
        answer = await client.generate(messages(given[row.task], prompts, room), sampling)
        return replace(row, texts=(*row.texts, answer.text))

    rows = [Draw(name, task.id, task.name, task.level or 0, task.source) for name, task in tasks]
    rows = list(await asyncio.gather(*map(sampled, rows)))
    for _ in range(DEPLOYMENT.resamples):
        wanting = [place for place, more in enumerate(pool.map(wants_more, rows, chunksize=4)) if more]
        say(f"{len(wanting)} of {len(rows)} answers are sampled again")
        for place, row in zip(wanting, await asyncio.gather(*(sampled(rows[place]) for place in wanting))):
            rows[place] = row
    await client.close()
    return rows


def wants_more(row: Draw) -> bool:
    """Whether the pipeline would sample again, whole or with one rule left out."""
    return any(more for _, more in ablation.variants(row.texts, row.context).values())


def _compile(folder: Path, tasks: Sequence[Task], processes: int) -> None:
    """The first draft that `bottega optimize` would have judged, for each module."""

    async def compiled() -> list[dict[str, str]]:
        free = asyncio.Semaphore(processes)

        async def one(task: Task) -> dict[str, str]:
            async with free:
                made = await CompilerDrafts().drafts(task, "triton", 1)
            return {"task": task.id, "source": made.drafts[0].source if made.drafts else "", "refused": made.refused}

        return list(await asyncio.gather(*map(one, tasks)))

    rows = asyncio.run(compiled()) if tasks else []
    write_rows(folder / COMPILED, rows)
    say(f"the compiler wrote {sum(bool(row['source']) for row in rows)} of {len(rows)} kernels")


# judge


def planned(row: Draw, compiled: str = "") -> Planned:
    ends = {name: source for name, (source, _) in ablation.variants(row.texts, row.context).items()}
    rungs = {}
    if row.set == UNSEEN:
        rungs = {name: read(row.texts[0], row.context, policy).source for name, policy in FIRST_TEXT.items()}
        rungs |= {"whole": ends[""], "compiler": compiled}
    by_id = {_id(source): source for source in (*rungs.values(), *ends.values())}
    rung_ids, end_ids = ({name: _id(source) for name, source in sources.items()} for sources in (rungs, ends))
    return Planned(row, rung_ids, end_ids, by_id)


def _id(source: str) -> str:
    return candidate_from(source).id if source else ""


def _plan(folder: Path, processes: int) -> list[Planned]:
    draws = [Draw(**{**row, "texts": tuple(row["texts"])}) for row in rows_in(folder / DRAWS)]
    compiled = {row["task"]: row["source"] for row in rows_in(folder / COMPILED)}
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        return list(pool.map(planned, draws, [compiled.get(row.task, "") for row in draws], chunksize=4))


@app.command()
def judge(
    folder: Folder,
    device: Device = "cuda",
    workers: Workers = 13,
    seconds: Annotated[float, typer.Option(min=1, help="Begin no verdict after so long; the same command goes on.")] = 300.0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds of a kernel's own time.")] = 25.0,
    processes: Processes = 12,
) -> None:
    """Judge every distinct source once, the ladder's first. The sources of one task are judged one after the other."""
    plan, known, begun = _plan(folder, processes), _verdicts(folder), time.monotonic()
    ladder = [(row, row.waves[0]) for row in plan]
    batches = [*ladder, *((row, row.waves[1] - row.waves[0]) for row in plan)]
    wanted = [
        (row.draw, {name: row.sources[name] for name in names if (row.draw.task, name) not in known}) for row, names in batches
    ]
    say(f"{sum(len(sources) for _, sources in wanted)} sources to judge, {len(known)} are judged already")
    lock = threading.Lock()
    with (
        open(folder / VERDICTS, "a", encoding="utf-8") as file,
        Judge(device, workers=workers, quick=True, timeout=timeout) as bench,
    ):

        def judged(draw: Draw, sources: dict[str, str]) -> None:
            for name, source in sources.items():
                if time.monotonic() - begun > seconds:
                    return
                try:
                    verdict = bench.judge(Task(draw.source, draw.name), candidate_from(source)).to_json()
                except BottegaError as error:
                    say(f"{draw.name}: no verdict: {error}")
                    continue
                kept = {key: verdict[key] for key in ("outcome", "correct", "speedup", "baseline", "diagnosis", "stages_s")}
                with lock:
                    file.write(json.dumps({"task": draw.task, "candidate": name, **kept}) + "\n")
                    file.flush()
                say(f"[{time.monotonic() - begun:.0f} s] {draw.name}: {verdict['outcome']}")

        with ThreadPoolExecutor(workers) as pool:
            for waiting in [pool.submit(judged, *batch) for batch in wanted]:
                waiting.result()


# report


@app.command()
def report(
    folder: Folder,
    device: Annotated[str, typer.Option(help="Where the verdicts were given, for the tables' foot; empty leaves it out.")] = "",
    processes: Processes = 12,
) -> None:
    """Print the ladder and the ablation as Markdown, and keep their numbers in report.json."""
    plan, verdicts = _plan(folder, processes), _verdicts(folder)
    place, rows = where(device) if device else "", ladder_rows(plan, verdicts)
    rules = ablation.summary([(row.draw.task, row.variants) for row in plan], verdicts)
    content = {"where": place, "ladder": rows, "answers": len(plan), "rules": rules}
    (folder / "report.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print("\n".join((*table(rows), "", *ablation.table(rules, len(plan)), "", place)))


def ladder_rows(plan: Sequence[Planned], verdicts: ablation.Verdicts) -> list[dict[str, Any]]:
    """One for each rung and level; the mean is geometric, and over right kernels, since others have no speed."""
    rows = []
    unseen = [row for row in plan if row.rungs]
    for rung in RUNGS:
        for level in sorted({row.draw.level for row in unseen}):
            here = [row for row in unseen if row.draw.level == level]
            found = [verdicts.get((row.draw.task, row.rungs[rung])) for row in here if row.rungs[rung]]
            judged = [verdict for verdict in found if verdict is not None]
            right = [verdict.speedup["eager"] for verdict in judged if verdict.outcome.accepted and "eager" in verdict.speedup]
            mean = exp(sum(log(one.point) for one in right) / len(right)) if right else None
            rows.append(
                {
                    "rung": rung, "level": level, "modules": len(here), "no_code": len(here) - len(found),
                    "unjudged": len(found) - len(judged), "right": len(right), "faster": sum(one.point > 1 for one in right),
                    "surely_faster": sum(one.low > 1 for one in right), "mean": mean,
                }
            )  # fmt: skip
    return rows


def table(rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    """A line for each rung, a column for each level."""
    levels = {row["level"]: row["modules"] for row in rows}
    heads = [f"level {level} ({count})" for level, count in levels.items()]
    yield f"| right / faster / surely faster, mean speedup of the right ones | {' | '.join(heads)} |"
    yield "|---" * (len(levels) + 1) + "|"
    for rung, told in RUNGS.items():
        cells = []
        for row in (row for row in rows if row["rung"] == rung):
            mean = f", {row['mean']:.2f}×" if row["mean"] else ""
            left = f" ({row['unjudged']} not judged)" if row["unjudged"] else ""
            cells.append(f"{row['right']} / {row['faster']} / {row['surely_faster']}{mean}{left}")
        yield f"| {told} | {' | '.join(cells)} |"


# files


def _verdicts(folder: Path) -> dict[tuple[str, str], Verdict]:
    rows = rows_in(folder / VERDICTS)
    return {(row.pop("task"), row.pop("candidate")): Verdict.from_json(row) for row in rows}


if __name__ == "__main__":
    app()
