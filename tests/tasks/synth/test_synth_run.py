"""A run: in order whatever the workers, the same after a kill, and honest about what it could not do.

The examiners here decide by a task's id: what the judge says of a task is tested with the command.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import until

from bottega.core.errors import JudgeError, TaskError, UsageError
from bottega.core.task import Task
from bottega.tasks.load import load_tasks
from bottega.tasks.synth import Benchmark, ExaminerReport, Series, SynthPlan, run, synthesise

EXAMINER = """
import sys, time
from pathlib import Path
from bottega.tasks.synth import ExaminerReport, SynthPlan, run

class Slow:
    asked = 0

    def examine(self, task):
        self.asked += 1
        if self.asked > 12:
            time.sleep(600)
        return ExaminerReport(int(task.id, 16) % 3 != 0, (("odd", ""),) if int(task.id, 16) % 3 == 0 else (), 1.0)

run(SynthPlan(25, seed=2, levels=(1,)).checked(), Path(sys.argv[1]), Slow(), workers=2)
"""


class Quick:
    """As the one above, at once."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def examine(self, task: Task) -> ExaminerReport:
        self.seen.append(task.origin)
        odd = int(task.id, 16) % 3 == 0
        return ExaminerReport(not odd, (("odd", ""),) if odd else (), 1.0)


class ByIdentity:
    """Fit is whatever has an id that three does not divide."""

    def __init__(self, pause: float = 0.0):
        self.pause = pause
        self.seen: list[str] = []

    def examine(self, task: Task) -> ExaminerReport:
        self.seen.append(task.origin)
        number = int(task.id, 16)
        time.sleep(self.pause * (number % 5))
        if number % 3 == 0:
            return ExaminerReport(False, (("constant_output", "it never changes"),), 2.0)
        if number % 7 == 0:
            raise TaskError("this operator is not known here")
        return ExaminerReport(True, (), 100.0 if number % 11 == 0 else 1.0)


def plan(count: int = 20, **options: object) -> SynthPlan:
    return SynthPlan(count, seed=2, **{"levels": (1,), **options}).checked()  # type: ignore[arg-type]


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "tasks.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_workers_change_nothing(tmp_path: Path) -> None:
    run(plan(), tmp_path / "one", ByIdentity())
    summary = run(plan(), tmp_path / "four", ByIdentity(pause=0.003), workers=4)
    assert rows(tmp_path / "one") == rows(tmp_path / "four")
    assert summary.accepted == 20 == len(rows(tmp_path / "four"))
    assert set(summary.dropped) <= {"constant_output", "does_not_run", "outside_window", "duplicate"}
    assert summary.looked_at == summary.accepted + sum(summary.dropped.values())
    assert summary.failing


def test_what_is_written_can_be_read_as_tasks(tmp_path: Path) -> None:
    run(plan(8), tmp_path, ByIdentity())
    loaded = load_tasks([tmp_path])
    assert not loaded.problems
    for task, row in zip(loaded.tasks, rows(tmp_path), strict=True):
        assert (task.id, task.level, task.name) == (row["task_id"], row["level"], row["name"])
        assert synthesise(2, row["index"], "cpu", (1,)).task.source == row["code"]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["operators"].keys() == {name for row in rows(tmp_path) for name in row["ops"]}
    assert "data_files: tasks.jsonl" in (tmp_path / "README.md").read_text()


@pytest.mark.rotates
def test_a_killed_run_goes_on_and_nothing_is_examined_twice(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", EXAMINER, str(tmp_path / "killed")])
    journal = tmp_path / "killed" / "examined.log"
    until(lambda: journal.is_file() and journal.read_bytes().count(b"\n") >= 9, 120)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {json.loads(line)["index"] for line in journal.read_bytes().splitlines()[1:] if line.endswith(b"}")}
    assert len(kept) >= 8
    again, whole = Quick(), Quick()
    run(plan(25), tmp_path / "killed", again, workers=2)
    assert not {f"synth:2/{index}" for index in kept} & set(again.seen)
    run(plan(25), tmp_path / "whole", whole, workers=2)
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole")


def test_a_torn_line_is_dropped(tmp_path: Path) -> None:
    run(plan(8), tmp_path, ByIdentity())
    wanted = rows(tmp_path)
    journal = tmp_path / "examined.log"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:6]) + lines[6][:25])
    examiner = ByIdentity()
    run(plan(8), tmp_path, examiner)
    assert rows(tmp_path) == wanted
    assert journal.read_bytes().splitlines()[1:6] == [line.strip() for line in lines[1:6]]
    assert not {f"synth:2/{json.loads(line)['index']}" for line in lines[1:6]} & set(examiner.seen)


def test_a_finished_run_may_be_made_longer_but_not_another(tmp_path: Path) -> None:
    run(plan(5), tmp_path, ByIdentity())
    short = rows(tmp_path)
    run(plan(9), tmp_path, ByIdentity())
    assert rows(tmp_path)[:5] == short
    with pytest.raises(UsageError, match="holds a run with device 'cpu', not 'cuda'"):
        run(plan(5, device="cuda"), tmp_path, ByIdentity())
    assert len(rows(tmp_path)) == 9


