"""Call graphs of all tasks of a folder, kept beside the judged kernels: each is recorded once, whatever is made of the data later."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bottega.compiler.callgraph import CallGraph, Malformed, from_json
from bottega.compiler.callgraph_tracer import CallGraphTracer, Traced
from bottega.core.errors import BottegaError
from bottega.core.task import Task

FILE = "callgraphs.jsonl"

Tell = Callable[[int, int], None]
"""How many are recorded, of how many."""


def callgraphs_of(folder: Path, tasks: Iterable[Task], tell: Tell = lambda done, of: None) -> dict[str, CallGraph | None]:
    """By task id; None for a task that has none. It is not tried again, unless no sandbox could be had."""
    place = folder / FILE
    known = _read(place)
    missing = {task.id: task for task in tasks if task.id not in known}
    if missing:
        try:
            with place.open("a") as file:
                file.write("\n")  # after a line without an end
                for done, (name, traced) in enumerate(_traced(missing), 1):
                    if traced.settled:
                        known[name] = traced.graph
                        graph = None if traced.graph is None else traced.graph.to_json()
                        file.write(json.dumps({"task": name, "graph": graph}) + "\n")
                    tell(done, len(missing))
        except OSError as error:
            raise BottegaError(f"{place}: cannot be written: {error.strerror}; the judged kernels are safe") from None
    return known


def _traced(tasks: Mapping[str, Task]) -> Iterator[tuple[str, Traced]]:
    """In the order of the tasks, traced side by side. Whoever stops listening need not wait for the rest."""
    with CallGraphTracer() as tracer, ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        try:
            yield from zip(tasks, threads.map(tracer.traced, tasks.values()))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _read(place: Path) -> dict[str, CallGraph | None]:
    """A line that a killed run left unfinished is recorded again."""
    found: dict[str, CallGraph | None] = {}
    for line in place.read_text().splitlines() if place.exists() else ():
        try:
            row = json.loads(line)
            found[str(row["task"])] = None if row["graph"] is None else from_json(row["graph"])
        except (ValueError, KeyError, TypeError, Malformed):
            continue
    return found
