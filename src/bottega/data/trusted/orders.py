"""What a worker of the bench is told at its start, and where it begins: kept apart so that the bench's own process needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from bottega.judge.settings import Settings

LOG, UNDER_WAY = "output.log", "under_way"
"""Files in a worker's own folder: what its kernels print, and which of them is being timed."""


@dataclass(frozen=True)
class Orders:
    settings: Settings
    folder: str
    """Of the whole bench, among the temporary files: compiled kernels are shared there."""
    lease: str
    workers: int
