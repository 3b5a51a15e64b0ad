"""A run whose model draws on the device that kernels are judged on: answers together, then verdicts together, nothing of both at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bench.small_bench import CPP, FakeJudge, cpp_text, judged_by, run, task_folder, writing
from bench.test_bench_judged import Borrowed
from episodes.decay import answer, kernel

from bottega.backbone.chat import ChatCompletion, Message, Sampling
from bottega.backbone.scripted import Script, ScriptedChat
from bottega.bench.attempt import BenchRun
from bottega.bench.run_directory import read_run
from bottega.bench.runner import SampleFailed, SampleKept
from bottega.core.candidate import Candidate
from bottega.core.errors import BackboneError, JudgeError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.phases import Phases, PhaseStatus
from bottega.judge.judge import Judge

Stay = tuple[str, float, float]


class OnDevice(ScriptedChat):
    """A scripted model that says it draws on the CPU, as one in this process does. It has no engine: sections alone hold it back."""

    device = "cpu"

    def __init__(self, script: Script, stays: list[Stay]) -> None:
        super().__init__(script)
        self.stays = stays
        self.lock: Any = None

    def share(self, lock: Callable[[], Phases]) -> Phases:
        self.lock = self.lock or lock()
        return self.lock  # type: ignore[no-any-return]

    async def chat(self, messages: Sequence[Message], sampling: Sampling) -> ChatCompletion:
        begun = time.monotonic()
        await asyncio.sleep(0.005 * (len(self.stays) % 5))
        found = await super().chat(messages, sampling)
        self.stays.append(("generate", begun, time.monotonic()))
        return found


class Timed(FakeJudge):
    def __init__(self, stays: list[Stay], **options: Any) -> None:
        super().__init__(**options)
        self.stays = stays
        self.looked: list[str] = []
        self.order: list[tuple[str, str]] = []

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        begun = time.monotonic()
        await asyncio.sleep(0.003)
        found = await super().judge_async(task, candidate, **options)
        self.stays.append(("judge", begun, time.monotonic()))
        self.order.append(("judge", task.id))
        return found

    def fitness(self, task: Task) -> dict[str, Any]:
        begun = time.monotonic()
        time.sleep(0.002)
        self.order.append(("look", task.id))
        try:
            return super().fitness(task)
        finally:
            self.stays.append(("judge", begun, time.monotonic()))


def overlap(stays: Sequence[Stay]) -> bool:
    return any(a[0] != b[0] and a[1] < b[2] and b[1] < a[2] for a in stays for b in stays)


def turns_of(stays: Sequence[Stay]) -> list[str]:
    kinds = [kind for kind, _, _ in sorted(stays, key=lambda stay: stay[1])]
    return [kind for number, kind in enumerate(kinds) if not number or kinds[number - 1] != kind]


def numbered() -> Script:
    """An answer of its own for each question, by what was asked and not by when."""
    return lambda messages, sampling: answer(kernel(2.0, f"number {sampling.seed}"))


def kept(found: BenchRun) -> list[tuple[Any, ...]]:
    return sorted((*one.key, one.candidate, one.prompt_tokens, one.output_tokens) for one in found.attempts)


def test_answers_come_first_and_a_task_is_looked_at_once_when_it_is_up(tmp_path: Path, monkeypatch: Any) -> None:
    tasks, stays = task_folder(tmp_path), []  # type: ignore[var-annotated]
    judged_by(monkeypatch, judge := Timed(stays, unfit=["2_Double"]), FakeJudge(unfit=["2_Double"]))
    told: list[Any] = []
    options = writing(samples=4, turns=2)
    shared = run(
        tmp_path / "shared", tasks, options, backbone=OnDevice(numbered(), stays), at_once=12, workers=2, on_event=told.append
    )
    apart = run(tmp_path / "apart", tasks, options, numbered())
    assert shared.whole and not overlap(stays) and turns_of(stays) == ["generate", "judge"] * 2
    assert kept(shared.run) == kept(apart.run), "what is recorded does not depend on the phases"
    assert [task.fitness for task in shared.run.tasks] == [task.fitness for task in apart.run.tasks]
    first: dict[str, int] = {}
    for number, (kind, task) in enumerate(judge.order):
        assert (task in first) == (kind == "judge"), "looked at once, before its first kernel"
        first.setdefault(task, number)
    assert {event.phase for event in told if isinstance(event, PhaseStatus)} == {"generate", "judge"}
    assert len([event for event in told if isinstance(event, SampleKept)]) == 12 and any(
        isinstance(event, SampleFailed) for event in told
    )


def test_the_kernels_of_one_task_are_judged_together(tmp_path: Path, monkeypatch: Any) -> None:
    tasks, stays = task_folder(tmp_path), []  # type: ignore[var-annotated]
    judged_by(monkeypatch, judge := Timed(stays))
    assert run(tmp_path / "run", tasks, writing(samples=5), backbone=OnDevice(numbered(), stays), at_once=15).whole
    order = [task for kind, task in judge.order if kind == "judge"]
    assert len([1 for a, b in pairwise(order) if a != b]) == 2, "three tasks, each brought up once"


def test_a_task_that_does_not_run_counts_as_before_with_what_its_answers_took(tmp_path: Path, monkeypatch: Any) -> None:
    tasks, stays = task_folder(tmp_path), []  # type: ignore[var-annotated]
    judged_by(monkeypatch, judge := Timed(stays, broken=["1_Negate"]), again := FakeJudge())
    script = lambda messages, sampling: (  # noqa: E731
        "I would rather talk." if "x * 2" in messages[-1].content else answer(kernel(2.0))
    )
    for _ in range(2):
        found = run(tmp_path / "run", tasks, writing(samples=2, turns=2), backbone=OnDevice(script, stays), at_once=6)
        by_name = {row.name: [one for one in found.run.attempts if one.task == row.id] for row in found.run.tasks}
        assert found.whole and [len(by_name[name]) for name in ("1_Relu", "2_Double", "1_Negate")] == [4, 4, 2]
        invalid = by_name["1_Negate"]
        assert {one.verdict.outcome for one in invalid if one.verdict} == {Outcome.INVALID_TASK}
        assert all(one.candidate == "" and one.output_tokens > 0 for one in invalid)
    assert len([1 for kind, _ in judge.order if kind == "look"]) >= 3, "also a task none of whose answers holds a kernel"
    assert again.judged == []


def test_answers_that_were_drawn_and_not_judged_are_not_asked_for_again(tmp_path: Path, monkeypatch: Any) -> None:
    """A run that is ended in its first phase of judging: the next session has only verdicts to do."""
    tasks = task_folder(tmp_path)

    class Hangs(FakeJudge):
        async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
            asyncio.get_running_loop().call_later(0.05, everything[0].cancel)
            await asyncio.sleep(3600)
            raise AssertionError

    everything: list[asyncio.Task[Any]] = []
    judged_by(monkeypatch, Hangs(), judge := FakeJudge())

    def begun(event: Any) -> None:
        if not everything:
            task = asyncio.current_task()
            assert task is not None
            everything.append(task)

    chat = OnDevice(numbered(), [])
    with pytest.raises(asyncio.CancelledError):
        run(tmp_path / "run", tasks, writing(samples=2), backbone=chat, at_once=6, on_event=begun)
    assert len(chat.asked) == 6 and not read_run(tmp_path / "run").attempts
    assert chat.lock.now.phase is None, "whoever ends lets go of its phase"
    silent = OnDevice([BackboneError("nobody is to be asked")] * 20, [])
    found = run(tmp_path / "run", tasks, writing(samples=2), backbone=silent, at_once=6)
    assert found.whole and not silent.asked and len(judge.judged) == 6 == len(found.run.attempts)


def test_errors_in_either_phase_let_the_other_go_on(tmp_path: Path, monkeypatch: Any) -> None:
    tasks, stays = task_folder(tmp_path), []  # type: ignore[var-annotated]

    class Fails(Timed):
        async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
            if "x * 2" in task.source:
                raise JudgeError("the referee failed")
            return await super().judge_async(task, candidate, **options)

    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        if "-x" in messages[-1].content:
            raise BackboneError("no answer")
        return answer(kernel(2.0))

    judged_by(monkeypatch, Fails(stays))
    found = run(tmp_path / "run", tasks, writing(samples=2, turns=2), backbone=OnDevice(script, stays), at_once=6)
    trouble = {row.name: row.trouble for row in found.run.tasks}
    assert trouble["1_Relu"] == "" and "the referee failed" in trouble["2_Double"] and "no answer" in trouble["1_Negate"]
    assert not overlap(stays) and len(found.run.attempts) == 4


@pytest.mark.slow
def test_with_the_real_judge(tmp_path: Path, monkeypatch: Any, judge: Judge) -> None:
    tasks, stays = task_folder(tmp_path), []  # type: ignore[var-annotated]

    class Real(Borrowed):
        def __init__(self) -> None:
            self.looked = 0

        async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
            begun = time.monotonic()
            found = await judge.judge_async(task, candidate, quick=True)
            stays.append(("judge", begun, time.monotonic()))
            return found

        def fitness(self, task: Task) -> dict[str, Any]:
            begun = time.monotonic()
            found = judge.fitness(task)
            stays.append(("judge", begun, time.monotonic()))
            self.looked += 1
            return found

    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        text = "".join(message.content for message in messages)
        name = next(
            name for name, body in {"1_Relu": "torch.relu(x)", "2_Double": "x * 2", "1_Negate": "-x"}.items() if body in text
        )
        return answer(cpp_text(CPP[name]) + f"\n# {sampling.seed}\n")

    judged_by(monkeypatch, real := Real())  # type: ignore[arg-type]
    found = run(tmp_path / "run", tasks, writing(turns=2), backbone=OnDevice(script, stays), at_once=3)
    outcomes = {one.verdict.outcome for one in found.run.attempts if one.verdict}
    assert found.whole and len(found.run.attempts) == 6 and real.looked == 3
    assert outcomes <= {Outcome.FASTER, Outcome.SAME, Outcome.SLOWER, Outcome.AMBIGUOUS}
    assert not overlap(stays) and turns_of(stays) == ["generate", "judge"] * 2
