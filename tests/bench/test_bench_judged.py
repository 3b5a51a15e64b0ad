"""Kernels that others wrote, judged by the real judge, and their record judged again: as it is, forged, and as if on another device."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.small_bench import CPP, cpp_text, run, task_folder

from bottega.bench import session
from bottega.bench import verify as verifying
from bottega.bench.known_verdicts import KnownVerdicts
from bottega.bench.run_directory import ATTEMPTS, BENCH, LEADERBOARD
from bottega.bench.runner import SampleKept
from bottega.bench.session import BenchFinished
from bottega.bench.settings import BenchJudgeSettings
from bottega.bench.shard import Shard
from bottega.bench.verify import Verification, verify
from bottega.core.errors import UsageError
from bottega.core.verdict import Outcome
from bottega.judge.judge import Judge


class Borrowed:
    """The judge of the whole test run: used here, closed elsewhere."""

    def __init__(self, judge: Judge) -> None:
        self.judge_async, self.fitness = judge.judge_async, judge.fitness
        self.workers, self.lanes = judge.workers, judge.lanes

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def borrowed(judge: Judge) -> Any:
    def shard(
        device: str, judging: BenchJudgeSettings, workers: int, known: KnownVerdicts | None = None, host: Any = None
    ) -> Shard:
        made = Shard(device, judging, workers, known)
        made.judge.close()
        made.judge = Borrowed(judge)  # type: ignore[assignment]
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "Shard", shard)
        patch.setattr(verifying, "Shard", shard)
        yield


@pytest.fixture(scope="module")
def finished(borrowed: Any, tmp_path_factory: pytest.TempPathFactory) -> BenchFinished:
    place = tmp_path_factory.mktemp("judged")
    tasks, theirs = task_folder(place), place / "theirs"
    theirs.mkdir()
    (tasks / "level1" / "3_Raises.py").write_text(
        (tasks / "level1" / "1_Relu.py").read_text().replace("torch.relu(x)", "x.nothing")
    )
    for name, text in {
        "level_1_problem_1_sample_0_kernel.py": cpp_text(CPP["1_Relu"]),
        "level_1_problem_1_sample_1_kernel.py": cpp_text("x[i]"),
        "level_1_problem_1_sample_2_kernel.py": cpp_text(CPP["1_Relu"]),
        "level_1_problem_3_sample_0_kernel.py": cpp_text("x[i]"),
    }.items():
        (theirs / name).write_text(text)
    return run(place / "run", tasks, candidates=str(theirs), levels=(1,), quick=True)


def check(folder: Path, **options: Any) -> Verification:
    return asyncio.run(verify(folder, ["cpu"], **options))


def copied(finished: BenchFinished, to: Path) -> Path:
    return Path(shutil.copytree(finished.run.folder, to))


@pytest.mark.rotates
def test_what_others_wrote_is_judged_and_what_cannot_be_is_told(finished: BenchFinished) -> None:
    rows = {row.name: row for row in finished.run.tasks}
    found = {(attempt.task, attempt.sample): attempt for attempt in finished.run.attempts}
    right, wrong, again = (found[(rows["1_Relu"].id, sample)] for sample in range(3))
    assert right.verdict and right.verdict.outcome.accepted and right.language == "cpp"
    assert wrong.verdict and wrong.verdict.outcome is Outcome.INCORRECT
    assert again.verdict == replace(right.verdict, stages_s={"total": 0.0}) and again.seconds == 0.0 < right.seconds
    broken = found[(rows["3_Raises"].id, 0)].verdict
    assert broken and broken.outcome is Outcome.INVALID_TASK and rows["3_Raises"].fitness.startswith("cannot be run")
    assert rows["2_Double"].trouble == "no candidate" and finished.whole and finished.record is not None


@pytest.mark.rotates
def test_a_record_is_judged_again_and_a_forged_one_does_not_hold(finished: BenchFinished, tmp_path: Path) -> None:
    found = check(finished.run.folder / LEADERBOARD, count=1)
    assert found.kernels == 2 and len(found.checked) == 1
    assert all(one.then == one.now or one.intervals for one in found.checked)
    assert {one.holds for one in found.checked} <= {True, False}
    forged = copied(finished, tmp_path / "forged")
    text = (forged / ATTEMPTS).read_text()
    assert '"outcome":"incorrect"' in text
    (forged / ATTEMPTS).write_text(text.replace('"outcome":"incorrect"', '"outcome":"same"'))
    found = check(forged, share=1.0)
    assert found.conclusion == "does not hold" and found.refuted
    assert any("was changed after" in reason for reason in found.reasons)
    assert any("it was same and is now incorrect" in reason for reason in found.reasons)


@pytest.mark.rotates
def test_on_another_device_only_correctness_is_compared(finished: BenchFinished, tmp_path: Path) -> None:
    moved = copied(finished, tmp_path / "moved")
    for name in (BENCH, LEADERBOARD):
        text = (moved / name).read_text()
        cpu = str(finished.run.fingerprint["cpu"])
        (moved / name).write_text(text.replace(cpu, "a machine of another make"))
    found = check(moved, count=1)
    assert found.conclusion == "another device: only correctness compared" and not any(one.intervals for one in found.checked)
    for name in (BENCH, LEADERBOARD):
        (moved / name).write_text((moved / name).read_text().replace('"kind": "cpu"', '"kind": "cuda"'))
    with pytest.raises(UsageError, match="was judged on cuda; give --device cuda"):
        check(moved)


@pytest.mark.slow
def test_a_judge_that_is_gone_in_the_middle_is_a_lost_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two judges of their own on this CPU; the first is closed under the run once it has given a verdict."""
    tasks, theirs, made = task_folder(tmp_path), tmp_path / "theirs", []

    def shard(
        device: str, judging: BenchJudgeSettings, workers: int, known: KnownVerdicts | None = None, host: Any = None
    ) -> Shard:
        made.append(Shard(device, judging, workers, known))
        return made[-1]

    def watch(event: Any) -> None:
        if isinstance(event, SampleKept) and event.task.name == "1_Relu":
            made[0].judge.close()

    monkeypatch.setattr(session, "Shard", shard)
    theirs.mkdir()
    for number, text in enumerate((CPP["1_Relu"], "x[i]", "0")):
        (theirs / f"1_Relu.{number}.py").write_text(cpp_text(text))
    for stem in ("2_Double", "1_Negate"):
        (theirs / f"{stem}.py").write_text(cpp_text(CPP[stem]))
    found = run(tmp_path / "run", tasks, candidates=str(theirs), devices=["cpu", "cpu"], on_event=watch, quick=True)
    trouble = {row.name: row.trouble for row in found.run.tasks}
    assert not found.whole and "cpu is lost: this judge was closed" in trouble.pop("1_Relu") and set(trouble.values()) == {""}
    assert len(found.run.attempts) == 3 and all(a.verdict and a.verdict.stages_s for a in found.run.attempts)
    again = run(tmp_path / "run", tasks, candidates=str(theirs), quick=True)
    assert again.whole and len(again.run.attempts) == 5
