"""Tasks synthesised a minute: sketches written (nothing is run), and sketches examined and accepted by the judge.

PYTHONPATH=src python3 benchmarks/task_synthesis.py --device cpu --workers 2 --count 60
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from figure import Device, Raw, Workers, launch, percentile, show, where

from bottega.data.task_examiner import JudgeExaminer
from bottega.judge.judge import Judge
from bottega.tasks.load import load_tasks
from bottega.tasks.synth import Benchmark, SynthPlan, run, synthesise


def main(
    device: Device = "cpu",
    workers: Workers = 1,
    sketches: Annotated[int, typer.Option(min=1, help="Sketches that are only written.")] = 500,
    count: Annotated[int, typer.Option(min=0, help="Accepted tasks that are wanted of the judge; 0 asks no judge.")] = 60,
    longest: Annotated[
        float, typer.Option("--longest-ms", help="Most eager time; on a busy machine the device's own is too strict.")
    ] = 0.0,
    seed: int = 1,
    raw: Raw = None,
) -> None:
    begun, processor = time.monotonic(), time.process_time()
    made = [synthesise(seed, index, device) for index in range(sketches)]
    wall, processor = time.monotonic() - begun, time.process_time() - processor
    suite = Benchmark(load_tasks(["builtin"]).tasks)
    begun = time.process_time()
    for sketch in made:
        suite.nearest(sketch.task.source)
    compared = time.process_time() - begun
    rows = [
        ("written", f"{sketches}", f"{60 * sketches / wall:.0f}", f"{60 * sketches / processor:.0f}"),
        ("compared with the suite", f"{sketches}", "", f"{60 * sketches / max(compared, 1e-9):.0f}"),
    ]
    remarks = [
        where(device),
        f"operators in {sketches} sketches: {len({name for sketch in made for name in sketch.operators})}",
    ]
    remarks.append(f"levels {dict(sorted(Counter(sketch.level for sketch in made).items()))}")
    summary = {}
    if count:
        with tempfile.TemporaryDirectory() as folder, Judge(device, workers=workers, quick=True) as judge:
            plan = SynthPlan(count, seed, device, longest_ms=longest).checked()
            found = run(plan, Path(folder), JudgeExaminer(judge, False), workers=workers)
            log = [json.loads(line) for line in (Path(folder) / "examined.log").read_text().splitlines()[1:]]
        summary = found.to_json()
        minutes = found.seconds / 60
        rows.append((f"examined, {workers} at a time", f"{found.looked_at}", f"{found.looked_at / minutes:.1f}", ""))
        rows.append(("accepted", f"{found.accepted}", f"{found.accepted / minutes:.1f}", ""))
        guesses = [
            record["eager_ms"] / made[record["index"]].estimate_ms
            for record in log
            if record["eager_ms"] and record["index"] < sketches
        ]
        remarks.append(f"accepted {found.accepted / found.looked_at:.0%}; {found.dropped}")
        remarks.append(
            f"measured over guessed time: median {percentile(guesses, 0.5):.2f}, "
            f"p10 {percentile(guesses, 0.1):.2f}, p90 {percentile(guesses, 0.9):.2f}"
        )
    show(f"tasks for {device}", ("", "tasks", "a minute", "a minute of one core"), rows, remarks)
    if raw is not None:
        raw.write_text(
            json.dumps({"figure": "task_synthesis", "rows": rows, "remarks": remarks, "summary": summary}, indent=1) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    launch(main)
