"""A folder whose owner was killed is removed by the next owner; one that is held, or was just made, is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bottega.core.held_folder import HeldFolder

OLD = 1_000_000_000


def test_the_next_owner_removes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    dying = (
        "import os\nfrom bottega.core.held_folder import HeldFolder\n"
        "open(HeldFolder('work-').path + '/build', 'w').close()\nos.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", dying], check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    held = HeldFolder("work-")
    assert left.exists(), "it is too young to tell"
    for folder in (left, held.path):
        os.utime(folder, (OLD, OLD))
    other = HeldFolder("work-")
    assert not left.exists() and {str(path) for path in tmp_path.iterdir()} == {held.path, other.path}
    for folder in (held, other):
        folder.close()
    assert not list(tmp_path.iterdir())
