"""Layers of transformers and torchvision at the shapes of real checkpoints, bf16, random weights: what the rule-based compiler makes of them, held
against eager, torch.compile and max-autotune, and beside Liger-Kernel where that is installed and has the layer. No model is involved.

    PYTHONPATH=src python3 benchmarks/real_modules.py run FOLDER --device cuda --seconds 330
    PYTHONPATH=src python3 benchmarks/real_modules.py run FOLDER --device cpu --limit 20 --language cpp --dtype float32 --size laptop
    PYTHONPATH=src python3 benchmarks/real_modules.py run FOLDER --device cpu --tasks builtin --language cpp --size laptop --part 6

All drafts are judged quickly against eager; then the best of each layer in full against all baselines, which takes minutes to compile. Layers last a
tenth of a millisecond to two, so that a quick verdict's few rounds say little. A GPU may be lent for minutes. So drafts, quick verdicts and full
ones are kept in FOLDER as they come, the same command goes on from there, what was compiled stays in the judge's cache, and drafts may be written
before, on a machine without a GPU:

    PYTHONPATH=src python3 benchmarks/real_modules.py write FOLDER --processes 2
    PYTHONPATH=src python3 benchmarks/real_modules.py report FOLDER

`--baselines eager,compile` leaves max-autotune out, which takes most of the time; `--size laptop` takes few tokens. `--tasks builtin` takes the
built-in tasks in the place of layers, all levels in turn; with `--part 6` six come to full verdicts before the next six begin.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from figure import Device, Workers, where
from real_layers import BuiltinTask, Layer, Size, builtin_tasks, installed_layers

from bottega.core.errors import BottegaError
from bottega.core.verdict import BEST, Verdict
from bottega.data.drafts import CompilerDrafts
from bottega.judge.baselines import MEASURED, parse_baselines
from bottega.judge.cancellation import Cancellation
from bottega.judge.judge import Judge
from bottega.languages import candidate_from

DRAFTS, SCREENED, VERDICTS = "drafts.jsonl", "screened.jsonl", "verdicts.jsonl"
KEPT = ("outcome", "correct", "speedup", "baseline", "coverage", "diagnosis", "times_ms", "stages_s", "violations")
LIGER = "Liger-Kernel"
AIM = 1.25
"""Geometric mean over the best baseline, on the layers that are handed over."""

app = typer.Typer(add_completion=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Where drafts and verdicts are kept.")]
Language = Annotated[str, typer.Option(help="That the drafts are written in.")]
Count = Annotated[int, typer.Option("--drafts", min=1, help="Of each layer, at most.")]
Limit = Annotated[int, typer.Option(min=0, help="So many layers, at even distances; 0 for all.")]
Only = Annotated[str, typer.Option(help="Names of layers, or parts of them, separated by commas; in this order.")]
Dtype = Annotated[str, typer.Option(help="Of weights and inputs of layers; laptops have float32.")]
Tasks = Annotated[Literal["layers", "builtin"], typer.Option(help="Layers of installed packages, or the built-in tasks.")]
Shape = Annotated[Size, typer.Option(help="Of the checkpoint, with few tokens, or for an interpreter.")]
Processes = Annotated[int, typer.Option(min=1, help="Compilers at a time.")]
Judged = Layer | BuiltinTask


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
    workers: Workers = 12,
    processes: Processes = 12,
    compilers: Annotated[int, typer.Option(min=1, help="Layers whose baselines are compiled at a time.")] = 11,
    seconds: Annotated[float, typer.Option(min=1, help="End what is under way then; the same command goes on.")] = 500.0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds of a kernel's own time.")] = 60.0,
) -> None:
    """Write what drafts are missing, judge them quickly and the best of each layer in full, and print the table."""
    end, layers = time.monotonic() + seconds, _chosen(tasks, limit, only, dtype)
    rows = {row["layer"]: row for row in _written(folder, layers, language, drafts, size, processes)}
    cores = len(os.sched_getaffinity(0))
    every = {layer.name: _candidates(layer, rows[layer.name], drafts, size) for layer in layers}
    names = parse_baselines(baselines)
    for first in range(0, len(layers), part or len(layers)):
        if time.monotonic() > end:
            break
        some = layers[first : first + (part or len(layers))]
        with Judge(device, workers=min(workers, cores), quick=True, timeout=timeout) as judge:
            _judge_all(judge, folder / SCREENED, some, every, size, end)
        best = {layer.name: _best(_rows(folder / SCREENED), layer.name) for layer in some}
        chosen = {name: [each for each in every[name] if each[0] == number] for name, number in best.items()}
        with Judge(device, workers=min(compilers, cores), timeout=timeout, baselines=names) as judge:
            _judge_all(judge, folder / VERDICTS, some, chosen, size, end)
    report(folder, device)


Numbered = tuple[int, dict[str, Any]]
"""A draft of a layer with its number; the peer's has -1."""


