"""How long the dashboard takes for large runs: the first look, which reads the log, a look after one more attempt, and one after nothing.

Attempts are made up, each with a verdict of the size that real ones have (about 2 KB; `--kilobytes` makes them larger). Pages are asked for over
HTTP from a server in a process of its own, so the times are what a browser waits for. Options --attempts can be given several times.

    PYTHONPATH=src python3 benchmarks/dashboard.py --attempts 10000 --attempts 100000
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

OUTCOMES = ("faster", "faster", "same", "slower", "ambiguous", "incorrect", "compile_error", "runtime_error", "rejected")
VIEWS = {
    "overview": "",
    "filtered": "?outcome=rejected&level=2",
    "last page of tasks": "?page=99999",
    "one task": "?view=task&task=id7",
    "one attempt": "?view=attempt&line=4321",
}
REPEATS = 9


def attempt(number: int, tasks: int, kilobytes: float) -> dict[str, object]:
    outcome = OUTCOMES[number % len(OUTCOMES)]
    point = 0.5 + (number * 7919 % 1000) / 250
    span = {"point": point, "low": point * 0.9, "high": point * 1.1}
    right = outcome in ("faster", "same", "slower", "ambiguous")
    verdict = {
        "outcome": outcome, "correct": right, "speedup": {"eager": span, "compile": span} if right else {},
        "times_ms": {"candidate": 1 / point, "eager": 1.0, "floor": 0.1}, "diagnosis": "x" * int(1024 * (kilobytes - 0.9)),
        "coverage": {"share": 0.9, "method": "samples", "own": ["k"], "hottest": [["k", 0.9], ["libc", 0.1]]}, "violations": [], "notes": [],
        "fingerprint": {"judge": "8", "device": "cpu"}, "baseline": "eager", "task_id": "", "candidate_id": "",
    }  # fmt: skip
    return {
        "task": f"id{number % tasks}", "sample": number // tasks, "turn": 0, "verdict": verdict, "candidate": f"{number:016x}", "language": "cpp",
        "prompt_tokens": 900, "output_tokens": 700, "money": 0.0, "seconds": 1.5, "skills": [], "junk": "", "redrawn": 0, "repairs": [],
    }  # fmt: skip


def make(folder: Path, attempts: int, tasks: int, kilobytes: float) -> int:
    """The run's folder; how many bytes its log has."""
    folder.mkdir(parents=True)
    settings = {"samples": attempts // tasks, "turns": 1, "baselines": ["eager", "compile"], "name": "made up"}
    (folder / "bench.json").write_text(
        json.dumps({"schema": 1, "kind": "bench", "settings": settings, "fingerprint": {}, "hashes": {}})
    )
    rows = (
        {"id": f"id{n}", "name": f"task_{n}", "level": 1 + n % 3, "family": f"family{n % 9}", "source": ""}
        for n in range(tasks)
    )
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with open(folder / "attempts.jsonl", "w") as file:
        for number in range(attempts):
            file.write(json.dumps(attempt(number, tasks, kilobytes)) + "\n")
    return (folder / "attempts.jsonl").stat().st_size


def busy(process: int) -> float:
    """Seconds of a core that a process has used: on a machine with other work they tell more than the clock."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def fetched(address: str, tag: str = "") -> tuple[float, int, str]:
    """Seconds, bytes and the page's tag."""
    begun = time.perf_counter()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers={"If-None-Match": tag} if tag else {})) as answer:
            size, found = len(answer.read()), answer.headers["ETag"]
    except urllib.error.HTTPError as error:
        if error.code != 304:
            raise
        size, found = 0, tag
    return time.perf_counter() - begun, size, found


def measure(folder: Path, attempts: int, tasks: int, kilobytes: float) -> list[tuple[str, float, float, int]]:
    words = [sys.executable, "-m", "bottega.app.cli", "dashboard", str(folder.parent), "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        base = re.search(r"http://[^/]+", server.stdout.readline())
        assert base is not None
        run = f"{base[0]}/run/{folder.parent.name}/{folder.name}"
        fetched(f"{base[0]}/static/dashboard.css")
        found: list[tuple[str, float, float, int]] = []

        def told(name: str, address: str, tag: str = "", repeats: int = REPEATS, grow: bool = False) -> str:
            used, times = busy(server.pid), []
            for number in range(repeats):
                if grow:
                    with open(folder / "attempts.jsonl", "a") as file:
                        file.write(json.dumps(attempt(attempts + number, tasks, kilobytes)) + "\n")
                times.append(fetched(address, tag))
            cores = (busy(server.pid) - used) / repeats
            found.append((name, statistics.median(each[0] for each in times), cores, times[-1][1]))
            return times[-1][2]

        tag = told("the first look: overview", run, repeats=1)
        for name, query in VIEWS.items():
            told(f"again: {name}", f"{run}{query}")
        told("live, nothing new", run, tag)
        told("live, one more attempt: overview", run, tag, grow=True)
        told("list of runs", f"{base[0]}/")
        return found
    finally:
        server.terminate()
        server.wait(10)


def main(
    attempts: Annotated[list[int], typer.Option(help="Attempts of a run.")] = [10_000],  # noqa: B006
    tasks: Annotated[int, typer.Option(help="Tasks of a run.")] = 250,
    kilobytes: Annotated[float, typer.Option(help="Of one attempt in the log.")] = 2.0,
) -> None:
    """Prints a table in Markdown."""
    print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, Python {platform.python_version()}, {tasks} tasks\n")
    print("| attempts | log | what | seconds | of a core | KB sent |\n|---:|---:|---|---:|---:|---:|")
    for count in attempts:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "runs" / "made"
            size = make(folder, count, tasks, kilobytes)
            for name, seconds, cores, sent in measure(folder, count, tasks, kilobytes):
                print(
                    f"| {count:,} | {size / 1e6:.0f} MB | {name} | {seconds:.3f} | {cores:.3f} | {sent / 1000:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    typer.run(main)
