"""The chooser of the corpus: every file comes round, a touched file is there at once, and a printed number repeats a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from corpus import PARTS, SEED, TESTS, Specimen, is_due, name_of, rotating, rotation, specimens, touched

NAMES = [f"attacks/cpu/attack_{number}.py" for number in range(500)]


def git(folder: Path, *words: str) -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, env={**os.environ, **who})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A commit with one file, and a second with twenty more."""
    git(tmp_path, "init", "-q")
    (tmp_path / "tests" / "attacks").mkdir(parents=True)
    (tmp_path / "tests" / "attacks" / "old.py").write_text("1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    for number in range(20):
        (tmp_path / "tests" / "attacks" / f"new_{number}.py").write_text("1\n")
        (tmp_path / "tests" / f"test_other_{number}.py").write_text("1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "twenty more")
    return tmp_path / "tests"


@pytest.mark.parametrize("first", [0, 3, 20_774])
def test_each_comes_exactly_once_in_a_round(first: int) -> None:
    for name in NAMES:
        assert sum(is_due(name, turn) for turn in range(first, first + PARTS)) == 1
    assert PARTS <= 14, "two weeks of daily commits"


def test_parts_are_of_like_size_and_not_the_first_by_alphabet() -> None:
    for turn in range(PARTS):
        due = [place for place, name in enumerate(NAMES) if is_due(name, turn)]
        assert len(NAMES) / PARTS / 2 < len(due) < len(NAMES) / PARTS * 2
        assert any(one + 1 == other for one, other in zip(due, due[1:])), "not every so-manieth either"


def test_adding_a_file_moves_no_other() -> None:
    before = {name for name in NAMES if is_due(name, 2)}
    assert {name for name in [*NAMES, "attacks/cpu/aaa.py"] if is_due(name, 2)} - before <= {"attacks/cpu/aaa.py"}


def test_the_number_is_the_days_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED, "41")
    assert rotation() == 41
    monkeypatch.delenv(SEED)
    monkeypatch.setattr("corpus.time.time", lambda: 86400.0 * 20_774 + 5)
    assert rotation() == 20_774
    monkeypatch.setenv(SEED, "tomorrow")
    with pytest.raises(ValueError, match="BOTTEGA_CORPUS_SEED is 'tomorrow'; give the whole number"):
        rotation()


def test_touched_files_are_those_of_the_tree_and_of_the_last_commit(repository: Path) -> None:
    attacks = repository / "attacks"
    (attacks / "old.py").write_text("2\n")
    (attacks / "untracked.py").write_text("1\n")
    found = touched(repository)
    assert {attacks / "old.py", attacks / "untracked.py"} <= found
    assert len(found) == 2 + 16, "of the last commit's twenty no more than sixteen, and no file that is not of the corpus"
    assert all(path.parent == attacks for path in found)
    assert touched(repository, most=0) == {attacks / "old.py", attacks / "untracked.py"}


def test_without_git_nothing_is_touched(tmp_path: Path) -> None:
    assert touched(tmp_path) == frozenset()


def test_what_is_not_due_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Specimen] = specimens("attacks/cpu")
    monkeypatch.setattr("corpus.touched", lambda: frozenset({found[0].path}))
    seen: set[str] = set()
    for turn in range(PARTS):
        monkeypatch.setenv(SEED, str(turn))
        quick = {row.id for row in rotating(found) if not row.marks}
        assert quick == {each.id for each in found if is_due(name_of(each), turn)} | {found[0].id}
        seen |= quick
    assert seen == {each.id for each in found}


@pytest.mark.rotates
def test_a_run_says_the_number_and_takes_the_given_one() -> None:
    words = ["-m", "pytest", "-o", "addopts=-q", "-p", "no:cacheprovider", "--collect-only", "-m", "not slow", "attacks/test_cpu.py"]
    environment = {**os.environ, SEED: "12"}
    done = subprocess.run([sys.executable, *words], cwd=TESTS, env=environment, capture_output=True, text=True, check=False)
    assert f"corpus: part {12 % PARTS + 1} of {PARTS}; to repeat it: {SEED}=12" in done.stdout
    due = [each.id for each in specimens("attacks/cpu") if is_due(name_of(each), 12)]
    assert all(f"[{name}]" in done.stdout for name in due)
