"""The freezer's groups: one in use is left alone, one that a killed judge left is removed by the next."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bottega.sandbox import freezer
from bottega.sandbox.freezer import Freezer, remove_leftovers

LEAVE = """
import os, signal
from bottega.sandbox.freezer import Freezer
group = Freezer.create()
print(group._name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def groups() -> set[str]:
    return {name for name in os.listdir(freezer._own_group()) if name.startswith("bottega-")}


@pytest.fixture
def group():
    try:
        made = Freezer.create()
    except OSError as error:
        pytest.skip(f"no freezer for us: {error}")
    yield made
    made.remove()


def test_leftovers_are_removed_and_groups_in_use_are_not(group) -> None:
    left = subprocess.run([sys.executable, "-c", LEAVE], check=False, capture_output=True, text=True).stdout.strip()
    assert {left, group._name} <= groups()
    remove_leftovers()
    assert left not in groups() and group._name in groups()
    group.remove()
    assert group._name not in groups()


def test_whoever_is_frozen_runs_no_more_whatever_it_is_sent_and_can_be_killed(group) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: print(1, flush=True)"], stdout=subprocess.PIPE) as process:
        group.add(process.pid)
        assert group.stop(60.0)
        os.kill(process.pid, 18)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        while process.stdout.read(1 << 16):
            pass
        assert process.poll() is None and process.stdout.read(1) is None
        process.kill()
        assert process.wait(60) == -9


def test_a_machine_without_one_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(freezer, "_own_group", lambda: str(tmp_path))
    with pytest.raises(OSError, match="cgroup"):
        Freezer.create()
    assert os.listdir(tmp_path) == []
