"""How long a verdict takes, stage by stage, and how many there are in a minute, by language.

It is as in training: so many tasks, each new to the judge, a few candidates for each, and bringing tasks up counts. Every candidate has a text of
its own and is built anew.

    PYTHONPATH=src python3 benchmarks/throughput.py --device cuda --workers 12 --tasks 100 --each 4

The table says where the time goes: by stage the median and the 95th percentile of a verdict's seconds, and the stage's share of all
of them. Small tasks (`--size cpu` on a GPU) show the judge's own cost; the aim there, on one H200 with 16 cores, is 150 verdicts
a minute.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Annotated, Any

import typer
from figure import Device, Done, Job, Quick, Run, Workers, launch, percentile, show, where
from pairs import KERNEL_TASKS, LANGUAGES, builtin, kernel

from bottega.core.verdict import Verdict
from bottega.judge.judge import Judge

STAGES = ("opening", "build", "trials", "waiting", "timing", "coverage")
ALONE = ("timing",)
"""Stages in which a verdict has a GPU to itself."""
AIM = 150
"""Verdicts a minute with small tasks on one H200 with 16 cores."""
REST = "rest"
"""Getting a fresh process where none stood ready, ending it, and passing messages: the total less the stages."""


def main(
    device: Device = "cpu",
    workers: Workers = 1,
    languages: Annotated[
        str, typer.Option(help="Separated by commas; cpp on a CPU, triton and cuda on a GPU if left out.")
    ] = "",
    tasks: Annotated[int, typer.Option(min=1, help="So many for each language, brought up as they come.")] = 24,
    each: Annotated[int, typer.Option(min=1, help="Candidates for each task.")] = 4,
    size: Annotated[str, typer.Option(help="Shapes of the tasks: cpu (small) or gpu; the device's if left out.")] = "",
    seconds: Annotated[float, typer.Option(min=1, help="Begin no further verdict after so long, for each language.")] = 480.0,
    quick: Quick = True,
) -> None:
    size = size or device.partition(":")[0].replace("cuda", "gpu")
    chosen = [name.strip() for name in languages.split(",") if name.strip()] or LANGUAGES[device.partition(":")[0]]
    summary, rows, remarks = {}, [], [where(device)]
    with Judge(device, workers=workers, quick=quick) as judge:
        for language in chosen:
            run, late = as_in_training(judge, language, size, tasks, each, seconds)
            found = summarise([done.verdict for done in run.done if done.verdict], run.seconds)
            found["outcomes"] = dict(Counter(done.word for done in run.done))
            summary[language] = found
            rows += _rows(language, found)
            outcomes = ", ".join(f"{count} {word}" for word, count in found["outcomes"].items())
            up = f"bringing tasks up is part of it, starting the judge too; in the second half of the time {late:.1f} a minute"
            remarks.append(
                f"{language}: {found['per_minute']:.1f} verdicts a minute ({found['verdicts']} in {run.seconds:.1f} s: {outcomes}); "
                f"{up}; for {found['alone']:.0%} of the time a verdict had the device to itself; the aim with small tasks is {AIM} a minute"
            )
            if run.interrupted:
                break
    title = f"latency of a verdict in seconds, {'quick' if quick else 'full'}, {workers} at a time, on {device}"
    there = dict.fromkeys(name for found in summary.values() for name in found["stages"] if name not in (REST, "total"))
    names = [name for name in STAGES if name in there] + [name for name in there if name not in STAGES]
    columns = ("language", "", *names, REST, "total")
    show(
        title, columns, [[row[0], row[1], *(row[2].get(name, "") for name in (*names, REST, "total"))] for row in rows], remarks
    )


def as_in_training(judge: Judge, language: str, size: str, tasks: int, each: int, seconds: float) -> tuple[Run, float]:
    """`tasks` tasks that the judge has not seen, `each` candidates for each, as many tasks at a time as there are workers.

    Also how many verdicts a minute there were in the second half of the time, when everything has started.
    """
    run, begun = Run(), time.monotonic()
    ended: list[float] = []

    def judge_one(number: int) -> None:
        name = KERNEL_TASKS[number % len(KERNEL_TASKS)]
        task = builtin(name, size)
        task = replace(task, source=f"{task.source}\n\nNUMBER = {number}  # of {language}\n")
        for place in range(each):
            if time.monotonic() - begun > seconds:
                return
            job = Job(f"{language} {name}", task, kernel(name, language, 1 + each * number + place))
            run.done.append(Done(job, judge.judge(task, job.candidate)))
            ended.append(time.monotonic() - begun)

    pool = ThreadPoolExecutor(judge.workers)
    pending = {pool.submit(judge_one, number) for number in range(tasks)}
    try:
        while pending:
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                future.result()
            print(f"[{len(run.done)}/{tasks * each} {time.monotonic() - begun:.1f} s]", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one must not lose the table
        run.interrupted = True
    finally:
        run.seconds = time.monotonic() - begun
        run.done = list(run.done)  # what comes later does not count
        pool.shutdown(wait=False, cancel_futures=True)
    late = sum(run.seconds / 2 < moment <= run.seconds for moment in ended)
    return run, 120 * late / run.seconds


def summarise(verdicts: list[Verdict], seconds: float) -> dict[str, Any]:
    stages: dict[str, list[float]] = {}
    for verdict in verdicts:
        known = {name: value for name, value in verdict.stages_s.items() if name != "total"}
        total = verdict.stages_s["total"]
        for name, value in {**known, REST: total - sum(known.values()), "total": total}.items():
            stages.setdefault(name, []).append(value)
    whole = sum(stages.get("total", [])) or 1.0
    alone = sum(verdict.stages_s.get(name, 0.0) for verdict in verdicts for name in ALONE)
    return {
        "verdicts": len(verdicts),
        "alone": alone / seconds if seconds else 0.0,
        "per_minute": 60 * len(verdicts) / seconds if seconds else 0.0,
        "stages": {
            name: {"p50": percentile(values, 0.5), "p95": percentile(values, 0.95), "share": sum(values) / whole}
            for name, values in stages.items()
        },
    }


def _rows(language: str, found: dict[str, Any]) -> list[tuple[str, str, dict[str, str]]]:
    return [
        (language if row == "p50" else "", row, {name: f"{values[row]:{form}}" for name, values in found["stages"].items()})
        for row, form in (("p50", ".3f"), ("p95", ".3f"), ("share", ".0%"))
    ]


if __name__ == "__main__":
    launch(main)
