"""Cold-start data from the trusted judge: who may use it, what is kept apart, how a run stops and goes on, and the judge's audit."""

from __future__ import annotations

import ast
import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_teacher import Hand, task
from test_data_command import ran
from test_judge_stage import _verdicts

import bottega
from bottega.compiler.build_step import FIRST_ATTEMPT, BuildStep, BuildSteps
from bottega.compiler.step_compiler import StepCompiler
from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.data import build
from bottega.data.audit import Audit, is_audited
from bottega.data.build import examples_stage, judge_stage, teach_stage
from bottega.data.records import task_record_of
from bottega.data.settings import ExampleStage, JudgeStage
from bottega.data.step_choice import chosen_steps
from bottega.data.store import JudgedStore
from bottega.data.stored_verdicts import judge_setup_of
from bottega.data.teacher_pool import SandboxTeacherPool, TeacherSpec
from bottega.data.trust import is_trusted, must_be_trusted, trusted_setup_of
from bottega.judge.device_facts import device_facts

MAKING: dict[str, Any] = {"command": "test", "tasks": ["test"]}
USERS = ("judge/trusted/", "data/build.py", "data/trust.py", "data/stored_verdicts.py", "app/data_command.py")
IN_A_SANDBOX = "episodes/optimize.py"
"""Searches the knobs of kernels that the judge has accepted; what it finds gets a verdict like any other."""


class ShortBuilder(StepCompiler):
    """The compiler, with the first and the last kernel of its builds: a test need not judge them all."""

    def build(self, task: Any, language: Any, without: Any = (), seed: int = 0) -> BuildSteps:
        build = super().build(task, language, without, seed)
        return BuildSteps(build.task_id, build.language, build.teacher, (build.steps[0], *build.steps[1:][-1:]))


def pool(_: Any = None) -> SandboxTeacherPool:
    return SandboxTeacherPool(TeacherSpec("test_trusted_stage:ShortBuilder"), 1, 120.0)


@pytest.mark.slow
def test_taught_first_then_judged_and_made_into_examples(tmp_path: Path) -> None:
    task_records = [task_record_of(task(name)) for name in ("silu_chain", "tanh_chain")]
    stage = JudgeStage(mistakes=1, proofs=0, workers=1, teachers=1, trusted=True, audit=0.0)
    taught = asyncio.run(teach_stage(tmp_path, task_records, pool, stage, MAKING)).progress
    assert (taught.tasks_done, taught.builds, taught.judged) == (2, 2, 0) and _verdicts(tmp_path) == {}
    first = asyncio.run(judge_stage(tmp_path, task_records[:1], pool, stage, MAKING)).progress
    assert first.judged >= 3 and first.faults == [] and first.spent["trying"] > 0 and first.judging_s > 0
    second = asyncio.run(judge_stage(tmp_path, task_records, pool, replace(stage, seconds=1e-9), MAKING)).progress
    assert second.time_up and second.left == 2 and second.judged == 0
    with JudgedStore(tmp_path, create=False, write=False) as store:
        trusted, real = trusted_setup_of(stage), judge_setup_of(stage)
        assert is_trusted(trusted) and not is_trusted(real) and len(store.judged(trusted)) == first.judged
        assert store.judged(real) == []
    outcome, card = examples_stage(tmp_path, ExampleStage(held_out=0.0))
    assert outcome.faults == [] and "; trusted " in card["device"] and card["audit"] is None
    assert "audited none" in (tmp_path / "card.md").read_text()


@pytest.mark.rotates
def test_what_is_taught_for_a_device_is_for_that_device_wherever_it_was_taught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_records = [task_record_of(task("silu_chain"))]
    hand = lambda: SandboxTeacherPool(TeacherSpec("hand_teacher:Hand"), 1, 60.0)  # noqa: E731
    asked: list[str] = []
    monkeypatch.setattr(build, "is_here", lambda device: device == "cpu")
    monkeypatch.setattr(build, "device_facts", lambda device: asked.append(device) or device_facts("cpu"))

    def noted(device: str) -> dict[str, Any]:
        asyncio.run(teach_stage(tmp_path, task_records, hand, JudgeStage(device=device, teachers=1, proofs=0), MAKING))
        with JudgedStore(tmp_path, create=False, write=False) as store:
            return store.fact("device")

    assert noted("cuda:1") == DeviceFacts("cuda", "unknown cuda device", "", 0, 0.0).to_json() and asked == []
    assert noted("cpu") == device_facts("cpu").to_json() and asked == ["cpu"]
    with JudgedStore(tmp_path) as store:
        (step, *_) = Hand().build(task_records[0].task, "cpp").steps
        store.add_verdict(judge_setup_of(JudgeStage()), task_records[0].task.id, step.candidate, Verdict(Outcome.INCORRECT))
    assert noted("cuda") == device_facts("cpu").to_json()  # a judge's own device stands


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_judge_audits_what_is_drawn_and_the_card_says_so(tmp_path: Path) -> None:
    task_records = [task_record_of(task(name)) for name in ("silu_chain", "tanh_chain")]
    stage = JudgeStage(mistakes=2, proofs=0, workers=2, teachers=1, trusted=True, audit=0.5)
    progress = asyncio.run(judge_stage(tmp_path, task_records, pool, stage, MAKING)).progress
    with JudgedStore(tmp_path, create=False, write=False) as store:
        judged = store.judged(trusted_setup_of(stage))
        chosen = {pair for pair in judged if is_audited(*pair, 0.5)}
        assert len(judged) == progress.judged and set(store.judged(judge_setup_of(stage))) == chosen and chosen
    assert progress.audit["audited"] == len(chosen) == progress.audit["same_class"]
    _, card = examples_stage(tmp_path, ExampleStage(held_out=0.0), judge_setup=trusted_setup_of(stage))
    assert card["audit"]["audited"] == len(chosen) and "by the trusted judge" in (tmp_path / "card.md").read_text()


