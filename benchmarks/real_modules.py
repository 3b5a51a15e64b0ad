"""Layers of transformers and torchvision at the shapes of real checkpoints, bf16, random weights: what the rule-based compiler makes of them, held
against eager, torch.compile and max-autotune, and beside Liger-Kernel where that is installed and has the layer. No model is involved.

    PYTHONPATH=src python3 benchmarks/real_modules.py run FOLDER --device cuda --seconds 330
    PYTHONPATH=src python3 benchmarks/real_modules.py run FOLDER --device cpu --limit 20 --language cpp --dtype float32 --size laptop
    PYTHONPATH=src python3 benchmarks/real_modules.py run FOLDER --device cpu --tasks builtin --language cpp --size laptop --part 6

Each layer is searched as `bottega optimize --backbone none` does: its drafts get quick verdicts against eager, and the best one's knobs are tuned
where there is a measuring mode; then the best of each layer is judged in full against all baselines, which takes minutes to compile. A GPU may be
lent for minutes. So drafts, the searches' log and full verdicts are kept in FOLDER as they come, the same command goes on from there, what was
compiled stays in the judge's cache, and drafts may be written before, on a machine without a GPU:

    PYTHONPATH=src python3 benchmarks/real_modules.py write FOLDER --processes 2
    PYTHONPATH=src python3 benchmarks/real_modules.py report FOLDER

`--baselines eager,compile` leaves max-autotune out, which takes most of the time; `--size laptop` takes few tokens. `--tasks builtin` takes the
built-in tasks in the place of layers, `--tasks FOLDER` a benchmark's (as `large_tasks.py` writes them), all levels in turn; with `--part 6` six come
to full verdicts before the next six begin.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from figure import Device, Workers, rows_in, say, spread, where
from real_layers import Layer, Size, TaskFile, installed_layers, task_files_of

from bottega.agents.prompts import Prompts
from bottega.backbone.client import ChatClient
from bottega.backbone.scripted import ScriptedChat
from bottega.core.draft import Draft, Drafts
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.core.verdict import BEST, Verdict
from bottega.data.drafts import CompilerDrafts
from bottega.episodes.attempts import attempts_of
from bottega.episodes.backbone_defaults import KNOBS
from bottega.episodes.context import EpisodeContext
from bottega.episodes.episode import run_episode
from bottega.episodes.journal import EpisodeJournal
from bottega.episodes.node import SearchNode, best_of
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.baselines import MEASURED, parse_baselines
from bottega.judge.cancellation import Cancellation
from bottega.judge.device_host import LOCAL
from bottega.judge.judge import Judge
from bottega.judge.trusted.judge import TrustedJudge
from bottega.languages import candidate_from

DRAFTS, VERDICTS = "drafts.jsonl", "verdicts.jsonl"
KEPT = ("outcome", "correct", "speedup", "baseline", "coverage", "diagnosis", "times_ms", "stages_s", "violations")
LIGER = "Liger-Kernel"
QUIET = 3
"""Judges at a time where verdicts that could not be told are given again."""
AIM = 1.25
"""Geometric mean over the best baseline, on the layers that are handed over."""

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where drafts and verdicts are kept.")]
Language = Annotated[str, typer.Option(help="That the drafts are written in.")]
Count = Annotated[int, typer.Option("--drafts", min=1, help="Of each layer, at most.")]
Limit = Annotated[int, typer.Option(min=0, help="So many layers, at even distances; 0 for all.")]
Only = Annotated[str, typer.Option(help="Names of layers, or parts of them, separated by commas; in this order.")]
Dtype = Annotated[str, typer.Option(help="Of weights and inputs of layers; laptops have float32.")]
Tasks = Annotated[str, typer.Option(help="layers: of installed packages; builtin: the built-in tasks; or a folder of tasks.")]
Shape = Annotated[Size, typer.Option(help="Of the checkpoint, with few tokens, or for an interpreter.")]
Processes = Annotated[int, typer.Option(min=1, help="Compilers at a time.")]
Judged = Layer | TaskFile


@app.command()
def write(
    folder: Folder,
    language: Language = "triton",
    drafts: Count = 3,
    limit: Limit = 0,
    only: Only = "",
    size: Shape = "full",
    dtype: Dtype = "bfloat16",
    tasks: Tasks = "layers",
    processes: Processes = 12,
) -> None:
    """Write the drafts. Needs no GPU."""
    _written(folder, _chosen(tasks, limit, only, dtype), language, drafts, size, processes)


@app.command()
def run(
    folder: Folder,
    device: Device = "cuda",
    language: Language = "triton",
    drafts: Count = 3,
    limit: Limit = 0,
    only: Only = "",
    size: Shape = "full",
    dtype: Dtype = "bfloat16",
    tasks: Tasks = "layers",
    part: Annotated[int, typer.Option(min=0, help="Layers that come to full verdicts before the next begin; 0 for all.")] = 0,
    baselines: Annotated[str, typer.Option(help="Separated by commas; `best` is all of them.")] = BEST,
    knobs: Annotated[int, typer.Option(min=0, help="Settings of the best draft's knobs that are measured, on a GPU.")] = KNOBS,
    workers: Workers = 12,
    processes: Processes = 12,
    compilers: Annotated[int, typer.Option(min=1, help="Layers whose baselines are compiled at a time.")] = 11,
    seconds: Annotated[float, typer.Option(min=1, help="End what is under way then; the same command goes on.")] = 500.0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds of a kernel's own time.")] = 60.0,
) -> None:
    """Write what drafts are missing, search each layer, judge the best of each in full, and print the table."""
    end, layers = time.monotonic() + seconds, _chosen(tasks, limit, only, dtype)
    rows = {row["layer"]: row for row in _written(folder, layers, language, drafts, size, processes)}
    cores, names = len(os.sched_getaffinity(0)), parse_baselines(baselines)
    settings = EpisodeSettings(device=device, language=language, drafts=drafts, knobs=knobs if device.startswith("cuda") else 0)
    for first in range(0, len(layers), part or len(layers)):
        if time.monotonic() > end:
            break
        some = layers[first : first + (part or len(layers))]
        asyncio.run(_search_all(folder, some, rows, settings, size, min(workers, cores), timeout, end))
        with EpisodeJournal(folder) as journal:
            found = {layer.name: _searched(journal, layer.name, rows[layer.name]) for layer in some}
        chosen = {layer.name: _candidates(layer, found[layer.name], size) for layer in some}
        with Judge(device, workers=min(compilers, cores), timeout=timeout, baselines=names) as judge:
            _judge_all(judge, folder / VERDICTS, some, chosen, size, end)
        unsure = [layer for layer in some if _is_unsure(_verdicts(folder).get((layer.name, 0)))]
        with Judge(device, workers=min(QUIET, cores), timeout=timeout, baselines=names) as judge:
            _judge_all(
                judge,
                folder / VERDICTS,
                unsure,
                {layer.name: chosen[layer.name][:1] for layer in unsure},
                size,
                end,
                again=True,
            )
    report(folder, device)


@dataclass(frozen=True)
class WrittenDrafts:
    """What `write` has left, in the place of a compiler."""

    row: dict[str, Any]

    async def drafts(self, task: Task, language: str, count: int) -> Drafts:
        return Drafts("compiler", tuple(Draft(**each) for each in self.row["drafts"][:count]), self.row["refused"])


async def _search_all(
    folder: Path,
    layers: Sequence[Judged],
    rows: dict[str, dict[str, Any]],
    settings: EpisodeSettings,
    size: Size,
    workers: int,
    timeout: float,
    end: float,
) -> None:
    """A search without a model for each layer, side by side. What is not ready in time is begun anew by the next call, from the log."""
    device = settings.device
    with ExitStack() as stack:
        journal = stack.enter_context(EpisodeJournal(folder))
        judge = stack.enter_context(Judge(device, workers=workers, quick=True, timeout=timeout))
        measuring = stack.enter_context(TrustedJudge(device, workers=max(1, workers // 2))) if settings.knobs else None
        client, prompts = ChatClient(ScriptedChat(())), Prompts(settings.style)
        free = asyncio.Semaphore(workers)  # a layer that is open stays so for all its drafts

        async def one(layer: Judged) -> None:
            context = EpisodeContext(
                client,
                judge,
                None,
                prompts,
                LOCAL.facts(device),
                journal,
                draft_source=WrittenDrafts(rows[layer.name]),
                measuring=measuring,
            )
            try:
                async with free:
                    await run_episode(context, layer.task(size), settings, layer.name, model=False)
            except BottegaError as error:
                say(f"{layer.name}: the search ended: {_line(str(error))}")
                return
            best = best_of([attempt.node for attempt in attempts_of(journal.events, layer.name)], "eager")
            told = _told(best.verdict) if best is not None and best.verdict is not None else "nothing right"
            say(f"[{end - time.monotonic():.0f} s left] {layer.name}: {told}")

        tasks = [asyncio.ensure_future(one(layer)) for layer in layers]
        await asyncio.wait(tasks, timeout=max(end - time.monotonic(), 0.0))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Numbered = tuple[int, dict[str, Any]]
"""A kernel of a layer with its number; the peer's has -1."""


