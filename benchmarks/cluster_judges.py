"""Judges on Ray on one CPU machine: what Ray adds to a verdict, and how a bench goes with 1, 2 and 4 workers.

    PYTHONPATH=src python3 benchmarks/cluster_judges.py --repeats 20 --workers 1,2,4

Overhead is measured side by side: the same candidate is judged in this process and through Ray, in turns. A candidate that is refused before
anything runs shows Ray's part alone; of one that is judged in full, what lies between asking and answering beside the judge's own seconds.
A kernel that is timed has the machine to itself, so more workers than cores gain only where kernels are compiled and checked meanwhile.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bottega.bench.session import run_session
from bottega.bench.settings import BenchSettings
from bottega.cluster.address import OBJECT_STORE_BYTES
from bottega.cluster.judges import ClusterDevices
from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.judge.device_host import LOCAL, DeviceHost, DeviceJudge

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests" / name) for name in ("", "bench")]

from small_bench import CPP, cpp_text, task_folder  # noqa: E402

REFUSED = Candidate("", "cpp")


def main(
    repeats: Annotated[int, typer.Option(help="Verdicts of each kind, here and through Ray.")] = 20,
    workers: Annotated[str, typer.Option(help="How many Ray workers a bench has, by comma.")] = "1,2,4",
    kernels: Annotated[int, typer.Option(help="Kernels of each of the bench's three tasks.")] = 8,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tasks = task_folder(place)
        with started(1) as host, host.judge("cpu", quick=True) as there, LOCAL.judge("cpu", workers=1, quick=True) as here:
            task = Task((tasks / "level1/1_Relu.py").read_text(), "1_Relu")
            right = Candidate(cpp_text(CPP["1_Relu"]), "cpp")
            print(
                "| candidate | in this process, ms | through Ray, ms | Ray adds, ms (median) | at most |\n|---|---|---|---|---|"
            )
            for name, candidate, count in (("refused at once", REFUSED, 10 * repeats), ("judged in full", right, repeats)):
                print(overhead(name, here, there, task, candidate, count), flush=True)
        print("\n| workers | seconds | verdicts a minute |\n|---|---|---|")
        write_kernels(place / "theirs", kernels)
        print(bench("no Ray", LOCAL, place, tasks), flush=True)
        for number in workers.split(","):
            with started(int(number)) as host:
                print(bench(number, host, place, tasks), flush=True)


def overhead(name: str, here: DeviceJudge, there: DeviceJudge, task: Task, candidate: Candidate, count: int) -> str:
    """The judge's own seconds are taken off where it has any: two verdicts differ by more than Ray takes."""
    for judge in (here, there):
        judge.judge(task, candidate)
    walls: dict[DeviceJudge, list[float]] = {here: [], there: []}
    beside: dict[DeviceJudge, list[float]] = {here: [], there: []}
    for number in range(count):
        for judge in (here, there) if number % 2 else (there, here):
            begun = time.perf_counter()
            verdict = judge.judge(task, candidate)
            walls[judge].append(1e3 * (time.perf_counter() - begun))
            beside[judge].append(walls[judge][-1] - 1e3 * verdict.stages_s["total"])
    middle = {judge: statistics.median(found) for judge, found in walls.items()}
    adds = statistics.median(beside[there]) - statistics.median(beside[here])
    return f"| {name} | {middle[here]:.1f} | {middle[there]:.1f} | {adds:.1f} | {max(beside[there]):.1f} |"


def bench(name: str, host: DeviceHost, place: Path, tasks: Path) -> str:
    settings = BenchSettings(candidates=place / "theirs", quick=True, workers=1)
    begun = time.perf_counter()
    work = run_session(settings, [str(tasks)], place / f"run-{name}", ("cpu",), _no_model, lambda line: None, host=host)
    finished = asyncio.run(work)
    seconds = time.perf_counter() - begun
    assert finished.whole, finished.ended
    return f"| {name} | {seconds:.0f} | {60 * len(finished.run.attempts) / seconds:.1f} |"


def write_kernels(folder: Path, count: int) -> None:
    """Half of them right, the others wrong or broken, each with a text of its own."""
    folder.mkdir()
    for name, expression in CPP.items():
        for number in range(count):
            text = (expression, "0", expression, "no C++")[number % 4]
            (folder / f"{name}.{number}.py").write_text(cpp_text(f"{text} /* {number} */"))


@contextmanager
def started(workers: int) -> Iterator[ClusterDevices]:
    """In a Ray of this machine with so many judges, whatever its cores."""
    import ray

    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=workers, object_store_memory=OBJECT_STORE_BYTES, **options)
    try:
        with ClusterDevices("auto?cores=1") as host:
            yield host
    finally:
        ray.shutdown()


def _no_model(spent: Any) -> Any:
    raise AssertionError("no kernel is written")


if __name__ == "__main__":
    typer.run(main)
