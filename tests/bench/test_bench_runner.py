"""A run's control flow where things go wrong: devices that vanish, judges that fail, models that are silent, budgets, second sessions.

Judges are fakes here (see `small_bench.py`); the same paths run with the real judge in test_bench_command.py.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bench.small_bench import FakeJudge, candidates, judged_by, run, writing
from episodes.decay import answer, kernel

from bottega.backbone.reply import ContextError
from bottega.bench.attempt import BenchRun
from bottega.bench.leaderboard import disagreements, read_record
from bottega.bench.run_directory import ATTEMPTS, LEADERBOARD, SAMPLES, read_run
from bottega.bench.runner import REFUSALS_IN_A_ROW, SampleFailed
from bottega.bench.task_set import NO_CANDIDATE
from bottega.core.errors import BackboneError, UsageError
from bottega.core.verdict import Outcome
from bottega.episodes.strategies import STRATEGIES

FAST = {".": answer(kernel(2.0))}


def keys(found: BenchRun) -> set[tuple[str, int, int, str]]:
    return {(*attempt.key, attempt.candidate) for attempt in found.attempts}


def test_every_sample_and_turn_is_kept_and_the_record_agrees(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, judge := FakeJudge(unfit=["2_Double"]))
    lines = [answer(kernel(1.0 + n / 10, str(n))) for n in range(11)] + ["I would rather talk."]
    finished = run(tmp_path / "run", tasks, writing(samples=2, turns=2), lines)
    found = read_run(tmp_path / "run")
    assert finished.whole and finished.run.attempts == found.attempts
    assert Counter(attempt.task for attempt in found.attempts) == dict.fromkeys((task.id for task in found.tasks), 4)
    assert {(attempt.sample, attempt.turn) for attempt in found.attempts} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    silent = found.attempts[-1]
    assert silent.verdict is None and silent.candidate == "" and silent.junk and silent.output_tokens > 0
    assert [task.fitness for task in found.tasks] == ["", "constant_output: always the same", ""]
    assert all(task.trouble == "" for task in found.tasks) and len(judge.judged) == 11
    assert {path.stem for path in (tmp_path / "run" / "kernels").iterdir()} == {a.candidate for a in found.attempts[:-1]}
    assert disagreements(found, read_record(tmp_path / "run")[1]) == []


def test_the_same_command_does_nothing_twice_and_another_is_refused(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(), again := FakeJudge(), FakeJudge(), FakeJudge())
    first = run(tmp_path / "run", tasks, writing(), FAST)
    before = (tmp_path / "run" / LEADERBOARD).read_bytes()
    second = run(tmp_path / "run", tasks, writing(), FAST)
    assert second.whole and second.run.attempts == first.run.attempts and again.judged == []
    assert (tmp_path / "run" / LEADERBOARD).read_bytes() == before
    with pytest.raises(UsageError, match=r"other settings: .*temperature 1.0 then, 0.5 now"):
        run(tmp_path / "run", tasks, writing(temperature=0.5), FAST)
    (tasks / "level1" / "2_Double.py").unlink()
    with pytest.raises(UsageError, match="the tasks are others"):
        run(tmp_path / "run", tasks, writing(), FAST)


def test_a_lost_device_costs_what_it_had_under_way_and_the_others_go_on(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    """The first device dies at a kernel of the first task; the second does the rest; the same command does what is left."""
    judged_by(monkeypatch, FakeJudge(dies_at="# deadly"), FakeJudge(), fresh := FakeJudge())
    files = {"1_Relu.0.py": kernel(2.0, "fine"), "1_Relu.1.py": kernel(2.0, "deadly"), "1_Relu.2.py": kernel(1.5)}
    folder = candidates(tmp_path, files | {"2_Double.py": kernel(1.2), "1_Negate.py": kernel(3.0)})
    noted: list[str] = []
    watch = lambda event: noted.append(event.text) if isinstance(event, SampleFailed) else None  # noqa: E731
    finished = run(tmp_path / "run", tasks, candidates=folder, devices=["cpu", "cpu"], on_event=watch)
    trouble = {task.name: task.trouble for task in finished.run.tasks}
    assert not finished.whole and "is lost" in trouble.pop("1_Relu") and set(trouble.values()) == {""}
    assert len([line for line in noted if "is lost" in line]) == 1
    assert len(finished.run.attempts) == 3, "what was judged before stands, what a dead device says does not"
    assert not any(a.verdict and a.verdict.outcome is Outcome.INVALID_TASK for a in finished.run.attempts)
    assert not (tmp_path / "run" / LEADERBOARD).exists()
    again = run(tmp_path / "run", tasks, candidates=folder)
    assert again.whole and len(fresh.judged) == 2 and len(again.run.attempts) == 5


def test_when_no_device_is_left_every_task_says_so(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(dies_at="# speed"))
    finished = run(tmp_path / "run", tasks, writing(), FAST)
    assert not finished.whole and finished.ended.startswith("no device is left") and not finished.run.attempts
    assert all("is lost" in task.trouble for task in finished.run.tasks)
    judged_by(monkeypatch, FakeJudge())
    assert run(tmp_path / "run", tasks, writing(), FAST).whole, "no verdict of a dead device is in a sample's log"


def test_tasks_that_cannot_be_run_or_read_count_as_invalid(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    (tasks / "level2" / "2_Unreadable.py").write_text("def (")
    judged_by(monkeypatch, judge := FakeJudge(broken=["1_Negate"]))
    finished = run(tmp_path / "run", tasks, writing(samples=2, turns=2), FAST)
    by_name = {task.name: [a for a in finished.run.attempts if a.task == task.id] for task in finished.run.tasks}
    assert finished.whole and [len(by_name[name]) for name in ("1_Relu", "1_Negate", "2_Unreadable")] == [4, 2, 2]
    for name in ("1_Negate", "2_Unreadable"):
        assert {a.verdict.outcome for a in by_name[name] if a.verdict} == {Outcome.INVALID_TASK}
    assert {task.name for task in finished.run.tasks if task.fitness} == {"1_Negate", "2_Unreadable"}
    judged_by(monkeypatch, again := FakeJudge())
    assert run(tmp_path / "run", tasks, writing(samples=2, turns=2), FAST).whole and again.judged == []
    assert len(judge.judged) == 2, "each task has its one kernel judged once, though it came four times"


def test_a_kernel_that_the_judge_fails_on_costs_no_other(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    files = {"1_Relu.0.py": kernel(2.0, "judge error"), "1_Relu.1.py": kernel(1.5), "2_Double.py": kernel(1.2)}
    folder = candidates(tmp_path, files)
    judged_by(monkeypatch, FakeJudge())
    finished = run(tmp_path / "run", tasks, candidates=folder)
    trouble = {task.name: task.trouble for task in finished.run.tasks}
    assert "sample 0 has no verdict: the referee failed" in trouble["1_Relu"] and trouble["1_Negate"] == NO_CANDIDATE
    assert len(finished.run.attempts) == 2 and not finished.whole


def test_the_same_text_is_a_sample_each_and_judged_once_over_sessions(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    text = kernel(1.7)
    folder = candidates(tmp_path, {"1_Relu.0.py": text, "1_Relu.1.py": text, "2_Double.1.py": text})
    judged_by(monkeypatch, judge := FakeJudge(), again := FakeJudge(), FakeJudge())
    finished = run(tmp_path / "run", tasks, candidates=folder)
    assert finished.whole and len(finished.run.attempts) == 3 and len(judge.judged) == 2
    (Path(folder) / "2_Double.0.py").write_text(text)  # one that was missing
    finished = run(tmp_path / "run", tasks, candidates=folder)
    assert len(finished.run.attempts) == 4 and again.judged == []
    assert disagreements(finished.run, read_record(tmp_path / "run")[1]) == [], "the record is of what there is now"
    (Path(folder) / "2_Double.0.py").write_text(kernel(9.0))
    with pytest.raises(UsageError, match="another kernel than the one that was judged"):
        run(tmp_path / "run", tasks, candidates=folder)


def test_a_spent_budget_ends_the_run_and_more_goes_on(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(), judge := FakeJudge())
    finished = run(tmp_path / "run", tasks, writing(turns=2), FAST, tokens=1)
    assert not finished.whole and "1 tokens is spent" in finished.ended and not finished.run.attempts
    assert all("is spent" in task.trouble for task in finished.run.tasks)
    finished = run(tmp_path / "run", tasks, writing(turns=2), FAST)
    assert finished.whole and len(finished.run.attempts) == 6
    assert len(judge.judged) == 2, "what the first session judged is taken from that sample's log"


def test_a_silent_model_ends_the_run(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge())
    failures = [BackboneError("no answer")] * 40
    finished = run(tmp_path / "run", tasks, writing(samples=10), failures)
    assert f"failed {REFUSALS_IN_A_ROW} times in a row" in finished.ended and not finished.run.attempts


def test_a_prompt_that_does_not_fit_is_an_answer_that_failed(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(), again := FakeJudge())

    def script(messages: Any, sampling: Any) -> str:
        if "speed 2.0" in messages[-1].content:
            raise ContextError("the prompt has 9 tokens more than the model takes")
        return answer(kernel(2.0))

    for _ in range(2):
        finished = run(tmp_path / "run", tasks, writing(turns=3), script, levels=(2,))
        assert finished.whole and [(a.turn, a.junk[:10]) for a in finished.run.attempts] == [(0, ""), (1, "the prompt")]
    assert again.judged == []


SHAPES = {"parallel": (4, 1), "beam": (2, 8), "evolve": (2, 8), "tree": (2, 4), "scientist": (2, 4)}
"""Samples and kernels of one; strategies that are a line have as many as there are turns."""


@pytest.mark.parametrize("strategy, samples, turns", [(name, *SHAPES.get(name, (2, 2))) for name in STRATEGIES.names])
def test_strategies_fill_samples_and_turns(
    tmp_path: Path, tasks: Path, monkeypatch: Any, strategy: Any, samples: int, turns: int
) -> None:
    judged_by(monkeypatch, FakeJudge())
    wanted, count = writing(samples=2, turns=2, strategy=strategy), iter(range(100))
    script = lambda messages, sampling: answer(kernel(2.0, f"number {next(count)}"))  # noqa: E731
    finished = run(tmp_path / "run", tasks, wanted, script, levels=(2,))
    found = sorted((attempt.sample, attempt.turn) for attempt in finished.run.attempts)
    assert found == [(sample, turn) for sample in range(samples) for turn in range(turns)]
    assert (finished.run.settings["samples"], finished.run.settings["turns"]) == (samples, turns)


@pytest.mark.rotates
def test_a_beam_of_copies_is_whole_with_fewer_kernels(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(), again := FakeJudge())
    for _ in range(2):
        finished = run(tmp_path / "run", tasks, writing(turns=3, strategy="beam"), FAST, levels=(2,))
        assert finished.whole and [attempt.turn for attempt in finished.run.attempts] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert again.judged == [] and finished.run.settings["turns"] == 12


@pytest.mark.rotates
def test_skills_are_noted_and_their_selection_is_paid_for(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    judged_by(monkeypatch, FakeJudge(), FakeJudge(), FakeJudge())
    bare = run(tmp_path / "bare", tasks, writing(), FAST).run
    searched = run(tmp_path / "bm25", tasks, writing(library="starter", selection="bm25"), FAST).run
    assert not any(attempt.skills for attempt in bare.attempts) and any(attempt.skills for attempt in searched.attempts)
    assert searched.settings["library_facts"]["cards"] > 0 and "library_facts" not in bare.settings
    asked = run(tmp_path / "asked", tasks, writing(library="starter"), FAST).run
    shown = {a.task: a.prompt_tokens for a in asked.attempts}
    assert all(shown[a.task] > a.prompt_tokens for a in bare.attempts), "the selector's prompt counts"


def test_a_half_sample_goes_on_from_its_log(tmp_path: Path, tasks: Path, monkeypatch: Any) -> None:
    """As a kill leaves it: attempts of a sample that is not whole are not counted, and its answers are not asked for again."""
    judged_by(monkeypatch, FakeJudge(), again := FakeJudge())
    whole = run(tmp_path / "run", tasks, writing(samples=2, turns=3), FAST).run
    first = whole.tasks[0].id
    lines = (tmp_path / "run" / ATTEMPTS).read_bytes().splitlines(keepends=True)
    (tmp_path / "run" / ATTEMPTS).write_bytes(b"".join(lines[:2]) + lines[2][:40])  # in the middle of the first sample's lines
    log = tmp_path / "run" / SAMPLES / first / "1" / "events.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-3]))
    shutil.rmtree(tmp_path / "run" / SAMPLES / whole.tasks[1].id)
    resumed = run(tmp_path / "run", tasks, writing(samples=2, turns=3), FAST)
    assert resumed.whole and keys(resumed.run) == keys(whole) and len(resumed.run.attempts) == 18
    assert Counter(task for task, _ in again.judged)[whole.tasks[2].id] == 0, "a task that has its logs is not judged again"
