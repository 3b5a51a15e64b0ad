"""The truth in pieces is the truth as a whole, and nobody gets a piece twice, whatever does not fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from module_task import module_task

from bottega.judge.inputs import InputSet
from bottega.judge.oracle import Oracle
from bottega.judge.reference import Reference
from bottega.judge.tensor_transport import flatten

SOURCE = module_task("{forward}", "torch.randn(12, 12), torch.randn(12, 12)", arguments="a, b")


def prepared(forward: str) -> tuple[Oracle, InputSet, list[torch.Tensor]]:
    reference = Reference(SOURCE.format(forward=forward), "cpu", None)
    drawn = reference.draw()
    with torch.no_grad():
        outputs = flatten(reference.build()(*drawn.tensors))[1]
    return Oracle(reference), drawn, outputs


def whole(oracle: Oracle, drawn: InputSet, outputs: list[torch.Tensor]) -> torch.Tensor:
    pieces = list(oracle.truth(drawn, "loaded", outputs))
    starts = [piece.rows.start or 0 for piece in pieces]
    assert starts == sorted(set(starts))
    return torch.cat([piece.outputs[0] for piece in pieces])


def test_a_product_is_answered_in_rows_of_its_first_factor() -> None:
    """Both factors have as many rows; only one of them is the batch."""
    oracle, drawn, outputs = prepared("a @ b")
    assert oracle._may_slice(drawn, "loaded", outputs)
    assert oracle.sliced == (0,)
    oracle.rows = 5
    truth = drawn.tensors[0].double() @ drawn.tensors[1].double()
    assert torch.allclose(whole(oracle, drawn, outputs), truth, rtol=1e-12)


def test_rows_that_depend_on_each_other_are_not_torn_apart() -> None:
    oracle, drawn, outputs = prepared("torch.softmax(a + b, dim=0)")
    assert not oracle._may_slice(drawn, "loaded", outputs)


@pytest.mark.parametrize("failing", [1, 3])
def test_whoever_runs_out_of_memory_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    oracle, drawn, outputs = prepared("a * b + 1")
    prepare, calls = oracle._prepared, iter(range(100))

    def short_of_memory(state: str, where: str) -> Any:
        model = prepare(state, where)

        def run(*arguments: torch.Tensor) -> torch.Tensor:
            if next(calls) == failing:
                raise torch.OutOfMemoryError("no more")
            return model(*arguments)

        return run

    oracle.rows, oracle.sliced = 4, (0, 1)
    monkeypatch.setattr(oracle, "_prepared", short_of_memory)
    truth = drawn.tensors[0].double() * drawn.tensors[1].double() + 1
    assert torch.equal(whole(oracle, drawn, outputs), truth)
    assert oracle.kind == "fp64"


def test_without_an_fp64_form_the_reference_is_the_truth() -> None:
    oracle, drawn, outputs = prepared("(a @ b).float()")
    pieces = list(oracle.truth(drawn, "loaded", outputs))
    assert oracle.kind == "reference"
    assert pieces[0].outputs[0] is outputs[0]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("no more"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")])
def test_a_candidate_that_takes_the_memory_gets_no_weaker_truth(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    oracle, drawn, outputs = prepared("torch.softmax(a + b, dim=0)")

    def short_of_memory(state: str, where: str) -> Any:
        raise error

    monkeypatch.setattr(oracle, "_prepared", short_of_memory)
    oracle.settled = "fp64"
    with pytest.raises(torch.OutOfMemoryError):
        list(oracle.truth(drawn, "loaded", outputs))
    assert oracle.kind == "fp64"
    oracle.settled = ""  # as the task is opened, there is no candidate
    list(oracle.truth(drawn, "loaded", outputs))
    assert oracle.kind == "reference"


def test_one_draw_without_an_answer_in_fp64_makes_the_truth_of_no_other_weaker() -> None:
    oracle, drawn, outputs = prepared("a + b if a.dtype == torch.float32 or a[0, 0] > 0 else torch.zeros(2) @ torch.zeros(3)")
    drawn.tensors[0][0, 0] = 1.0
    list(oracle.truth(drawn, "loaded", outputs))
    oracle.settled = oracle.kind
    for corner, kind in ((-1.0, "reference"), (1.0, "fp64")):
        drawn.tensors[0][0, 0] = corner
        list(oracle.truth(drawn, "loaded", outputs))
        assert oracle.kind == kind
