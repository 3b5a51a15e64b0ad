"""The plain loop does what its description says, is fooled as it must be, and runs in a sandbox; the counting of mistakes by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.small_bench import task_text
from corpus import specimens
from peer_evaluators import HERE, SAFE, Finding, Kernel, chosen_kernels, in_a_sandbox, mistakes
from plain_loop import evaluate

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.sandbox.fork_server import ForkServer

TASK = task_text("torch.relu(x)", size=4096)
RIGHT = TASK.replace("class Model(", "class ModelNew(")
WRONG = RIGHT.replace("torch.relu(x)", "x")
REMEMBERS = RIGHT.replace(
    "        return torch.relu(x)",
    "        self.calls = getattr(self, 'calls', 0) + 1\n        return torch.relu(x) if self.calls <= 5 else x",
)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_loop_tells_right_from_wrong_on_what_it_looks_at() -> None:
    assert evaluate(TASK, RIGHT, "cpu").keys() == {"correct", "baseline_ms", "candidate_ms", "speedup"}
    assert evaluate(TASK, WRONG, "cpu") == {"correct": False}
    assert evaluate(TASK, "1 / 0", "cpu") == {"correct": False, "error": "ZeroDivisionError: division by zero"}
    assert evaluate(TASK, REMEMBERS, "cpu")["correct"] is True, "after its five comparisons it looks no more"


@pytest.mark.slow
def test_it_runs_in_a_sandbox_that_ends_with_it() -> None:
    with ForkServer(environment={"PYTHONPATH": str(HERE)}, extra_readonly=(str(HERE),)) as server:
        kernel = Kernel("honest", "relu", Task(TASK), Candidate.from_source(RIGHT))
        assert in_a_sandbox(server, kernel, "cpu", 120)["correct"] is True
        dies = Kernel("attack", "dies", Task(TASK), Candidate.from_source("import os\nos._exit(7)"))
        assert "died" in in_a_sandbox(server, dies, "cpu", 120)["error"]


def test_every_name_of_the_safe_list_is_an_attack() -> None:
    there = {each.id for folder in ("cpu", "cuda") for each in specimens(f"attacks/{folder}")}
    assert set(SAFE) <= there, f"renamed or gone: {sorted(set(SAFE) - there)}"


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_groups_come_in_turn(kind: str) -> None:
    kernels = chosen_kernels(kind, 3)
    assert {each.group for each in kernels[:4]} >= {"honest", "ratio"}
    assert sum(each.group == "honest" for each in kernels) == sum(each.group == "ratio" for each in kernels) == 3
    assert all(each.name in SAFE for each in kernels if each.group in ("attack", "wrong"))


def test_mistakes_are_counted_by_kind() -> None:
    found = [
        Finding("a", "attack", True, True, 2.0, None, 1.0, ""),
        Finding("b", "wrong", True, False, 1.0, None, 1.0, ""),
        Finding("c", "wrong", False, False, None, None, 1.0, ""),
        Finding("d", "honest", False, False, None, None, 1.0, ""),
        Finding("e", "ratio", True, True, 1.20, 1.25, 1.0, ""),
        Finding("f", "ratio", True, True, 1.26, 1.25, 1.0, ""),
        Finding("g", "ratio", False, False, None, 1.0, 1.0, ""),
    ]
    counted = {kind: ([each.kernel for each in wrong], of) for kind, (wrong, of) in mistakes(found).items()}
    assert counted == {
        "attacks called faster": (["a"], 3),
        "wrong kernels called right": (["b"], 2),
        "honest kernels refused": (["d"], 1),
        "known ratios missed": (["e", "g"], 3),
    }