def _searched(journal: EpisodeJournal, layer: str, written: dict[str, Any]) -> list[tuple[str, SearchNode]]:
    """What was judged in a layer's search, each with the name of what was done to it."""
    names = {each["source"]: each["technique"] for each in written["drafts"]}
    nodes = [attempt.node for attempt in attempts_of(journal.events, layer)]
    of = {node.id: names.get(node.turn.source, "") for node in nodes}
    return [
        (of[node.id] or f"{of.get(node.parent or '', '')}; {node.turn.summary}", node)
        for node in nodes
        if node.verdict is not None
    ]


def _candidates(layer: Judged, searched: Sequence[tuple[str, SearchNode]], size: Size) -> list[Numbered]:
    """The best kernel of the search, and the peer's."""
    best = best_of([node for _, node in searched], "eager")
    mine = [(0, {"technique": name, "source": node.turn.source}) for name, node in searched if node is best]
    peer = layer.liger(size) if importlib.util.find_spec("liger_kernel") else ""
    return [*mine, *([(-1, {"technique": LIGER, "source": peer})] if peer else [])]


def _judge_all(
    judge: Judge,
    path: Path,
    layers: Sequence[Judged],
    candidates: dict[str, list[Numbered]],
    size: Size,
    end: float,
    again: bool = False,
) -> None:
    """Layers side by side, each one's candidates one after the other. What is not ready in time is begun anew by the next call."""
    known = set() if again else {(row["layer"], row["draft"]) for row in rows_in(path)}
    begun, lock, cancellation = time.monotonic(), threading.Lock(), Cancellation()

    def judged(layer: Judged) -> None:
        task = layer.task(size)
        for number, draft in candidates[layer.name]:
            if (layer.name, number) in known or time.monotonic() > end:
                continue
            try:
                options: dict[str, Any] = (
                    {"baselines": ("eager",)} if number < 0 else {"own_code": True}
                )  # the compiler wrote it
                verdict = judge.judge(task, candidate_from(draft["source"]), cancellation=cancellation, **options).to_json()
            except BottegaError as error:
                say(f"{layer.name}: no verdict: {_line(str(error))}")
                continue
            row = {**_row(layer.name, number, draft["technique"], verdict), "again": again}
            with lock, open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            told = _told(Verdict.from_json(verdict))
            say(f"[{time.monotonic() - begun:.0f} s] {layer.name} {draft['technique']}: {told}")

    alarm = threading.Timer(max(end - begun, 0.0), cancellation.cancel)
    alarm.daemon = True
    alarm.start()
    with ThreadPoolExecutor(judge.workers) as pool:
        list(pool.map(judged, layers))
    alarm.cancel()


