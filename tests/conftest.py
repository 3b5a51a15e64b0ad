"""One judge for the whole run: bringing up its fork server costs seconds, a verdict a fraction of one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottega.judge.judge import Judge

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with Judge("cpu", timeout=60, quick=True, memory_gb=6) as judge:
        yield judge


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import torch

    if not torch.cuda.is_available():
        skip = pytest.mark.skip(reason="needs an NVIDIA GPU")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(skip)
