"""Drafts as a GPU runs them: the compiler of Triton and of CUDA in the place of an interpreter, and captured graphs replayed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from executed import executed
from half_tasks import HALVES
from torch.utils._pytree import tree_leaves, tree_map_only
from triton_interpreted import TASKS, distance, loaded, prepared
from value_tasks import VALUES

from bottega.compiler.build_step import Refusal
from bottega.compiler.draft_compiler import DraftCompiler
from bottega.core.task import Task

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

LIMIT = 2e-5
TIMES_OWN = 1.5
"""Of modules in halves: how many times the module's own error."""
DRAFTS = {"triton": 4, "cuda": 2}


def on_the_gpu(given: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda tensor: tensor.cuda(), given)


def drafts(task: Task, language: str) -> list[tuple[str, str]]:
    try:
        return [(step.technique, step.candidate.source) for step in DraftCompiler(DRAFTS[language]).build(task, language).steps]
    except Refusal:
        return []


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture(autouse=True)
def made_on_the_gpu() -> Iterator[None]:
    """Some modules make tensors as they run."""
    with torch.device("cuda"):
        yield


@pytest.mark.parametrize("language", DRAFTS)
@pytest.mark.parametrize("name", TASKS)
def test_a_draft_computes_what_the_module_does(name: str, language: str, tmp_path: Path) -> None:
    given = TASKS[name]
    task = executed(given.source, "task")
    torch.manual_seed(0)
    inputs = on_the_gpu(task.get_inputs())
    wide = [value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value for value in inputs]
    with torch.no_grad():
        wanted = prepared(task.Model).double().cuda()(*wide)
        limit = LIMIT
        if given in HALVES or any(
            value.dtype in (torch.float16, torch.bfloat16) for value in inputs if isinstance(value, torch.Tensor)
        ):
            eps = torch.finfo(next(value.dtype for value in (*inputs, wanted) if value.is_floating_point())).eps
            limit = TIMES_OWN * max(distance(prepared(task.Model).cuda()(*inputs), wanted), eps)
        for number, (technique, source) in enumerate(drafts(given, language)):
            model = prepared(loaded(source, str(tmp_path), number).ModelNew).cuda()
            for call in ("first", "second"):
                assert distance(model(*inputs), wanted) < limit, (technique, call)


@pytest.mark.parametrize("language", DRAFTS)
@pytest.mark.parametrize("name", VALUES)
def test_infinities_bits_and_places_are_torchs(name: str, language: str, tmp_path: Path) -> None:
    task = executed(VALUES[name], "task")
    torch.manual_seed(0)
    with torch.no_grad(), torch.device("cpu"):
        model, inputs = task.Model(), task.get_inputs()
        wanted = on_the_gpu(model(*inputs))
    inputs = on_the_gpu(inputs)
    with torch.no_grad():
        theirs = deepcopy(model).cuda()(*inputs)
        for number, (technique, source) in enumerate(drafts(Task(VALUES[name], name), language)):
            new = loaded(source, str(tmp_path), number).ModelNew()
            new.load_state_dict(model.state_dict())
            # Torch's own attention on a GPU has another answer than on a CPU where a query sees nothing: a draft may call it.
            for got, *right in zip(*map(tree_leaves, (new.cuda()(*inputs), wanted, theirs)), strict=True):
                close = [torch.allclose(got, one, rtol=2e-5, atol=2e-5, equal_nan=True) for one in right]
                assert any(close), (technique, got, right)
