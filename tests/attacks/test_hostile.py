"""Broken and hostile candidates: each gets a clear verdict, and the next candidate is judged as if nothing had happened."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from corpus import TESTS, Specimen, load_task, read, rotating, specimens
from bottega.languages import candidate_from


HOSTILE = specimens("attacks/hostile")
HONEST = read(TESTS / "honest" / "cpu" / "relu_openmp.py")
SECRET = "the canary sings of 1789"

GENERATED = {
    "empty": "",
    "only_white_space": " \n\t\n",
    "only_a_comment": "# nothing to see\n",
    "null_bytes": "class ModelNew:\n    x = '\0'\n",
    "not_utf8": b"class ModelNew:\n    x = '\xff\xfe'\n".decode(errors="surrogateescape"),
    "byte_order_mark": "\ufeffimport torch\nraise ValueError('imported, at least')\n",
    "deeply_nested": "x = " + "(" * 5000 + ")" * 5000,
    "one_long_line": "x = 0  # " + "y" * 3_000_000,
    "a_line_of_imports": "# " + "from bottega.runtime import x " * 34_000,
    "a_line_of_kernels": "# " + "__global__ " * 95_000,
    "endless_expression": "x = " + "-" * 100_000 + "1",
}


def assert_judge_is_well(judge) -> None:
    verdict = judge.judge(HONEST.task, HONEST.candidate(), quick=True, timed=False)
    assert verdict.outcome in HONEST.expect, f"{verdict.outcome} {verdict.violations}: {verdict.diagnosis}"
    assert verdict.correct


@pytest.mark.parametrize("hostile", rotating(HOSTILE))
@pytest.mark.timeout(120)
def test_hostile_candidate(judge, hostile: Specimen, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text(SECRET)
    name = f"bottega-test-{os.getpid()}-{hostile.id}"
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        for end in (listener, abstract):
            end.setblocking(False)
        candidate = hostile.candidate(
            canary=canary,
            port=listener.getsockname()[1],
            abstract_socket=name,
            pid_namespace=os.readlink("/proc/self/ns/pid"),
        )
        verdict = judge.judge(hostile.task, candidate, **hostile.options)
        seen = f"{verdict.outcome} {[v.name for v in verdict.violations]}: {verdict.diagnosis}"
        for end in (listener, abstract):
            with pytest.raises(BlockingIOError):
                end.accept()
    names = {violation.name for violation in verdict.violations}
    assert verdict.outcome in hostile.expect, seen
    assert not hostile.violations or names & hostile.violations, seen
    assert verdict.diagnosis, "a verdict says what happened"
    assert len(verdict.diagnosis) < 20_000
    assert "\x1b" not in verdict.diagnosis and "\x00" not in verdict.diagnosis
    assert verdict.diagnosis.encode(), "lone surrogates cannot be printed"
    assert SECRET not in verdict.diagnosis
    assert canary.read_text() == SECRET
    assert_judge_is_well(judge)


@pytest.mark.rotates
@pytest.mark.parametrize("name", GENERATED)
def test_text_that_is_no_candidate(judge, name: str) -> None:
    verdict = judge.judge(load_task("relu"), candidate_from(GENERATED[name], name=name), timeout=20)
    assert verdict.outcome in ("compile_error", "runtime_error"), f"{verdict.outcome}: {verdict.diagnosis}"
    assert verdict.diagnosis
    assert len(verdict.diagnosis) < 20_000


def test_judge_is_well_after_all_of_them(judge) -> None:
    assert_judge_is_well(judge)
