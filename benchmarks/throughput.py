"""How long a verdict takes, stage by stage, and how many there are in a minute, by language.

Every candidate has a text of its own and is built anew. Tasks are brought up before the clock starts, once for every
worker, as in training, where many candidates are judged on each; what that costs is told beside it.

    PYTHONPATH=src python3 benchmarks/throughput.py --device cuda --workers 6 --candidates 60
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Annotated, Any

import typer
from figure import Device, Job, Quick, Raw, Run, Workers, judge_all, keep, launch, percentile, show, where
from pairs import KERNEL_TASKS, LANGUAGES, builtin, kernel

from bottega.core.verdict import Verdict
from bottega.judge.judge import Judge

STAGES = ("spawn", "build", "trials", "waiting", "timing", "coverage")
REST = "rest"
"""Getting a fresh process where none stood ready, ending it, and passing messages: the total less the stages."""


def main(
    device: Device = "cpu",
    workers: Workers = 1,
    candidates: Annotated[int, typer.Option(min=1, help="Candidates for each language, spread over the tasks.")] = 24,
    languages: Annotated[
        str, typer.Option(help="Separated by commas; cpp on a CPU, triton and cuda on a GPU if left out.")
    ] = "",
    quick: Quick = True,
    raw: Raw = None,
) -> None:
    chosen = [name.strip() for name in languages.split(",") if name.strip()] or LANGUAGES[device.partition(":")[0]]
    tasks = [builtin(name, device) for name in KERNEL_TASKS]
    whole, summary, rows, remarks = Run(), {}, [], [where(device)]
    with Judge(device, workers=workers, quick=quick) as judge:
        begun = time.monotonic()
        for language in chosen:
            run, warming = Run(), 0.0
            for place, task in enumerate(tasks):
                share = range(place, candidates, len(tasks))
                jobs = [Job(f"{language} {task.name}", task, kernel(task.name, language, 1 + number)) for number in share]
                extra = [
                    Job(f"{language} {task.name} warm-up", task, kernel(task.name, language, -1 - n)) for n in range(workers)
                ]
                before = Run()
                if jobs and not run.interrupted:
                    print(f"bringing up {task.name} for {workers} workers", file=sys.stderr)
                    judge_all(judge, extra, before)
                    warming += before.seconds
                    run.interrupted |= before.interrupted
                if jobs and not run.interrupted:
                    judge_all(judge, jobs, run)
            found = summarise([done.verdict for done in run.done if done.verdict], run.seconds)
            found |= {"outcomes": dict(Counter(done.word for done in run.done)), "warming_s": round(warming, 2)}
            summary[language] = found
            rows += _rows(language, found)
            outcomes = ", ".join(f"{count} {word}" for word, count in found["outcomes"].items())
            remarks.append(
                f"{language}: {found['per_minute']:.1f} verdicts a minute ({found['verdicts']} in {run.seconds:.1f} s: {outcomes}); "
                f"bringing the tasks up took {warming:.1f} s more, with {workers} verdicts for each"
            )
            whole.done += run.done
            whole.interrupted |= run.interrupted
            if run.interrupted:
                break
        whole.seconds = time.monotonic() - begun
    title = f"latency of a verdict in seconds, {'quick' if quick else 'full'}, {workers} at a time, on {device}"
    names = [name for name in STAGES if any(name in found["stages"] for found in summary.values())]
    columns = ("language", "", *names, REST, "total")
    show(
        title, columns, [[row[0], row[1], *(row[2].get(name, "") for name in (*names, REST, "total"))] for row in rows], remarks
    )
    keep(raw, "throughput", device, whole, summary, quick=quick, workers=workers, candidates=candidates)


def summarise(verdicts: list[Verdict], seconds: float) -> dict[str, Any]:
    stages: dict[str, list[float]] = {}
    for verdict in verdicts:
        known = {name: verdict.stages_s[name] for name in STAGES if name in verdict.stages_s}
        total = verdict.stages_s["total"]
        for name, value in {**known, REST: total - sum(known.values()), "total": total}.items():
            stages.setdefault(name, []).append(value)
    return {
        "verdicts": len(verdicts),
        "per_minute": 60 * len(verdicts) / seconds if seconds else 0.0,
        "stages": {name: {"p50": percentile(values, 0.5), "p95": percentile(values, 0.95)} for name, values in stages.items()},
    }


def _rows(language: str, found: dict[str, Any]) -> list[tuple[str, str, dict[str, str]]]:
    return [
        (language if share == "p50" else "", share, {name: f"{values[share]:.3f}" for name, values in found["stages"].items()})
        for share in ("p50", "p95")
    ]


if __name__ == "__main__":
    launch(main)
