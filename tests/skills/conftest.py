"""Libraries in memory where that can be: every change of a library waits for its disk, and a kill is no power failure."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottega.skills.library import Library

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path)
