"""Sketches of all tasks of a folder, kept beside the material: each is drawn once, whatever is made of the data later."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bottega.core.task import Task
from bottega.judge.sketcher import Sketcher

FILE = "sketches.jsonl"


def sketches_of(folder: Path, tasks: Iterable[Task]) -> dict[str, str]:
    """By task id. A task that cannot be sketched has an empty one, and is not tried again, unless no cell could be had."""
    place = folder / FILE
    known = _read(place)
    missing = {task.id: task for task in tasks if task.id not in known}
    if missing:
        with Sketcher() as sketcher, ThreadPoolExecutor(os.cpu_count() or 1) as threads, place.open("a") as file:
            file.write("\n")  # after a line without an end
            for name, drawn in zip(missing, threads.map(sketcher.drawn, missing.values())):
                if drawn is not None:
                    known[name] = drawn
                    file.write(json.dumps({"task": name, "sketch": drawn}) + "\n")
    return known


def _read(place: Path) -> dict[str, str]:
    """A line that a killed run left unfinished is drawn again."""
    found: dict[str, str] = {}
    for line in place.read_text().splitlines() if place.exists() else ():
        try:
            row = json.loads(line)
            found[str(row["task"])] = str(row["sketch"])
        except (ValueError, KeyError, TypeError):
            continue
    return found
