"""Sketches of all tasks of a folder, kept beside the material: each is drawn once, whatever is made of the data later."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bottega.compiler.callgraph import HEAD
from bottega.compiler.callgraph_tracer import Sketcher
from bottega.core.errors import BottegaError
from bottega.core.task import Task

FILE = "sketches.jsonl"

Tell = Callable[[int, int], None]
"""How many are drawn, of how many."""


def sketches_of(folder: Path, tasks: Iterable[Task], tell: Tell = lambda done, of: None) -> dict[str, str]:
    """By task id. A task that cannot be sketched has an empty one, and is not tried again, unless no cell could be had."""
    place = folder / FILE
    known = _read(place)
    missing = {task.id: task for task in tasks if task.id not in known}
    if missing:
        try:
            with place.open("a") as file:
                file.write("\n")  # after a line without an end
                for done, (name, drawn) in enumerate(_drawn(missing), 1):
                    if drawn is not None:
                        known[name] = drawn
                        file.write(json.dumps({"task": name, "sketch": drawn}) + "\n")
                    tell(done, len(missing))
        except OSError as error:
            raise BottegaError(f"{place}: cannot be written: {error.strerror}; the material is safe") from None
    return known


def _drawn(tasks: Mapping[str, Task]) -> Iterator[tuple[str, str | None]]:
    """One after the other, drawn side by side. Whoever stops listening need not wait for the rest."""
    with Sketcher() as sketcher, ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        try:
            yield from zip(tasks, threads.map(sketcher.drawn, tasks.values()))
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _read(place: Path) -> dict[str, str]:
    """A line that a killed run left unfinished is drawn again, and so is a sketch of an older form: a model would not know it."""
    found: dict[str, str] = {}
    for line in place.read_text().splitlines() if place.exists() else ():
        try:
            row = json.loads(line)
            name, sketch = str(row["task"]), str(row["sketch"])
        except (ValueError, KeyError, TypeError):
            continue
        if not sketch or sketch.startswith(HEAD):
            found[name] = sketch
    return found
