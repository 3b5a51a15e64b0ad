"""What a token has used stays counted: while it runs, when it has ended, after a restart and after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import until

from bottega.service import usage
from bottega.service.limits import TokenLimits
from bottega.service.usage import SecondsUsed

KILLED = """
import sys, time
from pathlib import Path
from bottega.service import usage
usage.WRITE_SECONDS = 0.05
with usage.SecondsUsed(Path(sys.argv[1])).counting("alice"):
    print("counting", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[SecondsUsed]:
    made = SecondsUsed(tmp_path / "usage.db")
    yield made
    made.close()


def test_seconds_count_for_their_token_while_they_pass_and_afterwards(kept: SecondsUsed, tmp_path: Path) -> None:
    with kept.counting("alice"), kept.counting("bob"), kept.counting("alice"):
        time.sleep(0.02)
        assert kept.seconds("alice") >= 0.04 > kept.seconds("nobody") == 0.0
    spent = kept.seconds("alice")
    assert spent >= 0.04 and kept.seconds("bob") >= 0.02
    kept.close()
    again = SecondsUsed(tmp_path / "usage.db")
    assert again.seconds("alice") == pytest.approx(spent, abs=1e-3)
    again.close()


def test_a_limit_that_is_reached_is_told_in_a_sentence(kept: SecondsUsed) -> None:
    limits = TokenLimits(seconds_per_hour=0.01)
    assert kept.used_up("alice", limits) == ""
    with kept.counting("alice"):
        time.sleep(0.02)
    assert "0.01 s of judging an hour" in kept.used_up("alice", limits) and not kept.used_up("bob", limits)


def test_what_is_older_than_an_hour_is_forgotten(kept: SecondsUsed, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept.counting("alice"):
        time.sleep(0.01)
    later = time.time() + usage.HOUR + 1
    monkeypatch.setattr(kept._clock, "now", lambda: later)
    assert kept.seconds("alice") == pytest.approx(0.0, abs=1e-9)
    with kept.counting("bob"):
        pass
    assert kept._db.execute("SELECT token FROM judged").fetchall() == [("bob",)]


def test_a_kill_gives_nothing_back(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None and child.stdout.readline()
        looks = SecondsUsed(path)
        until(lambda: looks._db.execute("SELECT SUM(seconds) FROM judged").fetchone()[0] is not None)
        looks.close()
        child.kill()
    again = SecondsUsed(path)
    assert again.seconds("alice") > 0.0
    again.close()
