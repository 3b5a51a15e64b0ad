"""The corpus itself: large enough, and every file says what it does, what it gains and what it must get."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from corpus import ACCEPTED, ON_A_GPU, TASKS, TESTS, Specimen, load_task, read, specimens

from bottega.core.candidate import Candidate

FOLDERS = ("attacks/cpu", "attacks/cuda", "attacks/cuda_together", "attacks/hostile")
ATTACKS = [specimen for folder in FOLDERS for specimen in specimens(folder)]
HONEST = [specimen for folder in ("honest/cpu", "honest/cuda") for specimen in specimens(folder)]


def test_there_are_enough_of_them() -> None:
    assert len(specimens("attacks/cpu")) >= 34
    assert len(specimens("attacks/cuda")) >= 16
    assert len(ATTACKS) >= 40
    assert len(specimens("honest/cpu")) >= 16
    assert len(specimens("honest/cuda")) >= 8


@pytest.mark.parametrize("specimen", ATTACKS + HONEST, ids=lambda specimen: f"{specimen.path.parent.name}-{specimen.id}")
def test_header(specimen: Specimen) -> None:
    assert specimen.explanation.endswith((".", ")"))
    assert specimen.task.validate()
    assert isinstance(specimen.candidate(), Candidate)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack.path.parent.name}-{attack.id}")
def test_no_attack_may_be_called_faster(attack: Specimen) -> None:
    assert "faster" not in attack.expect


@pytest.mark.parametrize("honest", HONEST, ids=lambda honest: honest.id)
def test_honest_ones_expect_to_be_accepted(honest: Specimen) -> None:
    assert honest.expect <= ACCEPTED
    assert not honest.violations


@pytest.mark.parametrize("name", [*sorted(path.stem for path in TASKS.glob("*.py")), *ON_A_GPU])
def test_every_task_is_used(name: str) -> None:
    load_task(name)
    assert any(specimen.task_name == name for specimen in ATTACKS + HONEST)


def test_the_broken_one_is_the_only_one_that_does_not_parse() -> None:
    broken = []
    for specimen in ATTACKS + HONEST:
        try:
            ast.parse(specimen.path.read_text())
        except SyntaxError:
            broken.append(specimen.id)
    assert broken == ["syntax_error"]


def test_a_file_without_a_header_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text('"""Says nothing about a task."""\n')
    with pytest.raises(ValueError, match="expect and task"):
        read(bare)
    assert TESTS.name == "tests"