def test_only_the_compiler_is_trusted(tmp_path: Path) -> None:
    for words in (["--teacher", "llm", "backbone=embedded"], ["--teacher", "hand_teacher:Hand"]):
        result = ran("build", "builtin:star_relu", "trust_teacher=true", *words, "--out", tmp_path / "out")
        assert isinstance(result.exception, UsageError) and "foreign code" in str(result.exception)
    assert not (tmp_path / "out").exists()
    hand = lambda _: SandboxTeacherPool(TeacherSpec("hand_teacher:Hand"), 1, 60.0)  # noqa: E731
    with pytest.raises(UsageError, match="foreign code"):
        asyncio.run(
            judge_stage(tmp_path, [task_record_of(task("silu_chain"))], hand, JudgeStage(trusted=True, proofs=0), MAKING)
        )
    assert _verdicts(tmp_path) == {}
    must_be_trusted(StepCompiler().name.partition(" ")[0])
    for words, what in (
        (["--teacher", "llm", "--stage", "teach"], "not for the llm teacher"),
        (["steps=some"], "steps"),
        (["--teacher", "parts", "trust_teacher=true", "steps=some"], "steps"),
        (["audit=2"], "audit = 2"),
        (["seconds=-1"], "seconds"),
    ):
        result = ran("build", "builtin:star_relu", *words, "--out", tmp_path / "out")
        assert isinstance(result.exception, UsageError) and what in str(result.exception)


def test_nothing_but_the_cold_start_can_reach_it_without_a_sandbox() -> None:
    root = Path(bottega.__file__).parent
    calls = [node for node in ast.walk(ast.parse((root / IN_A_SANDBOX).read_text())) if isinstance(node, ast.Call)]
    opened = [call for call in calls if ast.unparse(call.func) == "TrustedJudge"]
    assert opened and all("require_sandbox=True" in ast.unparse(call) for call in opened)
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        text = path.read_text()
        if name.startswith((*USERS, IN_A_SANDBOX)) or "trusted" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any("judge.trusted" in module for module in modules), name


def test_the_steps_of_a_build_that_are_judged() -> None:
    def step(name: str, parent: BuildStep | None) -> BuildStep:
        return BuildStep(
            Candidate(f"# {name}", "cpp", name, parent.candidate.id if parent else None), name if parent else FIRST_ATTEMPT
        )

    naive = step("naive", None)
    fused = step("fused", naive)
    library = [fused]
    own = [fused]
    for number in range(3):
        library.append(step(f"library{number}", library[-1]))
    for number in range(4):
        own.append(step(f"own{number}", own[-1]))
    steps = [naive, fused, *library[1:], *own[1:]]

    def names(which: str) -> list[str]:
        return [one.candidate.name for one in chosen_steps(steps, which)]

    assert names("all") == [one.candidate.name for one in steps]
    assert names("ends") == ["naive", "library1", "library2", "own2", "own3"]
    assert names("1") == ["naive"] and names("3") == ["naive", "library2", "own3"]
    assert len(names("7")) == 7 and set(names("ends")) < set(names("7")) and names("99") == names("all")
    build = Hand().build(task("silu_chain"), "cpp").steps
    assert chosen_steps(build[:1], "ends") == build[:1] and chosen_steps(build, "2") == (build[0], build[2])


def test_an_audit_counts_what_agrees() -> None:
    def verdict(outcome: Outcome, *ends: float) -> Verdict:
        return Verdict(outcome, speedup={"eager": Speedup(sum(ends) / 2, *ends)} if ends else {})

    audit, of = Audit(0.5), task("silu_chain")
    audit.take(of, verdict(Outcome.FASTER, 1.2, 1.4), verdict(Outcome.AMBIGUOUS, 0.9, 1.3), "eager")
    audit.take(of, verdict(Outcome.FASTER, 1.2, 1.4), verdict(Outcome.FASTER, 1.5, 1.7), "eager")
    audit.take(of, verdict(Outcome.INCORRECT), verdict(Outcome.INCORRECT), "eager")
    audit.take(of, verdict(Outcome.FASTER, 1.2, 1.4), verdict(Outcome.INCORRECT), "eager")
    assert (audit.audited, audit.same_class, audit.both_timed, audit.overlapping) == (4, 3, 2, 1)
    assert len(audit.differences) == 2 and "agrees on 3 of 4" in audit.words() and "speed of 1 of 2" in audit.words()
    pairs = [(f"task{number}", "kernel") for number in range(4000)]
    assert 300 < sum(is_audited(*pair, 0.1) for pair in pairs) < 500
    assert not any(is_audited(*pair, 0.0) for pair in pairs) and all(is_audited(*pair, 1.0) for pair in pairs)
