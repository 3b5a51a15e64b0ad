"""Whatever a foreign exception does when it is looked at, it becomes short plain data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bottega.judge.failure import TEXT_LIMIT, describe
from bottega.judge.loading import import_source


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit


def test_a_failure_is_bounded_plain_data() -> None:
    told = describe("forward", ValueError("x" * 10**6), "")
    assert told["stage"] == "forward"
    assert told["type"] == "ValueError"
    assert len(told["text"]) == TEXT_LIMIT
    assert len(json.dumps(told)) < 2 * TEXT_LIMIT


def test_an_exception_that_cannot_be_printed_is_told() -> None:
    told = describe("forward", Mute(), "")
    assert told["type"] == "Mute"
    assert "could not be printed" in told["text"]


def test_a_type_with_an_endless_name_is_cut() -> None:
    assert len(describe("forward", type("E" * 10**5, (Exception,), {})(), "")["type"]) == 80


@pytest.mark.parametrize(
    ("error", "compiling"),
    [
        (SyntaxError("x"), True),
        (IndentationError("x"), True),
        (type("CompilationError", (Exception,), {})("x"), True),
        (type("CompileError", (Exception,), {})("x"), True),
        (RuntimeError("Error building extension 'mine'"), True),
        (RuntimeError("shapes do not match"), False),
        (NameError("x"), False),
    ],
)
def test_compiling_is_told_from_running(error: Exception, compiling: bool) -> None:
    assert describe("import", error, "")["compiling"] is compiling


def test_the_place_is_in_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    module = import_source(
        "def outer():\n    return inner()\n\ndef inner():\n    raise ValueError('deep')\n", "candidate_under_test"
    )
    with pytest.raises(ValueError, match="deep") as raised:
        module.outer()
    told = describe("forward", raised.value, str(module.__file__))
    assert told["where"] == ["line 2, in outer: return inner()", "line 5, in inner: raise ValueError('deep')"]
