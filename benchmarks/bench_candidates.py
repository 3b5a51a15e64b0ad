"""How long `bottega bench --candidates` takes for a hundred kernels, against a plain loop that calls `bottega judge` for one after the other.

The kernels are the builder's, a few for each task, as samples of a model would be; they are written before any clock starts. Both sides
judge the same texts under the same terms, each kernel once, in processes that start cold. The loop may be cut to a random part
(`--sequential`); its time for all of them is then an estimate, and told as one. Beside the times stands how far the two agree.

    PYTHONPATH=src python3 benchmarks/bench_candidates.py --device cuda --workers 8 --count 100 --sequential 12
    PYTHONPATH=src python3 benchmarks/bench_candidates.py --device cpu --workers 2 --count 6 --each 3

Writing kernels needs no GPU: `--material DIR --write-only` writes them on any machine, and `--material DIR` judges them on another.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from figure import Device, launch, show, where

from bottega.bench.run_directory import read_run
from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.data.teacher_pool import SandboxTeacherPool, TeacherSpec
from bottega.languages import candidate_from
from bottega.tasks.load import load_tasks

BUILDER = "bottega.compiler.step_compiler:StepCompiler"
BOTTEGA = [sys.executable, "-m", "bottega.app.cli"]


@dataclass(frozen=True)
class Kernel:
    task: Task
    sample: int
    candidate: Candidate

    def file(self, folder: Path) -> Path:
        return folder / "kernels" / f"{self.task.name}.{self.sample}.py"


def main(
    tasks: Annotated[list[str] | None, typer.Argument(help="Tasks; the built-in suite if left out.")] = None,
    device: Device = "cpu",
    workers: Annotated[int, typer.Option(min=1, help="Of the bench: kernels that are built and tried side by side.")] = 2,
    count: Annotated[int, typer.Option(min=1, help="Kernels to write; where they are written already, all are judged.")] = 100,
    each: Annotated[int, typer.Option(min=1, help="Kernels of one task, at most.")] = 4,
    sequential: Annotated[int, typer.Option(help="Kernels that the loop judges, at random; 0 for all.")] = 0,
    language: Annotated[str, typer.Option(help="cpp, triton or cuda; cpp on a CPU, triton on a GPU if left out.")] = "",
    quick: Annotated[bool, typer.Option("--quick/--full", help="The judge's quick mode, or full verdicts.")] = True,
    baseline: Annotated[str, typer.Option(help="eager, compile, autotune, best, or several by comma.")] = "eager",
    teachers: Annotated[int, typer.Option(min=1, help="Processes that write the kernels.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the part that the loop judges.")] = 0,
    material: Annotated[
        Path | None,
        typer.Option(help="A folder for the tasks and kernels; they are used as they are where they lie there already."),
    ] = None,
    write_only: Annotated[
        bool, typer.Option("--write-only", help="Write the material and judge nothing: it needs no GPU.")
    ] = False,
    raw: Annotated[Path | None, typer.Option("--json", help="Keep the figures in this file.")] = None,
) -> None:
    chosen = language or ("cpp" if device == "cpu" else "triton")
    loaded = load_tasks(tasks or ["builtin"], size="cpu" if device == "cpu" else "gpu").tasks
    with tempfile.TemporaryDirectory(prefix="bottega-bench-") as scratch:
        folder, run = material or Path(scratch), Path(scratch) / "run"
        if not (folder / "kernels").is_dir():
            _laid_out(asyncio.run(_written(loaded, chosen, count, each, teachers)), folder)
        kernels = _read(folder)
        if write_only:
            print(f"{len(kernels)} kernels in {folder}", file=sys.stderr)
            return
        bench_seconds = _bench(folder, run, device, baseline, quick, workers)
        benched = {(a.task, a.sample): a.verdict for a in read_run(run).attempts if a.verdict is not None}
        part = random.Random(seed).sample(kernels, min(sequential or len(kernels), len(kernels)))
        looped, loop_seconds = _loop(part, folder, device, baseline, quick)
        part = part[: len(looped)]
    _told(kernels, part, benched, looped, bench_seconds, loop_seconds, device, workers, chosen, quick, raw)


async def _written(tasks: tuple[Task, ...], language: Any, count: int, each: int, teachers: int) -> list[Kernel]:
    """Of each course the last kernels, which are its best, over tasks at even distances, until there are enough."""
    needed = min(len(tasks), 2 * -(-count // each))  # the builder refuses some
    spread = [tasks[place * len(tasks) // needed] for place in range(needed)]
    with SandboxTeacherPool(TeacherSpec(BUILDER), teachers, 120.0) as pool:
        teacher_records = await asyncio.gather(*(pool.teach(task, language) for task in spread))
    kernels: list[Kernel] = []
    for task, record in zip(spread, teacher_records):
        unique = {step.candidate.id: step.candidate for step in record.build.steps} if record.build is not None else {}
        kernels += [Kernel(task, sample, candidate) for sample, candidate in enumerate(list(unique.values())[::-1][:each])]
    if len(kernels) < count:
        print(f"the builder wrote only {len(kernels)} kernels for {len(spread)} tasks", file=sys.stderr)
    return kernels[:count]


def _laid_out(kernels: list[Kernel], folder: Path) -> None:
    for kernel in kernels:
        for path, text in (
            (folder / "tasks" / f"{kernel.task.name}.py", kernel.task.source),
            (kernel.file(folder), kernel.candidate.source),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def _read(folder: Path) -> list[Kernel]:
    tasks = {task.name: task for task in load_tasks([folder / "tasks"]).tasks}
    kernels = []
    for file in sorted((folder / "kernels").glob("*.py")):
        name, _, sample = file.stem.rpartition(".")
        kernels.append(Kernel(tasks[name], int(sample), candidate_from(file.read_text(encoding="utf-8"))))
    return kernels


def _bench(folder: Path, run: Path, device: str, baseline: str, quick: bool, workers: int) -> float:
    command = [*BOTTEGA, "bench", str(folder / "tasks"), "--candidates", str(folder / "kernels"), "--out", str(run)]
    begun = time.monotonic()
    command += ["--device", device, f"baseline={baseline}", f"quick={str(quick).lower()}", f"workers={workers}"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    seconds = time.monotonic() - begun
    if done.returncode:
        print(f"bottega bench ended with exit code {done.returncode}; its figures are of what it did", file=sys.stderr)
    return seconds


def _loop(part: list[Kernel], folder: Path, device: str, baseline: str, quick: bool) -> tuple[list[Verdict | None], float]:
    """A verdict for each kernel; None where the command printed none. Ctrl-C keeps what is there, once there is one."""
    found: list[Verdict | None] = []
    begun = time.monotonic()
    for number, kernel in enumerate(part, 1):
        command = [
            *BOTTEGA,
            "judge",
            str(folder / "tasks" / f"{kernel.task.name}.py"),
            str(kernel.file(folder)),
            "--json",
            "--device",
            device,
            "--baseline",
            baseline,
            *(["--quick"] if quick else []),
        ]
        started = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except KeyboardInterrupt:
            if not found:
                raise
            return found, started - begun
        try:
            found.append(Verdict.from_json(json.loads(done.stdout)))
        except ValueError:
            found.append(None)
        word = found[-1].outcome.value if found[-1] is not None else "no verdict"
        print(
            f"[{number}/{len(part)} {time.monotonic() - begun:.0f} s] {kernel.task.name}: {word}", file=sys.stderr, flush=True
        )
    return found, time.monotonic() - begun


def _told(
    kernels: list[Kernel],
    part: list[Kernel],
    benched: dict[tuple[str, int], Verdict],
    looped: list[Verdict | None],
    bench_seconds: float,
    loop_seconds: float,
    device: str,
    workers: int,
    language: str,
    quick: bool,
    raw: Path | None,
) -> None:
    whole = loop_seconds * len(kernels) / len(part)
    pairs = [(benched.get((kernel.task.id, kernel.sample)), verdict) for kernel, verdict in zip(part, looped)]
    both = [(one, two) for one, two in pairs if one is not None and two is not None]
    alike = sum(one.outcome.accepted is two.outcome.accepted for one, two in both)
    timed = [
        (one.speedup["eager"], two.speedup["eager"]) for one, two in both if "eager" in one.speedup and "eager" in two.speedup
    ]
    overlapping = sum(one.low <= two.high and two.low <= one.high for one, two in timed)
    estimated = "" if len(part) == len(kernels) else f", estimated from {len(part)}"
    rows = [
        [
            "bottega bench --candidates",
            str(len(benched)),
            f"{bench_seconds:.1f}",
            f"{bench_seconds / max(1, len(benched)):.2f}",
        ],
        ["loop over bottega judge", str(len(part)), f"{loop_seconds:.1f}", f"{loop_seconds / len(part):.2f}"],
        [f"the loop for all{estimated}", str(len(kernels)), f"{whole:.1f}", f"{whole / bench_seconds:.1f}× the bench"],
    ]
    outcomes = Counter(verdict.outcome.value for verdict in benched.values())
    remarks = [
        where(device),
        f"{len({kernel.task.id for kernel in kernels})} tasks; outcomes of the bench: "
        + ", ".join(f"{number} {word}" for word, number in outcomes.most_common()),
        f"agreement: {alike} of {len(both)} kernels accepted or refused alike; {overlapping} of {len(timed)} intervals overlap",
    ]
    title = f"{len(kernels)} {language} kernels on {device}, {workers} workers, {'quick' if quick else 'full'} verdicts"
    show(title, ("", "kernels", "seconds", "each"), rows, remarks)
    if raw is not None:
        figures = {
            "kernels": len(kernels), "tasks": len({kernel.task.id for kernel in kernels}), "workers": workers, "quick": quick,
            "bench_seconds": round(bench_seconds, 2), "bench_judged": len(benched), "loop_judged": len(part),
            "loop_seconds": round(loop_seconds, 2), "loop_seconds_for_all": round(whole, 2), "outcomes": dict(outcomes),
            "accepted_alike": [alike, len(both)], "intervals_overlap": [overlapping, len(timed)], "device": where(device),
        }  # fmt: skip
        raw.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    launch(main)
