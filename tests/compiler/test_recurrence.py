from __future__ import annotations

import pytest
import torch
from executed import executed
from modules_in_cpp import module
from torch.utils._pytree import tree_leaves

from bottega.compiler.build_step import Refusal
from bottega.compiler.draft_compiler import DraftCompiler
from bottega.core.task import Task

pytestmark = pytest.mark.rotates

ALONE = {
    "lstm": module("self.r(x)", "torch.randn(5, 3, 6)", init="self.r = nn.LSTM(6, 9)"),
    "both ways, batch first": module(
        "self.r(x)", "torch.randn(7, 4, 6)", init="self.r = nn.LSTM(6, 10, num_layers=2, bidirectional=True, batch_first=True)"
    ),
    "states given, no bias": module(
        "self.r(x, (h, c))",
        "torch.randn(4, 1, 5), torch.randn(2, 1, 8), torch.randn(2, 1, 8)",
        "x, h, c",
        "self.r = nn.LSTM(5, 8, num_layers=2, bias=False)",
    ),
    "gru, states given": module(
        "self.r(x, h)", "torch.randn(5, 6, 7), torch.randn(4, 6, 13)", "x, h", "self.r = nn.GRU(7, 13, 2, bidirectional=True)"
    ),
    "one sequence": module("self.r(x)", "torch.randn(6, 5)", init="self.r = nn.GRU(5, 16)"),
    "plain": module("self.r(x)", "torch.randn(4, 3, 5)", init="self.r = nn.RNN(5, 9, 2, nonlinearity='relu')"),
    "last step, then a layer": module(
        "self.f(self.r(x)[0][:, -1])",
        "torch.randn(40, 3, 5)",
        init="self.r = nn.RNN(5, 24, batch_first=True); self.f = nn.Linear(24, 4)",
    ),
    "threads share the units": module("self.r(x)", "torch.randn(3, 5, 6)", init="self.r = nn.GRU(6, 130)"),
    "threads share the rows": module("self.r(x)", "torch.randn(3, 70, 6)", init="self.r = nn.LSTM(6, 33)"),
}


def _written(source: str, language: str = "cpp") -> list[str]:
    return [step.candidate.source for step in DraftCompiler().build(Task(source, "module"), language).steps]


@pytest.mark.parametrize("name", ALONE)
def test_recurrent_layers_are_walked_by_a_kernel_of_ours(name: str) -> None:
    text = _written(ALONE[name])[0]
    assert "_steps(" in text and "self.r(" not in text
    task, candidate = executed(ALONE[name]), executed(text)
    torch.manual_seed(3)
    model, new = task.Model(), candidate.ModelNew()
    new.load_state_dict(model.state_dict())
    inputs = task.get_inputs()
    with torch.no_grad():
        ours = tree_leaves(new(*inputs))
        wanted = tree_leaves(model.double()(*(value.double() for value in inputs)))
    assert len(ours) == len(wanted)
    for mine, exact in zip(ours, wanted):
        assert mine.dtype is torch.float32
        torch.testing.assert_close(mine.double(), exact, atol=2e-6, rtol=1e-5)


def test_what_draws_between_layers_or_projects_the_state_stays_with_torch() -> None:
    for built in ("nn.LSTM(6, 9, num_layers=2, dropout=0.3)", "nn.LSTM(6, 9, proj_size=4)"):
        text = _written(module("F.relu(self.r(x)[0]) + 1", "torch.randn(5, 3, 6)", init=f"self.r = {built}"))[0]
        assert "self.r(x)" in text and "_steps(" not in text


def test_triton_keeps_torchs_call() -> None:
    with pytest.raises(Refusal, match="no kernel of ours is left"):
        _written(ALONE["lstm"], "triton")
