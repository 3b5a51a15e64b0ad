"""The comparison of strategies: what is kept within a budget, cut alike for all, and paired with plain sampling."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import strategies
from strategies_script import _experts, script

from bottega.backbone.chat import Message, Sampling
from bottega.bench.attempt import BenchAttempt
from bottega.bench.settings import BenchSettings
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.strategies import STRATEGIES
from bottega.tasks.load import load_task


def attempt(task: str, turn: int, speed: float | None, tokens: int = 10, seconds: float = 1.0, text: str = "") -> BenchAttempt:
    verdict = None
    if speed is not None:
        outcome = Outcome.FASTER if speed > 1.02 else Outcome.SLOWER
        verdict = Verdict(outcome, True, {"eager": Speedup(speed, speed * 0.99, speed * 1.01)}, baseline="eager")
    return BenchAttempt(task, 0, turn, verdict, text or f"{task}{turn}{speed}", "cpp", tokens, 0, 0.0, seconds, ())


def line(task: str, *speeds: float | None, tokens: int = 10) -> list[BenchAttempt]:
    return [attempt(task, turn, speed, tokens) for turn, speed in enumerate(speeds)]


def test_what_is_kept_is_the_surest_kernel_within_the_budget() -> None:
    found = line("a", 0.5, None, 2.0, 3.0)
    assert [strategies.kept_by(found, "kernels", most) for most in (1, 2, 3, 4)] == [1.0, 1.0, 2.0, 3.0]
    assert strategies.kept_by(found, "tokens", 35) == 2.0
    assert strategies.kept_by(found, "seconds", 2.5) == 1.0


def test_a_dear_strategy_is_cut_at_what_plain_sampling_spent() -> None:
    runs = {
        "parallel": {task: line(task, 1.5, 2.0) for task in "abc"},
        "agent": {task: line(task, 1.5, 4.0, tokens=15) for task in "abc"},
    }
    kernels, tokens = (strategies.compared(runs, budget)["agent"] for budget in ("kernels", "tokens"))
    assert kernels[0] == pytest.approx(4.0) and kernels[1].point == pytest.approx(2.0)
    assert tokens[0] == pytest.approx(1.5) and tokens[1].point == pytest.approx(0.75)
    table = strategies.rows(runs)
    assert "| `parallel` | 3 | 6 of 6 | 2.00 | — | — | — | — |" in table
    assert any(row.startswith("| `agent` | 3 | 6 of 6 | 4.00 | 2.00 (") and "0.75" in row for row in table)


def test_a_run_that_was_cut_off_takes_no_task_from_the_others() -> None:
    runs = {
        "parallel": {task: line(task, 1.5) for task in "abc"},
        "agent": {"a": line("a", 3.0)},
        "tree": {task: line(task, 3.0) for task in "abcd"},
        "beam": {"d": line("d", 3.0)},
    }
    found = strategies.compared(runs, "kernels")
    assert {name: ratio.point for name, (_, ratio) in found.items()} == pytest.approx({"parallel": 1, "agent": 2, "tree": 2})
    assert [row.split(" | ")[1] for row in strategies.rows(runs)[2:]] == ["3", "1", "3"]


def test_by_the_point_a_kernel_below_eager_counts() -> None:
    runs = {"parallel": {task: line(task, 0.2, 0.25) for task in "abc"}, "tree": {task: line(task, None, 0.5) for task in "ab"}}
    assert strategies.compared(runs, "kernels")["tree"][1].point == 1.0
    assert strategies.by_the_point(runs, "tree").point == pytest.approx(2.0)
    runs["tree"] = {"a": line("a", None)}
    assert strategies.by_the_point(runs, "tree").point is None


def test_the_same_text_has_one_verdict() -> None:
    runs = {"parallel": {"a": [attempt("a", 0, 2.0, text="x")]}, "critic": {"a": [attempt("a", 0, 2.4, text="x")]}}
    (same,) = strategies.with_same_verdicts(runs, ["parallel", "critic"])["critic"]["a"]
    assert same.verdict is not None and same.verdict.speedup["eager"].point == 2.0


@pytest.mark.parametrize("strategy", STRATEGIES.names)
def test_every_strategy_gets_as_many_kernels(strategy: str) -> None:
    keys = dict(word.split("=") for word in strategies.settings_for(strategy, 8))
    settings = BenchSettings.model_validate({**keys, "backbone": "scripted:x.py"}).resolved()
    assert settings.samples * settings.kernels == 8


@pytest.mark.rotates
@pytest.mark.parametrize("language", ["C++", "Triton"])
def test_the_scripted_model_builds_on_what_it_is_shown(language: str) -> None:
    task = Message("user", load_task("builtin:swiglu", size="cpu").source)
    system = Message("system", f"You write fast {language} kernels.")
    alone = [script([system, task], Sampling(seed=seed)) for seed in range(60)]
    assert all(("@triton.jit" in text) is (language == "Triton") for text in alone)
    assert 0 < sum("broken" in text for text in alone) < 35
    bare = next(text for text in alone if "part 0 is out" in text and "broken" not in text)
    shown = [
        script([system, Message("user", f"{task.content}\n{bare}\nChange this next")], Sampling(seed=seed)) for seed in range(9)
    ]
    assert all("part 0 is in" in text for text in shown)


def test_a_triton_kernel_without_a_part_is_plainer() -> None:
    (swiglu,) = (expert for expert in _experts("triton") if expert.name == "swiglu")
    whole, none = swiglu.with_parts(set(range(swiglu.count))), swiglu.with_parts(set())
    assert all(word in whole for word in ("BLOCK_M=128", "tf32x3", "num_warps=8", "exp2"))
    assert not any(word in none for word in ("BLOCK_M=128", "tf32x3", "num_warps", "exp2"))


def test_a_strategy_without_a_kernel_does_not_empty_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was cut before its first verdict has no task, and what all have in common would be nothing."""
    for name in ("parallel", "agent"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bench.json").write_text("{}")
    found = {"parallel": [attempt("a", 0, 2.0), attempt("b", 0, 3.0)], "agent": []}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategies, "read_run", lambda folder: SimpleNamespace(attempts=found[folder.name]))
        strategies.table(tmp_path)
    told = capsys.readouterr()
    assert "| `parallel` | 2 | 2 of 2 | 2.45 |" in told.out
    assert "`agent`" not in told.out and "agent: has no kernel yet" in told.err
