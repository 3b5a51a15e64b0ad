"""Operands of other shapes are looked up by the shapes that the callgraph shows, and no index is taken apart for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lookup_tasks import LOOKUPS
from small_tasks import task
from triton_process import interpreted

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.pipeline import DEPLOYMENT, read
from bottega.compiler.callgraph import CallGraph
from bottega.compiler.callgraph_recorder import record
from bottega.compiler.library_compiler import LibraryCompiler
from bottega.data.answers import written

HERE = Path(__file__).parent
SHAPES = re.compile(r"\(\d+(?:, \d+)*,?\)")


def answer(name: str) -> tuple[str, CallGraph]:
    given = next(one for one in LOOKUPS if one.name == name)
    whole = LibraryCompiler().build(given, "triton").steps[-1].candidate.source
    callgraph = record(given.source)
    return written(whole, "", "terse", "", given.source, callgraph), callgraph


@pytest.mark.rotates
@pytest.mark.parametrize("name", [one.name for one in LOOKUPS])
def test_shapes_stand_in_the_callgraph_and_no_index_is_taken_apart(name: str) -> None:
    short, callgraph = answer(name)
    lines = [line for line in short.split("\n") if "index_in" in line]
    assert lines and "def index_in" not in short
    given = [tensor for one in callgraph.inputs for tensor in one.tensors]
    results = [result for call in callgraph.calls for result in call.results]
    shown = {tensor.shape for tensor in (*given, *callgraph.weights, *results)}
    shapes = {tuple(int(size) for size in re.findall(r"\d+", text)) for line in lines for text in SHAPES.findall(line)}
    between = (
        {(3, 5, 4, 8)} if name == "cropped" else set()
    )  # a part of a part: cut along one dimension, and not along the other
    assert shapes and shapes <= shown | between
    assert "HW" not in short and "_stride" not in short


@pytest.mark.rotates
@pytest.mark.parametrize("name", [one.name for one in LOOKUPS])
def test_an_answer_with_lookups_becomes_whole_and_is_not_flagged(name: str) -> None:
    given = next(one for one in LOOKUPS if one.name == name)
    short, _ = answer(name)
    read_answer = read(short, AnswerContext(given.source, "triton", "terse"), DEPLOYMENT)
    assert "def index_in" in read_answer.source
    assert read_answer.findings == () and read_answer.repairs == ()


def test_a_part_has_the_name_that_the_callgraph_gives_it() -> None:
    short, callgraph = answer("chunked_gate")
    assert re.search(r"t1_0, t1_1 = chunk\(x, 2, dim=1\)", callgraph.text)
    first, second = (re.search(rf"    t1_{k} = tl.load\(x_ptr \+ (.*), mask=mask\)", short) for k in (0, 1))
    assert first and first[1] == "index_in_part((3, 10, 4, 6), 1, 0, (3, 5, 4, 6), offsets)"
    assert second and second[1] == "index_in_part((3, 10, 4, 6), 1, 5, (3, 5, 4, 6), offsets)"
    told = short.index("    # t1_0, t1_1 = chunk", short.index("@triton.jit"))
    assert told < min(short.index("    t1_0 = "), short.index("    t1_1 = "))


def test_a_part_along_two_dimensions_is_a_part_of_a_part() -> None:
    short, _ = answer("cropped")
    inner = "index_in_part((3, 5, 4, 8), 3, 2, (3, 5, 4, 6), offsets)"
    assert f"x_ptr + index_in_part((3, 5, 6, 8), 2, 1, (3, 5, 4, 8), {inner})" in short


def test_a_global_maximum_is_a_row_and_no_window() -> None:
    given = task("highest", "return F.adaptive_max_pool2d(torch.tanh(x), 1)", "torch.randn(3, 5, 4, 6)")
    whole = LibraryCompiler().build(given, "triton").steps[-1].candidate.source
    assert "nan_max" in whole and "for ky" not in whole


@pytest.mark.slow
@pytest.mark.parametrize("limits", ["wide", "tight"])
def test_they_compute_what_the_module_does_by_lookups(limits: str) -> None:
    found = interpreted(HERE / "triton_interpreted.py", limits, *(one.name for one in LOOKUPS))
    errors = {f"{name}: {technique}": error for name, steps in found.items() for technique, error in steps}
    assert len(found) == len(LOOKUPS) and sum("shelved_parts" in name for name in errors) >= len(LOOKUPS) - 2
    assert {name: error for name, error in errors.items() if isinstance(error, str) or not error < 5e-6} == {}