@pytest.mark.slow
def test_shards_are_parts_of_the_whole(tmp_path: Path) -> None:
    run(plan(24), tmp_path / "whole", ByIdentity())
    whole = {row["index"]: row for row in rows(tmp_path / "whole")}
    found: dict[int, dict] = {}
    for number in (1, 2, 3):
        run(plan(8, shard=number, shards=3), tmp_path / str(number), ByIdentity())
        for row in rows(tmp_path / str(number)):
            assert row["index"] % 3 == number - 1
            found[row["index"]] = row
    last = min(max(row["index"] for row in rows(tmp_path / name)) for name in ("whole", "1", "2", "3"))
    assert {i: row for i, row in whole.items() if i <= last} == {i: row for i, row in found.items() if i <= last}


@pytest.mark.slow
def test_no_two_tasks_are_near_duplicates(tmp_path: Path) -> None:
    summary = run(plan(150, families=("softmax",), filtered=False), tmp_path)
    keys = [key for row in rows(tmp_path) for key in synthesise(2, row["index"], "cpu", (1,), ("softmax",)).key]
    assert len(keys) == len(set(keys))
    assert summary.dropped["duplicate"] > 0


@pytest.mark.rotates
def test_what_is_too_similar_is_dropped(tmp_path: Path) -> None:
    first = [made.task for (made, _), _ in zip(Series(plan()), range(6))]
    summary = run(plan(20, filtered=False), tmp_path, benchmark=Benchmark(first))
    assert summary.dropped["too_similar"] >= 6
    assert not {task.id for task in first} & {row["task_id"] for row in rows(tmp_path)}


@pytest.mark.rotates
def test_an_examiner_that_fails_once_is_asked_again(tmp_path: Path) -> None:
    class Stumbling(ByIdentity):
        def examine(self, task: Task) -> ExaminerReport:
            first = task.origin not in self.seen
            finding = super().examine(task)
            if first and int(task.id, 16) % 2:
                raise JudgeError("a worker died")
            return finding

    run(plan(6), tmp_path / "stumbling", Stumbling())
    run(plan(6), tmp_path / "steady", ByIdentity())
    assert rows(tmp_path / "stumbling") == rows(tmp_path / "steady")


@pytest.mark.rotates
def test_a_machine_that_is_at_fault_stops_the_run_and_keeps_what_was_done(tmp_path: Path) -> None:
    class Dying(ByIdentity):
        def examine(self, task: Task) -> ExaminerReport:
            if len(self.seen) >= 6:
                raise JudgeError("no process can be started")
            return super().examine(task)

    with pytest.raises(JudgeError, match=r"failed 5 times running, last: no process.*run again"):
        run(plan(30), tmp_path, Dying())
    kept = len((tmp_path / "examined.log").read_bytes().splitlines()) - 1
    assert kept >= 6
    assert json.loads((tmp_path / "summary.json").read_text())["interrupted"] is True
    run(plan(8), tmp_path, ByIdentity())
    run(plan(8), tmp_path / "whole", ByIdentity())
    assert rows(tmp_path) == rows(tmp_path / "whole")


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_run_can_be_taken_up(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from bottega.tasks.synth import SynthPlan, run\nfrom bottega.core.errors import BottegaError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "try:\n    run(SynthPlan(60, seed=2, levels=(1,), filtered=False).checked(), Path(sys.argv[1]))\n"
        "except BottegaError as error:\n    print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path / "full")], capture_output=True, text=True, check=True)
    assert "cannot be written" in told.stdout and "run again to go on" in told.stdout
    assert "Traceback" not in told.stderr
    run(plan(60, filtered=False), tmp_path / "full")
    run(plan(60, filtered=False), tmp_path / "whole")
    assert rows(tmp_path / "full") == rows(tmp_path / "whole")


def test_two_runs_do_not_write_in_one_folder(tmp_path: Path) -> None:
    class Second(ByIdentity):
        def examine(self, task: Task) -> ExaminerReport:
            with pytest.raises(UsageError, match="another process is writing this run"):
                run(plan(), tmp_path, ByIdentity())
            return super().examine(task)

    assert run(plan(2), tmp_path, Second()).accepted == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 0}, "count=0"),
        ({"count": 5, "shard": 3, "shards": 2}, "shard=3/2"),
        ({"count": 5, "threshold": 1.5}, "threshold=1.5"),
        ({"count": 5, "shortest_ms": 9.0, "longest_ms": 1.0}, "is empty"),
        ({"count": 5, "device": "abacus"}, "unknown device"),
    ],
)
def test_plans_that_make_no_sense(options: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        SynthPlan(**options).checked()


def test_an_unfiltered_plan_needs_no_examiner_and_a_filtered_one_does(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs an examiner"):
        run(plan(), tmp_path)
    assert run(plan(3, filtered=False), tmp_path / "out").accepted == 3
