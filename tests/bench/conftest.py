"""What tests of benchmarks begin with."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.small_bench import task_folder


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return task_folder(tmp_path)