def _candidates(layer: Judged, row: dict[str, Any], drafts: int, size: Size) -> list[Numbered]:
    peer = layer.liger(size) if importlib.util.find_spec("liger_kernel") else ""
    return [*enumerate(row["drafts"][:drafts]), *([(-1, {"technique": LIGER, "source": peer})] if peer else [])]


def _best(screened: Sequence[dict[str, Any]], layer: str) -> int | None:
    """The number of the draft that is fastest by its median in a quick verdict; None where none is right. On a busy machine the point is 1 for most:
    an interval that holds 1 has it there."""
    mine = [row for row in screened if row["layer"] == layer and row["draft"] >= 0 and row["speedup"]]
    return max(mine, key=lambda row: row["times_ms"]["eager"] / row["times_ms"]["candidate"])["draft"] if mine else None


def _judge_all(
    judge: Judge, path: Path, layers: Sequence[Judged], candidates: dict[str, list[Numbered]], size: Size, end: float
) -> None:
    """Layers side by side, each one's candidates one after the other. What is not ready in time is begun anew by the next call."""
    known = {(row["layer"], row["draft"]) for row in _rows(path)}
    begun, lock, cancellation = time.monotonic(), threading.Lock(), Cancellation()

    def judged(layer: Judged) -> None:
        task = layer.task(size)
        for number, draft in candidates[layer.name]:
            if (layer.name, number) in known or time.monotonic() > end:
                continue
            try:
                verdict = judge.judge(task, candidate_from(draft["source"]), cancellation=cancellation).to_json()
            except BottegaError as error:
                _log(f"{layer.name}: no verdict: {_line(str(error))}")
                continue
            row = {"layer": layer.name, "draft": number, "technique": draft["technique"], **{k: verdict[k] for k in KEPT}}
            with lock, open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            told = _told(Verdict.from_json(verdict))
            _log(f"[{time.monotonic() - begun:.0f} s] {layer.name} {draft['technique']}: {told}")

    alarm = threading.Timer(max(end - begun, 0.0), cancellation.cancel)
    alarm.daemon = True
    alarm.start()
    with ThreadPoolExecutor(judge.workers) as pool:
        list(pool.map(judged, layers))
    alarm.cancel()


@app.command()
def report(folder: Folder, device: Annotated[str, typer.Option(help="Where it was judged; empty leaves it out.")] = "") -> None:
    """Print the table from what there is."""
    full, quick = _rows(folder / VERDICTS), _rows(folder / SCREENED)
    known = {row["layer"] for row in full}
    rest = [row for row in quick if row["layer"] not in known or row["technique"] == LIGER or not row["speedup"]]
    print("\n".join(table(_rows(folder / DRAFTS), [*full, *rest])))
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
            found.setdefault(tuple(sorted(speedup)), []).append(
                (min(lows), max(min(points), 1.0))
            )  # slower ones stay as they are
    yield ""
    yield f"{len(drafts)} layers, {sum(map(len, found.values()))} right"
    for names, each in found.items():
        surely, mean = sum(low > 1 for low, _ in each), math.exp(sum(math.log(point) for _, point in each) / len(each))
        yield (
            f"{len(each)} against {' and '.join(names)}: {surely} surely faster than the best of them; geometric mean over it {mean:.2f}× "
            f"where what is slower stays as it is (aim {AIM}×)"
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
        builtin_tasks() if tasks == "builtin" else [replace(one, dtype=dtype) for one in installed_layers()]
    )
    words = [word for word in only.split(",") if word] or [""]
    layers = list({layer.name: layer for word in words for layer in every if word in layer.name}.values())
    count = min(limit or len(layers), len(layers))
    return [layers[place * len(layers) // count] for place in range(count)]


def _written(
    folder: Path, layers: Sequence[Judged], language: str, count: int, size: Size, processes: int
) -> list[dict[str, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    known = {row["layer"]: row for row in _rows(folder / DRAFTS)}
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
            _log(f"{layer.name}: {len(made.drafts)} drafts in {time.monotonic() - begun:.0f} s {made.refused}")

        await asyncio.gather(*map(one, missing))

    asyncio.run(every())
    return [known[layer.name] for layer in layers]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    app()
