"""How many kernels of the builder are taught and judged in a minute, how many of them beat eager, and by how much, family by family.

A pair is a task and a kernel with its verdict. Teaching, compiling and judging run as in `bottega data build`, with nothing prepared;
the clock stops when the tasks are done or the time is up. Mistakes count as pairs, and not among the speedups.

    PYTHONPATH=src python3 benchmarks/judged_pairs.py builtin --device cpu --workers 2 --seconds 600
    PYTHONPATH=src python3 benchmarks/judged_pairs.py SYNTHESISED --device cuda --trust-teacher --workers 14 --seconds 540 --out TAUGHT
    PYTHONPATH=src python3 benchmarks/judged_pairs.py SYNTHESISED --device cuda --workers 16 --teachers 12 --baseline eager,compile --seconds 600
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer
from figure import Device, launch, percentile, show, where

from bottega.app.data_display import trusted_words
from bottega.data.build import judge_stage
from bottega.data.judge_stage import Progress
from bottega.data.records import best_of
from bottega.data.settings import JudgeStage
from bottega.data.store import JudgedStore
from bottega.data.stored_verdicts import judge_setup_of
from bottega.data.task_columns import load_task_records
from bottega.data.teacher_pool import SandboxTeacherPool, TeacherSpec
from bottega.data.trust import trusted_setup_of
from bottega.judge.baselines import parse_baselines
from bottega.judge.trusted.judge import TIMEOUT_SECONDS

BUILDER = "bottega.compiler.step_compiler:StepCompiler"


def main(
    tasks: Annotated[list[str], typer.Argument(help="Tasks, as `bottega data build` takes them.")],
    device: Device = "cpu",
    workers: Annotated[int, typer.Option(min=1, help="Verdicts at a time.")] = 2,
    teachers: Annotated[int, typer.Option(min=1, help="Processes that teach.")] = 2,
    languages: Annotated[str, typer.Option(help="With commas; cpp on a CPU, triton on a GPU.")] = "",
    baseline: Annotated[str, typer.Option(help="eager, compile, autotune, best, or several by comma.")] = "eager",
    mistakes: Annotated[int, typer.Option(help="Wrong variants of a chosen kernel.")] = 3,
    limit: Annotated[int, typer.Option(help="At most this many tasks; 0 for all.")] = 0,
    seconds: Annotated[float, typer.Option(help="Stop after this long; 0 never.")] = 0.0,
    trust_teacher: Annotated[bool, typer.Option("--trust-teacher", help="The bench that trusts the builder.")] = False,
    audit: Annotated[
        float, typer.Option(help="Share of its verdicts that the judge gives again, after the clock has stopped.")
    ] = 0.02,
    steps: Annotated[str, typer.Option(help="Kernels of a course that are judged: all, ends, or a number.")] = "all",
    out: Annotated[
        Path | None, typer.Option(help="Keep the material here; it must be new for the rate to mean anything.")
    ] = None,
    raw: Annotated[Path | None, typer.Option("--json", help="Keep the figures in this file.")] = None,
) -> None:
    chosen = tuple(word.strip() for word in languages.split(",") if word.strip()) or (
        ("cpp",) if device == "cpu" else ("triton",)
    )
    stage = JudgeStage(
        device=device,
        languages=chosen,  # type: ignore[arg-type]
        workers=workers,
        teachers=teachers,
        baselines=parse_baselines(baseline),
        mistakes=mistakes,
        proofs=0,
        steps=steps,
        trusted=trust_teacher,
        seconds=seconds if trust_teacher else 0.0,
        audit=audit,
        timeout=TIMEOUT_SECONDS if trust_teacher else 60.0,
    )
    task_records, problems = load_task_records(tasks, device)
    task_records = task_records[: limit or len(task_records)]
    with tempfile.TemporaryDirectory(prefix="bottega-pairs-") as scratch:
        folder = out or Path(scratch)
        progress = Progress()
        took, ended = _timed(folder, task_records, stage, progress, seconds)
        rows, summary = _families(folder, stage, _main_families(tasks))
    pairs, took = progress.judged, progress.judging_s if trust_teacher else took
    summary |= {"pairs": pairs, "seconds": round(took, 1), "pairs_per_minute": round(60 * pairs / took, 1), "ended": ended}
    summary |= {
        "tasks": progress.tasks_done,
        "courses": progress.builds,
        "refused": progress.refused,
        "failed": progress.failed,
    }
    summary |= {
        "outcomes": dict(progress.outcomes),
        "device": where(device),
        "refusals": dict(progress.refusals.most_common(15)),
        "left": progress.left,
        "spent_s": dict(progress.spent),
        "replaced": dict(progress.replaced),
        "audit": progress.audit,
        "faults": progress.faults,
        "troubles": progress.troubles,
    }
    remarks = [
        where(device),
        f"{pairs} pairs in {took:.0f} s, {60 * pairs / took:.1f} a minute, {workers} judging and {teachers} teaching ({ended}): "
        + ", ".join(f"{count} {name}" for name, count in progress.outcomes.most_common()),
        f"{progress.builds} courses on {progress.tasks_done} tasks; {progress.refused} refused, {progress.failed} failed, "
        f"{len(problems)} tasks not loaded",
        *trusted_words(progress),
        *(f"own fault: {fault}" for fault in progress.faults[:3]),
    ]
    columns = (
        "family",
        "tasks",
        "kernels right",
        "faster than eager",
        "tasks with a faster one",
        "median best / eager",
        "/ compile",
    )
    show(f"kernels of the builder, {', '.join(chosen)} on {device}", columns, rows, remarks)
    if raw is not None:
        raw.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def _timed(folder: Path, task_records: Any, stage: JudgeStage, progress: Progress, seconds: float) -> tuple[float, str]:
    def teacher_pool(_: Any) -> SandboxTeacherPool:
        return SandboxTeacherPool(TeacherSpec(BUILDER), stage.teachers, stage.teacher_timeout)

    def say() -> None:
        if progress.judged % 20 == 0:
            print(
                f"[{time.monotonic() - begun:.0f} s] {progress.judged} pairs, {progress.tasks_done} tasks",
                file=sys.stderr,
                flush=True,
            )

    async def run() -> str:
        work = judge_stage(
            folder, task_records, teacher_pool, stage, {"command": " ".join(sys.argv), "tasks": []}, progress=progress
        )
        try:
            await asyncio.wait_for(work, None if stage.trusted else seconds or None)
        except TimeoutError:
            return "the time was up"
        return f"the time was up, {progress.left} tasks left" if progress.time_up else "all tasks done"

    begun = time.monotonic()
    progress.changed = say
    try:
        ended = asyncio.run(run())
    except KeyboardInterrupt:
        ended = "interrupted"
    return time.monotonic() - begun, ended


def _main_families(references: list[str]) -> dict[str, str]:
    """By a task's code, the family that its time goes into, where a table says so: most tasks have operators of several."""
    tables = [table for reference in references for table in sorted([Path(reference), *Path(reference).glob("*.jsonl")])]
    rows = [json.loads(line) for table in tables if table.suffix == ".jsonl" for line in table.read_text("utf-8").splitlines()]
    return {row["code"]: row["family"] for row in rows if row.get("code") and row.get("family")}


