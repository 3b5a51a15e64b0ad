"""Whether someone is writing a run right now, from the system's own list of file locks: asking for the lock would be in a new writer's way."""

from __future__ import annotations

import time
from pathlib import Path

from bottega.service.dashboard.reading import stamp

LOCKS = Path("/proc/locks")
RECENT_S = 120
"""Where the system has no such list, a run that wrote so lately is taken for a running one."""


def written_now(*files: Path) -> bool | None:
    """Whether any of these files is locked for writing; None where the system does not tell."""
    inodes = {found.inode for path in files if (found := stamp(path)) is not None}
    held = locked_inodes()
    return None if held is None else bool(inodes & held)


def locked_inodes() -> set[int] | None:
    try:
        text = LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = set()
    for line in text.splitlines():
        words = line.split()
        if "WRITE" in words and "->" not in words:
            place = next((word for word in words if word.count(":") == 2), "")
            if place.rpartition(":")[2].isdecimal():
                found.add(int(place.rpartition(":")[2]))
    return found


def state_of(ended: str, last: float, *files: Path) -> str:
    """`running`, how it ended, or `stopped`: no end is written and nobody writes."""
    writing = written_now(*files)
    if writing or (writing is None and not ended and time.time() - last < RECENT_S):
        return "running"
    return ended or "stopped"
