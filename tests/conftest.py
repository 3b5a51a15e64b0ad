"""One judge for the whole run: bringing up its fork server costs seconds, a verdict a fraction of one."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottega.judge.judge import Judge

sys.path.insert(0, str(Path(__file__).parent))

from corpus import PARTS, SEED, is_due, rotation


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with Judge("cpu", timeout=60, quick=True, memory_gb=6) as judge:
        yield judge


def pytest_configure() -> None:
    gc.disable()  # while everything is imported nothing is garbage
    os.environ[SEED] = str(rotation())  # one number for all workers, also where midnight falls between them


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """The header, also where `-q` leaves out pytest's own: whoever repeats a failure needs the number."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        turn = rotation()
        reporter.write_line(f"corpus: part {turn % PARTS + 1} of {PARTS}; to repeat it: {SEED}={turn}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import torch

    turn, seen = rotation(), Counter[Path]()
    for item in items:
        own = any(mark.name == "rotates" for mark in item.own_markers)  # of a file that rotates, only the cases do
        if own or ("rotates" in item.keywords and hasattr(item, "callspec")):
            seen[item.path] += 1  # one file's come one after the other: what is heavy lies together
            if not is_due(item.path.name, turn + seen[item.path]):
                item.add_marker(pytest.mark.slow)
    if not torch.cuda.is_available():
        skip = pytest.mark.skip(reason="needs an NVIDIA GPU")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(skip)


def pytest_collection_finish() -> None:
    """What is imported by now stays: a twentieth of the time went into looking through it for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # else libraries complain at the end of what was not released
