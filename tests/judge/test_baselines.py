"""Names of baselines, which of them are run, and real ones: tuned, the best of all, and one that cannot be compiled."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from module_task import module_task

from bottega.core.errors import BottegaError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.baselines import measured, parse_baselines, with_eager
from bottega.judge.judge import Judge
from bottega.judge.settings import Settings
from bottega.languages import candidate_from

SOURCE = module_task(
    "torch.exp(torch.sin(self.linear(x))) * 2.0", "torch.randn(256, 64)", init="self.linear = nn.Linear(64, 64)"
)
FORWARD = "        return torch.exp"


def when_compiled(statement: str) -> str:
    """The same module, which does this first where it is compiled, and only there."""
    return SOURCE.replace(FORWARD, f"        if torch.compiler.is_compiling():\n            do_it()\n{FORWARD}").replace(
        "class Model", f"import time\n\n@torch.compiler.disable\ndef do_it():\n    {statement}\n\nclass Model"
    )


def test_several_are_named_by_comma_and_each_once() -> None:
    assert parse_baselines("eager") == ("eager",)
    assert parse_baselines("best, eager,best") == ("best", "eager")
    for text in ("both", "", "eager,", "eager,fast"):
        with pytest.raises(UsageError, match="use eager, compile, autotune or best"):
            parse_baselines(text)


def test_best_has_all_of_them_run_and_eager_comes_first() -> None:
    assert measured(("compile",)) == ("compile",)
    assert measured(("compile", "eager")) == ("eager", "compile")
    assert measured(("best",)) == ("eager", "compile", "autotune")
    assert Settings(baselines=("best",)).compiled == ("compile", "autotune")
    assert Settings().compiled == ()


def test_eager_is_added_where_nothing_measures_it() -> None:
    assert with_eager(("compile",)) == ("compile", "eager")
    assert with_eager(("best",)) == ("best",)
    assert with_eager(("eager",)) == ("eager",)


def judged(
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *baselines: str,
    candidate: str = SOURCE,
    **options: float,
) -> Verdict:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Judge("cpu", quick=True, memory_gb=6, baselines=baselines, **options) as judge:
        return judge.judge(Task(source, name="task"), candidate_from(candidate.replace("class Model(", "class ModelNew(")))


@pytest.mark.slow
def test_the_best_of_all_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(SOURCE, tmp_path, monkeypatch, "best")
    assert verdict.correct and verdict.outcome.accepted, verdict.diagnosis
    assert list(verdict.speedup) == ["best", "eager", "compile", "autotune"], verdict.notes
    assert verdict.baseline == "best" and verdict.fastest_baseline in ("eager", "compile", "autotune")
    assert verdict.speedup["best"].low == min(verdict.speedup[name].low for name in ("eager", "compile", "autotune"))
    (folder,) = (path for path in (tmp_path / "bottega" / "baselines" / "compiled").iterdir() if path.is_dir())
    before = set(folder.rglob("*.so"))
    assert before
    again = judged(SOURCE, tmp_path, monkeypatch, "best")
    assert list(again.speedup) == list(verdict.speedup)
    assert set(folder.rglob("*.so")) == before  # found again, not made again


@pytest.mark.rotates
def test_what_one_baseline_makes_of_its_inputs_is_not_changed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCE.replace("return torch.exp(torch.sin(self.linear(x))) * 2.0", "return x.mul_(self.linear.weight[0]).add_(1)")
    verdict = judged(source, tmp_path, monkeypatch, "eager", "compile", candidate=source)
    assert verdict.correct and set(verdict.speedup) == {"eager", "compile"}, verdict.diagnosis


@pytest.mark.slow
def test_a_baseline_that_cannot_be_compiled_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(when_compiled('raise RuntimeError("cannot be compiled")'), tmp_path, monkeypatch, "compile")
    assert verdict.correct and verdict.outcome.accepted, verdict.diagnosis
    assert verdict.baseline == "eager" and set(verdict.speedup) == {"eager"}
    told = " ".join(verdict.notes)
    assert "baseline: compile was left out, for it raises" in told and "cannot be compiled" in told
    assert "The outcome speaks of eager" in told


@pytest.mark.slow
def test_a_baseline_that_takes_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(when_compiled("time.sleep(600)"), tmp_path, monkeypatch, "eager", "autotune", task_timeout=60.0)
    assert verdict.correct and set(verdict.speedup) == {"eager"}, verdict.diagnosis
    assert any("autotune was left out, for it takes more than 60 s to compile" in note for note in verdict.notes)


@pytest.mark.slow
def test_two_judges_share_a_folder_and_a_killed_one_leaves_nothing_that_breaks_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task, candidate = Task(SOURCE, name="task"), candidate_from(SOURCE.replace("class Model(", "class ModelNew("))
    found: list[Verdict] = []
    killed = Judge("cpu", quick=True, memory_gb=6, baselines=("compile",))

    def be_killed() -> None:
        with suppress(BottegaError):
            killed.judge(task, candidate)

    gone = threading.Thread(target=be_killed)
    gone.start()
    compiled = tmp_path / "bottega" / "baselines" / "compiled"
    for _ in range(600):
        if any(compiled.glob("*/torchinductor/*")):
            break
        time.sleep(0.1)
    killed.close()  # in the middle of compiling
    gone.join(60)

    def one() -> None:
        with Judge("cpu", quick=True, memory_gb=6, baselines=("compile",)) as judge:
            found.append(judge.judge(task, candidate))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(verdict.speedup) for verdict in found] == [{"compile"}, {"compile"}], [verdict.notes for verdict in found]


@pytest.mark.gpu
def test_the_best_of_all_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = SOURCE.replace("torch.randn(256, 64)", "torch.randn(4096, 64)")
    candidate = candidate_from(source.replace("class Model(", "class ModelNew("))
    with Judge("cuda", quick=True, baselines=("best",)) as judge:
        verdict = judge.judge(Task(source, name="task"), candidate)
    assert verdict.correct and list(verdict.speedup) == ["best", "eager", "compile", "autotune"], verdict.notes