def _families(folder: Path, stage: JudgeStage, main: dict[str, str]) -> tuple[list[list[str]], dict[str, Any]]:
    """By the main family of a task, else its first, and by level: how many kernels are right and faster, and the median of the best ones."""
    right, faster, tasks, won = (Counter[str]() for _ in range(4))
    best: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with JudgedStore(folder, create=False, write=False) as store:
        for judged_task in store.judged_tasks(trusted_setup_of(stage) if stage.trusted else judge_setup_of(stage)):
            attempts = [attempt for build in judged_task.builds for attempt in build]
            if not attempts:
                continue
            task = judged_task.task_record.task
            levels = [f"level {task.level}"] if task.level else []
            names = (main.get(task.source, judged_task.task_record.family), *levels, "all")
            top = best_of(attempts, "eager")
            for name in names:
                tasks[name] += 1
                right[name] += sum(attempt.accepted for attempt in attempts)
                faster[name] += sum(attempt.faster for attempt in attempts)
                won[name] += any(attempt.faster for attempt in attempts)
                for against, speedup in (top.verdict.speedup if top is not None else {}).items():
                    best[name][against].append(speedup.point)
    found = sorted(tasks, key=lambda name: (name == "all", name.startswith("level "), -tasks[name], name))
    medians = {name: {against: round(percentile(values, 0.5), 3) for against, values in best[name].items()} for name in found}
    rows = [
        [
            name,
            str(tasks[name]),
            str(right[name]),
            f"{faster[name] / right[name]:.0%}" if right[name] else "",
            f"{won[name] / tasks[name]:.0%}",
            *(f"{medians[name][against]:.2f}×" if against in medians[name] else "" for against in ("eager", "compile")),
        ]
        for name in found
    ]
    counts = {name: {"tasks": tasks[name], "right": right[name], "faster": faster[name], "won": won[name]} for name in found}
    return rows, {"families": counts, "median_best": medians}


if __name__ == "__main__":
    launch(main)
