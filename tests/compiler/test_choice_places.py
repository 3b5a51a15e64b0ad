"""Sizes of places, read from an answer's text without running any of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bottega.compiler.callgraph import Call, CallGraph, Input, NamedTensor
from bottega.compiler.choice_places import STRIDED, ChoicePlace, places_of

X = NamedTensor("x", (64, 32, 512))
GRAPH = CallGraph((Input("x", (X,)),), (), (Call("relu", (), (NamedTensor("t1", (64, 32, 512)),)),), "t1")
ANSWER = """
class ModelNew(Model):
    def forward(self, x):
        t1 = torch.empty_like(x)
        n = {n}
        {before}
        kernel[{grid}]({arguments})
        return t1
"""


def answer(
    n: str = "t1.numel()",
    before: str = "pass",
    grid: str = "(triton.cdiv(n, 1024),)",
    arguments: str = "x, t1, n, BLOCK=1024, num_warps=4",
) -> str:
    return ANSWER.format(n=n, before=before, grid=grid, arguments=arguments)


def test_the_elements_of_a_launch() -> None:
    assert places_of(answer(), ["elements"], GRAPH) == {
        "elements": ChoicePlace("elements", "elements", {"elements": 64 * 32 * 512})
    }


@pytest.mark.parametrize(
    "n, elements",
    [
        ("x.shape[0] * x.shape[-1]", 64 * 512),
        ("max(1, x.numel() // 8)", 64 * 32 * 64),
        ("triton.next_power_of_2(x.shape[1] + 1)", 64),
        ("torch.empty((4, x.shape[1]), device=x.device).numel()", None),
    ],
)
def test_sizes_are_reckoned_from_shapes(n: str, elements: int | None) -> None:
    found = places_of(answer(n), ["elements"], GRAPH)
    assert ("elements" in found) == (elements is not None)
    assert elements is None or found["elements"].sizes == {"elements": elements}


def test_rows_of_a_launch_and_those_along_another_axis() -> None:
    rows = "rows = x.shape[0] * x.shape[1]; columns = x.shape[2]; height = max(1, 2048 // columns)"
    launch = "x, t1, rows, columns, ROWS=height, COLUMNS=512"
    (found,) = places_of(answer(before=rows, grid="(rows,)", arguments=launch), ["rows"], GRAPH).values()
    assert found == ChoicePlace("rows", "rows", {"rows": 2048, "columns": 512})
    (found,) = places_of(answer(before=rows, grid="(rows,)", arguments=f"{launch}, J=1"), ["rows"], GRAPH).values()
    assert found.function == f"rows{STRIDED}"


def test_operands_of_a_call_stand_in_its_name_and_constants_have_no_place() -> None:
    (found,) = places_of(answer(), ["linear 512x1024 4096x1024", "BLOCK_M"], GRAPH).values()
    assert found.sizes == {"rows": 512, "columns": 4096, "depth": 1024, "batch": 1}


def test_nothing_of_the_text_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "run"
    hostile = f"[c for c in ().__class__.__base__.__subclasses__()] and open({str(trap)!r}, 'w') and 1"
    for text in (
        hostile,
        f"open({str(trap)!r}, 'w').fileno()",
        "2 ** 2 ** 2 ** 40",
        "x.shape[99]",
        "7 // 0",
        "9" * 400 + " * 9",
    ):
        assert not places_of(answer(text), ["elements"], GRAPH)
    assert not trap.exists()
