"""What the figures share: options, a pool of verdicts that can be interrupted, percentiles, rows and tables."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.fingerprint import fingerprint
from bottega.judge.judge import Judge

T = TypeVar("T")
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")]
Workers = Annotated[int, typer.Option(min=1, help="Verdicts at a time; timing itself is always exclusive.")]
Quick = Annotated[bool, typer.Option("--quick/--full", help="The judge's quick mode (training), or a full verdict.")]


@dataclass(frozen=True)
class Job:
    group: str
    """The row of the table that it counts for."""
    task: Task
    candidate: Candidate
    truth: float | None = None
    """The speedup that it has by construction."""


@dataclass(frozen=True)
class Done:
    job: Job
    verdict: Verdict | None
    failure: str = ""
    """What the judge raised, when there is no verdict."""

    @property
    def word(self) -> str:
        return self.verdict.outcome.value if self.verdict else "no verdict"


@dataclass
class Run:
    done: list[Done] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False


def judge_all(judge: Judge, jobs: Sequence[Job], run: Run) -> Run:
    """Judge the jobs in their order, `judge.workers` at a time, adding to `run`. Ctrl-C keeps what is there."""
    begun = time.monotonic()
    pool = ThreadPoolExecutor(judge.workers)
    pending: dict[Future[Verdict], Job] = {pool.submit(judge.judge, job.task, job.candidate): job for job in jobs}
    count = len(pending)
    try:
        while pending:
            finished, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                run.done.append(_done(pending.pop(future), future))
                progress(count - len(pending), count, run.done[-1], time.monotonic() - begun)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one must not lose the table; ending the processes is bounded
        run.interrupted = True
        print("\ninterrupted: what follows is what there was", file=sys.stderr)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        run.seconds += time.monotonic() - begun
    return run


def _done(job: Job, future: Future[Verdict]) -> Done:
    try:
        return Done(job, future.result())
    except BottegaError as error:
        return Done(job, None, str(error))


def progress(number: int, count: int, done: Done, seconds: float) -> None:
    speedup = next(iter(done.verdict.speedup.values()), None) if done.verdict else None
    told = f" {speedup.point:.3f} ({speedup.low:.3f} to {speedup.high:.3f})" if speedup else ""
    told += f": {done.failure}" if done.failure else ""
    if done.verdict and not done.verdict.outcome.accepted:
        told += f": {done.verdict.diagnosis.splitlines()[0][:160] if done.verdict.diagnosis else ''}"
    print(f"[{number}/{count} {seconds:.0f} s] {done.job.group}: {done.word}{told}", file=sys.stderr, flush=True)


def percentile(values: Iterable[float], share: float) -> float:
    """Between neighbours by proportion; NaN for nothing."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def upper_bound(hits: int, count: int) -> float:
    """Wilson's: a share below which the true one lies with 95 % confidence."""
    if count == 0:
        return 1.0
    z, share = 1.645, hits / count
    centre = share + z * z / (2 * count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return min(1.0, (centre + reach) / (1 + z * z / count))


def spread(found: Sequence[T], count: int) -> list[T]:
    """So many at even distances; 0 for all."""
    count = min(count or len(found), len(found))
    return [found[place * len(found) // count] for place in range(count)]


def rows_in(path: Path) -> list[dict[str, Any]]:
    """Of a file of JSON lines; none where there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def write_rows(path: Path, made: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], remarks: Sequence[str] = ()) -> None:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.width = max(console.width, 160)
    console.print(table)
    for remark in remarks:
        console.print(remark, markup=False, highlight=False)


def where(device: str) -> str:
    found = fingerprint(device)
    machine = found.get("gpu") or found["cpu"]
    return f"{machine}, {found['cores']} cores, torch {found['torch']}, {datetime.now(UTC):%Y-%m-%d}"


def launch(command: Any) -> None:
    """Run a figure's command; `--help` begins with its module's own words, and what Bottega raises on purpose is one line."""
    command.__doc__ = command.__doc__ or sys.modules["__main__"].__doc__
    try:
        typer.run(command)
    except BottegaError as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
