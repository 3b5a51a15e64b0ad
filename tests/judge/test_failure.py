"""Whatever a foreign exception does when it is looked at, it becomes short plain data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bottega.judge.failure import TEXT_LIMIT, bounded, describe
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


def test_the_first_error_of_a_chain_is_told() -> None:
    try:
        try:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        except RuntimeError as error:
            raise ValueError("the kernel failed") from error
    except ValueError as error:
        told = describe("forward", error, "")
    assert told["text"] == "the kernel failed"
    assert told["first"] == "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert describe("forward", ValueError("alone"), "")["first"] == ""


def test_exceptions_in_a_ring_and_in_a_long_row_are_survived() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    assert len(json.dumps(describe("forward", one, ""))) < 1000


def test_of_a_long_log_the_first_error_is_kept() -> None:
    log = "Error building extension 'mine': [1/2] c++\n" + "note: an instantiation\n" * 2000
    told = describe("construct", RuntimeError(log + "mine.cu(7): error: identifier x is undefined\n" + "more\n" * 9999), "")
    assert len(told["text"]) <= TEXT_LIMIT and told["compiling"]
    assert "mine.cu(7): error: identifier x is undefined" in told["text"] and told["text"].startswith("Error building")


def test_a_syntax_error_comes_with_its_line() -> None:
    with pytest.raises(SyntaxError) as raised:
        compile("x = 1\ny = = 2\n", "candidate.py", "exec")
    assert describe("import", raised.value, "")["where"] == ["line 2: y = = 2"]


def test_what_another_process_reports_is_words_and_no_nests() -> None:
    nest: list = []
    for _ in range(100_000):
        nest = [nest]
    told = bounded(
        {"stage": nest, "type": 7, "text": "x" * 10**6, "where": [nest, "line 1"] * 99, "first": {"a": nest}, "more": 1}
    )
    assert told["stage"] == "" and told["type"] == "7" and len(told["text"]) == TEXT_LIMIT
    assert told["where"] == ["", "line 1"] * 3 and told["first"] == "" and "more" not in told
    assert bounded(nest) == {}