def _verdicts(folder: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The last one of each kernel: what was judged again counts as it was then."""
    return {(row["layer"], row["draft"]): row for row in rows_in(folder / VERDICTS)}


def _is_unsure(row: dict[str, Any] | None) -> bool:
    """The interval against the best baseline holds 1: beside many compilers intervals are wide. Once: then it stays so."""
    each = row["speedup"].values() if row and not row["again"] else ()
    return bool(each) and min(one["low"] for one in each) <= 1 <= min(one["high"] for one in each)


def _row(layer: str, number: int, technique: str, verdict: dict[str, Any]) -> dict[str, Any]:
    return {"layer": layer, "draft": number, "technique": technique, **{key: verdict[key] for key in KEPT}}


@app.command()
def report(folder: Folder, device: Annotated[str, typer.Option(help="Where it was judged; empty leaves it out.")] = "") -> None:
    """Print the table from what there is."""
    full, drafts = list(_verdicts(folder).values()), rows_in(folder / DRAFTS)
    known = {row["layer"] for row in full if row["draft"] >= 0}
    with EpisodeJournal(folder) as journal:
        quick = [
            _row(one["layer"], number, name, node.verdict.to_json())
            for one in drafts
            for number, (name, node) in enumerate(_searched(journal, one["layer"], one))
            if node.verdict is not None
        ]
    print("\n".join(table(drafts, [*full, *(row for row in quick if row["layer"] not in known or not row["speedup"])])))
    if device:
        print(f"\n{where(device)}")


def table(drafts: Sequence[dict[str, Any]], verdicts: Sequence[dict[str, Any]]) -> Iterable[str]:
    """A line for each layer with its best draft, and the sums below."""
    yield "| layer | best draft | outcome | eager | compile | autotune | Liger-Kernel | own kernels | first error |"
    yield "|---|---|---|---|---|---|---|---|---|"
    found: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for row in drafts:
        mine = [each for each in verdicts if each["layer"] == row["layer"] and each["technique"] != LIGER]
        peer = next((each for each in verdicts if each["layer"] == row["layer"] and each["technique"] == LIGER), None)
        best = max(mine, key=_rank, default=None)
        errors = [each for each in mine if not each["correct"] or each["outcome"] == "rejected"]
        error = row["refused"] or (
            f"{errors[0]['technique']}: {errors[0]['outcome']}: {_line(errors[0]['diagnosis'])}" if errors else ""
        )
        if best is None:
            yield f"| {row['layer']} | {len(row['drafts'])} drafts | not judged | | | | | | {error} |"
            continue
        speedup = best["speedup"]
        cells = [f"{speedup[name]['point']:.2f}" if name in speedup else "" for name in MEASURED]
        cells.append("" if peer is None else _over_peer(speedup, peer))
        share = best["coverage"].get("share")
        yield (
            f"| {row['layer']} | {best['technique']} | {best['outcome']} | {' | '.join(cells)} | "
            f"{'' if share is None else f'{share:.0%}'} | {error} |"
        )
        if speedup:
            lows, points = ([each[bound] for each in speedup.values()] for bound in ("low", "point"))
            level = row["layer"].partition("/")[0] if "/" in row["layer"] else ""
            # slower ones stay as they are
            found.setdefault((level, *sorted(speedup)), []).append((min(lows), max(min(points), 1.0)))
    yield ""
    yield f"{len(drafts)} layers, {sum(map(len, found.values()))} right"
    for (level, *names), each in sorted(found.items()):
        surely, mean = sum(low > 1 for low, _ in each), math.exp(sum(math.log(point) for _, point in each) / len(each))
        yield (
            f"{level}{': ' if level else ''}{len(each)} against {' and '.join(names)}: {surely} surely faster than the best of them; "
            f"geometric mean over it {mean:.2f}× where what is slower stays as it is (aim {AIM}×)"
        )


def _over_peer(speedup: dict[str, Any], peer: dict[str, Any]) -> str:
    """Ours over the peer's, both over eager."""
    if "eager" not in speedup or "eager" not in peer["speedup"]:
        return str(peer["outcome"])
    return f"{speedup['eager']['point'] / peer['speedup']['eager']['point']:.2f}"


def _rank(row: dict[str, Any]) -> tuple[bool, float]:
    return bool(row["speedup"]), min((each["point"] for each in row["speedup"].values()), default=0.0)


def _told(verdict: Verdict) -> str:
    speedups = " ".join(f"{name} {each.point:.2f}" for name, each in verdict.speedup.items())
    return f"{verdict.outcome.value} {speedups or _line(verdict.diagnosis)}"


def _line(text: str) -> str:
    return next(iter(text.splitlines()), "")[:160].replace("|", "/")


def _chosen(tasks: str, limit: int, only: str, dtype: str) -> list[Judged]:
    every: Sequence[Judged] = (
        [replace(one, dtype=dtype) for one in installed_layers()] if tasks == "layers" else task_files_of(tasks)
    )
    words = [word for word in only.split(",") if word] or [""]
    layers = list({layer.name: layer for word in words for layer in every if word in layer.name}.values())
    return spread(layers, limit)


def _written(
    folder: Path, layers: Sequence[Judged], language: str, count: int, size: Size, processes: int
) -> list[dict[str, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    known = {row["layer"]: row for row in rows_in(folder / DRAFTS)}
    missing = [layer for layer in layers if layer.name not in known]

    async def every() -> None:
        free = asyncio.Semaphore(processes)

        async def one(layer: Judged) -> None:
            async with free:
                begun = time.monotonic()
                made = await CompilerDrafts(timeout=120.0).drafts(layer.task(size), language, count)
            row = {"layer": layer.name, "drafts": [each.to_json() for each in made.drafts], "refused": made.refused}
            known[layer.name] = row
            with open(folder / DRAFTS, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            say(f"{layer.name}: {len(made.drafts)} drafts in {time.monotonic() - begun:.0f} s {made.refused}")

        await asyncio.gather(*map(one, missing))

    asyncio.run(every())
    return [known[layer.name] for layer in layers]


if __name__ == "__main__":
    app()
