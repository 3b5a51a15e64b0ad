"""Which runs lie below the folders that the dashboard was given, and of which kind each is.

A folder is a run by the files in it. Links are not followed, what lies inside a run is no run of its own (its logs of steps and samples), and the
walk is bounded, so that a home folder can be given. A run's id is its path below the folder's parent; only ids that the walk found are ever opened.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bottega.service.dashboard.reading import read_object, text_at

DEEPEST = 6
MOST_FOLDERS = 20_000
FRESH_S = 2.0
"""So long a walk counts."""
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "checkpoints", "model"})
DATA, LIBRARY, LINEAGE = "judged.db", "library.db", "lineage.jsonl"


@dataclass(frozen=True)
class FoundRun:
    id: str
    folder: Path
    kind: str
    """`bench`, `rl`, `sft`, `data`, `library`, `lineage`; `log` where only its events tell."""


def kind_by_files(folder: Path, names: set[str]) -> str:
    """Empty where no run is."""
    if "bench.json" in names:
        return "bench"
    if "config.json" in names and "events.jsonl" in names:
        stage = text_at(read_object(folder / "config.json"), "stage", longest=20)
        return stage if stage in ("rl", "sft") else "log"
    if LINEAGE in names:
        return "lineage"
    if DATA in names:
        return "data"
    if LIBRARY in names:
        return "library"
    return "log" if "events.jsonl" in names else ""


class RunFinder:
    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(Path(os.path.abspath(folder)) for folder in folders)
        self._lock = threading.Lock()
        self._found: dict[str, FoundRun] = {}
        self._walked = -FRESH_S
        self.cut = False
        """Whether there were more folders than are walked."""

    def runs(self) -> dict[str, FoundRun]:
        """By id."""
        with self._lock:
            if time.monotonic() - self._walked >= FRESH_S:
                self._found, self._walked = self._walk(), time.monotonic()
            return self._found

    def _walk(self) -> dict[str, FoundRun]:
        found: dict[str, FoundRun] = {}
        self.cut, walked = False, 0
        seen: set[Path] = set()
        for root in self.folders:
            pending = [(root, 0)]
            while pending:
                folder, depth = pending.pop()
                if folder in seen:
                    continue
                seen.add(folder)
                walked += 1
                if walked > MOST_FOLDERS:
                    self.cut = True
                    return found
                names, below = _entries(folder)
                kind = kind_by_files(folder, names)
                if kind:
                    name = os.path.relpath(folder, root.parent) if root.parent != root else str(folder)
                    identity = _free(name.replace(os.sep, "/").strip("/") or "run", found)
                    found[identity] = FoundRun(identity, folder, kind)
                elif depth < DEEPEST:
                    pending += [(folder / each, depth + 1) for each in sorted(below, reverse=True)]
        return found


def _entries(folder: Path) -> tuple[set[str], list[str]]:
    """Names of files and of folders to walk; none where it cannot be read."""
    files: set[str] = set()
    below: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    files.add(entry.name)
                elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and entry.name not in SKIPPED:
                    below.append(entry.name)
    except OSError:
        return set(), []
    return files, below


def _free(name: str, taken: dict[str, FoundRun]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}~{number}" in taken:
        number += 1
    return f"{name}~{number}"
