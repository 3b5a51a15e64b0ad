"""The same text on the same task is judged once: over samples, devices and sessions of a run, and over runs that were judged alike.

Judges are fakes here (see `small_bench.py`); the real one gives a verdict for a repeated text in test_bench_judged.py.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.small_bench import FakeJudge, candidates, judged_by, run, writing
from episodes.decay import answer, kernel

from bottega.bench.attempt import BenchAttempt
from bottega.bench.known_verdicts import standing
from bottega.bench.leaderboard import disagreements, read_record
from bottega.bench.run_directory import ATTEMPTS, BENCH, LEADERBOARD, read_head
from bottega.core.candidate import Candidate
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict, Violation

FAST = {".": answer(kernel(2.0))}
NOTE = "judged in base, the same text on the same task"


class SlowJudge(FakeJudge):
    """Says that each verdict took five seconds, and that a kernel with `# unlucky` met a task that could not be judged."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.looked_at: list[str] = []

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        verdict = await super().judge_async(task, candidate, **options)
        if "# unlucky" in candidate.source:
            return Verdict(Outcome.INVALID_TASK, diagnosis="out of memory")
        return replace(verdict, stages_s={"trials": 4.0, "total": 5.0})

    def fitness(self, task: Task) -> dict[str, Any]:
        self.looked_at.append(task.name)
        return super().fitness(task)


def test_samples_and_devices_share_one_verdict(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, one := SlowJudge(), two := SlowJudge())
    found = run(tmp_path / "base", tasks, writing(samples=4), FAST, devices=["cpu", "cpu"], at_once=3).run
    assert len(found.attempts) == 12 and set(Counter([*one.judged, *two.judged]).values()) == {1}
    assert len(one.judged) + len(two.judged) == 3
    for task in found.tasks:
        seconds = sorted(attempt.seconds for attempt in found.attempts if attempt.task == task.id)
        assert seconds[-1] >= 5.0 and max(seconds[:-1]) < 5.0, "whoever waits for a verdict does not pay for it"
    assert not any(attempt.verdict and attempt.verdict.notes for attempt in found.attempts)


def test_a_verdict_of_another_run_stands_and_says_so(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, SlowJudge(unfit=["2_Double"]), arm := SlowJudge(), third := SlowJudge())
    base = run(tmp_path / "base", tasks, writing(), FAST).run
    relu = next(task.id for task in base.tasks if task.name == "1_Relu")
    script = lambda messages, sampling: answer(kernel(3.0 if "torch.relu" in messages[-1].content else 2.0))  # noqa: E731
    finished = run(tmp_path / "arm", tasks, writing(temperature=0.5), script, known=[tmp_path / "base"])
    assert finished.whole and [task for task, _ in arm.judged] == [relu] and arm.looked_at == []
    assert [task.fitness for task in finished.run.tasks] == [task.fitness for task in base.tasks]
    before = {attempt.task: attempt.verdict for attempt in base.attempts}
    for attempt in finished.run.attempts:
        assert attempt.verdict is not None
        if attempt.task == relu:
            assert attempt.verdict.notes == () and attempt.seconds >= 5.0
        else:
            taken = replace(before[attempt.task], notes=(NOTE,), stages_s={"total": 0.0})  # type: ignore[type-var]
            assert attempt.verdict == taken and attempt.seconds < 5.0
    assert read_head(tmp_path / "arm")["known"] == ["base"] and read_head(tmp_path / "base")["known"] == []
    assert "known" not in finished.run.settings
    assert disagreements(finished.run, read_record(tmp_path / "arm")[1]) == []
    both = [tmp_path / "arm", tmp_path / "base"]
    kernels = candidates(tmp_path, {"1_Relu.py": kernel(3.0), "2_Double.py": kernel(2.0), "1_Negate.py": kernel(1.1)})
    others = run(tmp_path / "others", tasks, candidates=kernels, known=both).run
    notes = {task.name: a.verdict.notes for task in others.tasks for a in others.attempts if a.task == task.id and a.verdict}
    assert notes == {"1_Relu": (NOTE.replace("base", "arm"),), "2_Double": (NOTE,), "1_Negate": ()}, "who judged is named"
    assert len(third.judged) == 1 and sorted(attempt.seconds for attempt in others.attempts) == [0.0, 0.0, 5.0]


