"""The processes below another, as the host sees them, and whether they are gone."""

from __future__ import annotations

import os
import time
from pathlib import Path


def descendants(pid: int) -> set[int]:
    """Everyone below a process, as the host sees them."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {pid}
        found |= more


def gone(pids: set[int], within_s: float = 60) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        alive = set()
        for pid in pids:
            try:
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                    alive.add(pid)
            except OSError:
                continue
        if not alive:
            return True
        time.sleep(0.02)
    return False
