"""The store of judged material: nothing reported is lost, nothing is judged twice, and what is wrong with a file is said."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from judged_records import SETUP, candidate_of, tell, timed, wrong

from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError, UsageError
from bottega.data.store import FILE, JudgedStore, JudgeSetup

WRITER = """
import sys
from pathlib import Path
from judged_records import SETUP, timed
from bottega.core.candidate import Candidate
from bottega.data.store import JudgedStore

with JudgedStore(Path(sys.argv[1])) as store:
    for number in range(1000000):
        candidate = Candidate(f"kernel {number}", "cpp")
        store.add_verdict(SETUP, "task", candidate, timed(1.5))
        print(candidate.id, flush=True)
"""


def test_a_verdict_stands_as_it_was_first_given(tmp_path: Path) -> None:
    with JudgedStore(tmp_path) as store:
        candidate = Candidate("x", "cpp")
        store.add_verdict(SETUP, "task", candidate, timed(2.0))
        store.add_verdict(SETUP, "task", candidate, wrong())
        kept = store.verdict(SETUP, "task", candidate.id)
        assert kept is not None and kept.speedup["eager"].point == 2.0
        assert store.verdict(JudgeSetup("2", SETUP.device), "task", candidate.id) is None
        assert store.verdict(SETUP, "other", candidate.id) is None


@pytest.mark.slow
def test_what_was_told_survives_a_kill(tmp_path: Path) -> None:
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=_environment()
        )
        assert child.stdout is not None
        told = [child.stdout.readline().strip() for _ in range(20)]
        child.send_signal(signal.SIGKILL)
        told += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.wait()
        with JudgedStore(tmp_path) as store:
            missing = [name for name in told if store.verdict(SETUP, "task", name) is None]
            assert len(told) >= 20 and not missing


def test_a_full_disk_is_said_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with JudgedStore(tmp_path) as store:
        store.add_verdict(SETUP, "task", Candidate("first", "cpp"), timed(1.5))
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(BottegaError, match=r"disk is full.*run the same command again"):
            for number in range(100):
                store.add_verdict(SETUP, "task", Candidate(f"{number}" * 5000, "cpp"), timed(1.5))
        assert store.verdict(SETUP, "task", Candidate("first", "torch").id) is not None
    with JudgedStore(tmp_path) as store:
        store.add_verdict(SETUP, "task", Candidate("second", "cpp"), timed(1.5))
        assert store.counts()["verdicts"] >= 2


def test_two_runs_do_not_write_one_folder(tmp_path: Path) -> None:
    with JudgedStore(tmp_path), pytest.raises(UsageError, match="another process is adding"):
        JudgedStore(tmp_path)
    JudgedStore(tmp_path).close()


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / FILE).write_bytes(b"not a database, and longer than a header would be" * 40)
    with pytest.raises(BottegaError, match="damaged"):
        JudgedStore(tmp_path / "junk")
    (tmp_path / "other").mkdir()
    with sqlite3.connect(tmp_path / "other" / FILE) as other:
        other.execute("CREATE TABLE cake (slices)")
    with pytest.raises(UsageError, match="something else"):
        JudgedStore(tmp_path / "other")
    with pytest.raises(UsageError, match="no judged records"):
        JudgedStore(tmp_path / "none", create=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="nothing can be written"):
        JudgedStore(tmp_path / "file")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    JudgedStore(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(UsageError, match="newer Bottega"):
        JudgedStore(tmp_path)


def test_judged_tasks_come_back_as_they_were_taught(tmp_path: Path) -> None:
    mutants = tell(tmp_path, ("silu_chain",))
    with JudgedStore(tmp_path, write=False) as store:
        (judged_task,) = store.judged_tasks(SETUP)
    (build,) = judged_task.builds
    assert [attempt.step.technique for attempt in build] == ["naive", "vectorised", "threads"]
    assert build[2].techniques == ("vectorised", "threads") and build[2].step.candidate.parent == build[1].id
    assert build[0].source == candidate_of("silu_chain", 0).source
    assert {mutant.candidate.id for mutant in judged_task.mutants} == {mutant.candidate.id for mutant in mutants}
    assert all(judged_task.verdicts[mutant.candidate.id].outcome == "incorrect" for mutant in judged_task.mutants)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