def test_a_task_that_did_not_run_is_looked_at_again_and_others_are_not(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, SlowJudge(broken=["1_Negate"]), arm := SlowJudge())
    base = run(tmp_path / "base", tasks, writing(), FAST).run
    assert Outcome.INVALID_TASK in {a.verdict.outcome for a in base.attempts if a.verdict}
    found = run(tmp_path / "arm", tasks, writing(), FAST, known=[tmp_path / "base"]).run
    assert arm.looked_at == ["1_Negate"]
    assert {a.verdict.outcome for a in found.attempts if a.verdict} == {Outcome.FASTER}


def test_what_a_busy_device_looks_like_or_what_is_of_another_text_does_not_stand() -> None:
    right = Verdict(Outcome.FASTER, task_id="t", candidate_id="c")
    busy = Verdict(Outcome.REJECTED, violations=(Violation("work_after_return", "busy"),), task_id="t", candidate_id="c")
    for verdict, stands in (
        (right, True),
        (busy, False),
        (replace(right, candidate_id="other"), False),
        (replace(right, task_id="u"), False),
    ):
        assert (standing(BenchAttempt("t", 0, 0, verdict, "c", "cpp", 0, 0, 0.0, 0.0, ())) is verdict) is stands
    assert not standing(BenchAttempt("t", 0, 0, None, "", "cpp", 0, 0, 0.0, 0.0, (), junk="no code"))


def test_that_a_task_could_not_be_judged_is_not_taken_over(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    unlucky = {".": answer(kernel(2.0, "unlucky"))}
    judged_by(monkeypatch, base := SlowJudge(), arm := FakeJudge())
    found = run(tmp_path / "base", tasks, writing(samples=2), unlucky).run
    assert {a.verdict.outcome for a in found.attempts if a.verdict} == {Outcome.INVALID_TASK} and len(base.judged) == 6
    found = run(tmp_path / "arm", tasks, writing(samples=2), unlucky, known=[tmp_path / "base"]).run
    assert {a.verdict.outcome for a in found.attempts if a.verdict} == {Outcome.FASTER} and len(arm.judged) == 3
    assert not any(a.verdict.notes for a in found.attempts if a.verdict)


def test_a_run_that_was_judged_otherwise_is_refused(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(), *(FakeJudge() for _ in range(3)))
    run(tmp_path / "base", tasks, writing(), FAST)
    told = r"base: was judged otherwise: quick false then, true now; timeout 120.0 then, 9.0 now\. .*leave out known="
    with pytest.raises(UsageError, match=told):
        judging = {"quick": True, "timeout": 9.0}
        run(tmp_path / "arm", tasks, writing(), FAST, known=[tmp_path / "base"], **judging)
    head = json.loads((tmp_path / "base" / BENCH).read_text())
    head["fingerprint"]["cpu"] = "another make"
    (tmp_path / "base" / BENCH).write_text(json.dumps(head))
    with pytest.raises(UsageError, match=r'was judged otherwise: cpu "another make" then'):
        run(tmp_path / "arm", tasks, writing(), FAST, known=[tmp_path / "base"])
    with pytest.raises(UsageError, match="no benchmark run is there"):
        run(tmp_path / "arm", tasks, writing(), FAST, known=[tmp_path / "nowhere"])
    assert not (tmp_path / "arm").exists()


def test_a_run_goes_on_with_its_own_verdicts_and_other_known_runs(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(), FakeJudge(), again := SlowJudge())
    run(tmp_path / "base", tasks, writing(), FAST)
    first = run(tmp_path / "arm", tasks, writing(samples=2), FAST)
    own = first.run.attempts[0]
    lines = (tmp_path / "arm" / ATTEMPTS).read_bytes().splitlines(keepends=True)
    (tmp_path / "arm" / ATTEMPTS).write_bytes(lines[0])
    for part in ((tmp_path / "arm" / "samples").rglob("events.jsonl"), [tmp_path / "arm" / LEADERBOARD]):
        for path in part:
            path.unlink()
    found = run(tmp_path / "arm", tasks, writing(samples=2), FAST, known=[tmp_path / "base"])
    assert found.whole and again.judged == [] and len(found.run.attempts) == 6
    notes = {(a.task == own.task, a.verdict.notes) for a in found.run.attempts if a.verdict}
    assert notes == {(True, ()), (False, (NOTE,))}, "what the run judged itself goes before what others judged"


def test_an_unfinished_run_is_known_as_far_as_it_came(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(), arm := FakeJudge())
    base = run(tmp_path / "base", tasks, writing(turns=2), FAST, tokens=1)
    assert not base.whole and not base.run.attempts
    assert run(tmp_path / "arm", tasks, writing(), FAST, known=[tmp_path / "base"]).whole and len(arm.judged) == 3
