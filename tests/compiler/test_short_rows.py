from __future__ import annotations

import pytest
import torch
from executed import executed
from modules_in_cpp import module

from bottega.compiler.draft_compiler import DraftCompiler
from bottega.core.task import Task

pytestmark = pytest.mark.rotates

SHORT = {
    "distances": module("(x[:, None, :] - y).square().sum(-1).sqrt()", "torch.randn(20, 4), torch.randn(37, 4)", "x, y"),
    "largest of a middle dimension": module("x.amax(1) * 2", "torch.randn(5, 3, 16)"),
    "product": module("x.prod(0) + 1", "torch.randn(6, 40)"),
    "spread": module("x.var(1)", "torch.randn(9, 5, 33)"),
    "two dimensions": module("x.mean((1, 3))", "torch.randn(4, 2, 17, 3)"),
}


@pytest.mark.parametrize("source", SHORT.values(), ids=SHORT)
def test_few_terms_are_written_out(source: str) -> None:
    task = executed(source)
    (draft, *_) = DraftCompiler().build(Task(source, "module").validate(), "cpp").steps
    text = draft.candidate.source
    assert "sum_of" not in text and "largest_of" not in text and "product_of" not in text
    inputs = task.get_inputs()
    torch.testing.assert_close(executed(text).ModelNew()(*inputs), task.Model()(*inputs))


def test_what_every_row_reads_at_a_distance_is_copied_side_by_side_once() -> None:
    text = DraftCompiler().build(Task(SHORT["distances"], "module").validate(), "cpp").steps[0].candidate.source
    assert text.index("y_line[c] = y[") < text.index("#pragma omp parallel for")


def test_nan_is_passed_on() -> None:
    text = DraftCompiler().build(Task(module("x.amax(1)", "torch.randn(4, 3, 16)"), "module").validate(), "cpp").steps[0]
    x = torch.randn(4, 3, 16)
    x[1, 2, 5], x[2, 0, 6] = float("nan"), -float("nan")
    torch.testing.assert_close(executed(text.candidate.source).ModelNew()(x), x.amax(1), equal_nan=True)
