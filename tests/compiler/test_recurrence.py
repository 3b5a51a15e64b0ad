from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from executed import executed
from modules_in_cpp import module
from recurrent_tasks import RECURRENT
from torch._decomp import decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves
from triton_process import interpreted

from bottega.compiler.backends.triton.recurrence import rows_of
from bottega.compiler.build_step import Refusal
from bottega.compiler.draft_compiler import DraftCompiler
from bottega.compiler.recurrent_shapes import one_step_each
from bottega.core.task import Task

pytestmark = pytest.mark.rotates


def _written(source: str, language: str = "cpp") -> list[str]:
    return [step.candidate.source for step in DraftCompiler().build(Task(source, "module"), language).steps]


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_are_walked_by_a_kernel_of_ours(name: str) -> None:
    text = _written(RECURRENT[name])[0]
    assert "_steps(" in text and "self.r(" not in text
    task, candidate = executed(RECURRENT[name]), executed(text)
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


@pytest.mark.rotates
def test_triton_has_a_kernel_for_each_step() -> None:
    found = interpreted(Path(__file__).with_name("triton_interpreted.py"), "wide", *RECURRENT)
    assert found.keys() == RECURRENT.keys() and all(found.values())
    assert [
        (name, step) for name, steps in found.items() for step in steps if not isinstance(step[1], float) or step[1] > 1e-6
    ] == []


def test_no_triton_draft_has_kernels_beside_a_layer_of_the_library() -> None:
    for name in ("last step, then a layer", "written to itself"):
        texts = [text for text in _written(RECURRENT[name], "triton") if "triton.jit" in text]
        assert texts and all("step_kernel[" in text and "self.r(" not in text for text in texts)
    with pytest.raises(Refusal, match=r"no kernel of ours is left to write in triton: torch computes lstm"):
        _written(module("self.r(x)", "torch.randn(5, 3, 6)", init="self.r = nn.LSTM(6, 9, proj_size=4)"), "triton")


def test_a_module_may_move_its_states_to_the_inputs_device_and_not_keep_new_ones() -> None:
    init = "self.r = nn.GRU(6, 9); self.h0 = torch.randn(1, 3, 9)"
    moved = module("self.r(x, self.h0)", "torch.randn(5, 3, 6)", init=init, before="self.h0 = self.h0.to(x.device)")
    assert "register_buffer('constant_0', self.h0" in _written(moved)[0]
    kept = module("out", "torch.randn(5, 3, 6)", init=init, before="out, self.h0 = self.r(x, self.h0)")
    with pytest.raises(Refusal, match=r"keeps self.h0 from call to call"):
        _written(kept)


def test_drafts_of_a_recurrent_layer_are_traced_once_and_walk_no_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass over all steps of a long sequence took seconds, and two lowerings of three passes more than the time for drafts."""
    from torch._decomp import decompositions

    from bottega.compiler import draft_compiler, step_compiler

    lowered, cells, fakes = [], [], []
    dispatch = FakeTensorMode.dispatch
    monkeypatch.setattr(FakeTensorMode, "dispatch", lambda *given: (fakes.append(given[1]), dispatch(*given))[1])
    lower, cell = step_compiler.lower_task, decompositions.gru_cell
    for module_ in (draft_compiler, step_compiler):
        monkeypatch.setattr(module_, "lower_task", lambda *given: (lowered.append(given), lower(*given))[1])
    monkeypatch.setattr(decompositions, "gru_cell", lambda *given: (cells.append(given), cell(*given))[1])
    source = module("self.r(x)[0]", "torch.randn(40, 3, 6)", init="self.r = nn.GRU(6, 9)")
    assert "gru_step_kernel[" in _written(source, "triton")[0]
    assert len(lowered) == 1 and 0 < len(cells) < 7 and len(fakes) < 1000  # of all steps 2892


def test_a_step_has_one_wave_of_programs_with_as_few_sequences_each_as_that_allows() -> None:
    """Measured on an H200: below a wave fewer sequences gained, above it they took up to twice as long."""
    assert [rows_of(batch, units) for batch, units in ((64, 32), (96, 16), (128, 24), (256, 32), (3, 1), (4096, 32))] == [
        16,
        16,
        32,
        64,
        16,
        64,
    ]


def test_both_directions_of_a_layer_step_in_one_launch() -> None:
    source = module("self.r(x)[0]", "torch.randn(5, 3, 6)", init="self.r = nn.GRU(6, 9, 2, bidirectional=True)")
    text = _written(source, "triton")[0]
    assert text.count("gru_both_ways_kernel[(1, 1, 2)](") == 2 and "gru_step_kernel" not in text


def test_the_gates_of_a_step_are_one_product() -> None:
    """Of one for each gate, 16 by 16, every warp computed all: four times the instructions in a loop of an LSTM's step."""
    for layer, columns in (("nn.LSTM(6, 9)", 4), ("nn.GRU(6, 9)", 4), ("nn.RNN(6, 9)", 1)):
        text = _written(module("self.r(x)[0]", "torch.randn(5, 3, 6)", init=f"self.r = {layer}"), "triton")[0]
        assert text.count("acc = tl.dot(left, right, acc") == 1 and f"acc = tl.zeros((ROWS, {columns} * UNITS)" in text


def test_states_have_their_shape_also_where_torch_gives_them_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch 2.11 does with an LSTM's on fake tensors."""
    walk = decompositions.one_layer_lstm

    def older(*given: Any, **named: Any) -> Any:
        out, states = walk(*given, **named)
        return out, tuple(state.unsqueeze(0) for state in states)

    monkeypatch.setattr(decompositions, "one_layer_lstm", older)
    with FakeTensorMode() as mode, one_step_each(), torch.no_grad():
        layer, x = torch.nn.LSTM(4, 6), mode.from_tensor(torch.empty(5, 3, 4))
        assert [tuple(state.shape) for state in layer(x)[1]] == [(1, 3, 6), (1, 3, 6)]
    assert "torch.empty((2, 5, 18)" in _written(RECURRENT["written to itself"])[0]  # traced with real tensors


def test_a_replayed_graph_hands_out_copies_of_what_is_in_tuples() -> None:
    source = module(
        "(lambda y, s: (F.relu(y) + 1, (s[0] * 2, [s[1]])))(*self.r(x))", "torch.randn(5, 3, 6)", init="self.r = nn.LSTM(6, 9)"
    )
    steps = DraftCompiler().build(Task(source, "module"), "triton").steps
    (text,) = [step.candidate.source for step in steps if step.technique == "graph_replay"]
    wanted = "(self.static_out[0].clone(), (self.static_out[1][0].clone(), [self.static_out[1][1][0].clone()]))"
    assert f"return {wanted}\n" in text


def test_a_replayed_graph_keeps_its_results_apart_from_its_inputs_and_numbers_as_they_are() -> None:
    source = module("{'a': (self.r(x + out)[0] * 2, -1, float('inf')), 'out': out}", "torch.randn(5, 3, 6), torch.randn(5, 3, 6)", "x, out",
                    "self.r = nn.LSTM(6, 9)")  # fmt: skip
    steps = DraftCompiler().build(Task(source, "module"), "triton").steps
    (text,) = [step.candidate.source for step in steps if step.technique == "graph_replay"]
    kept = "self.captured_results"
    assert f"return {{'a': ({kept}['a'][0].clone(), -1, float('inf')), 'out': {kept}['out'].clone()}}\n" in text
    source = source.replace("self.r", "self.graph")
    assert all(
        "CUDAGraph" not in step.candidate.source for step in DraftCompiler().build(Task(source, "module"), "triton").steps
    )


def test_other_threads_notice_nothing_while_a_sequence_is_not_walked() -> None:
    """Their layers may be real: one step each would be wrong values."""
    layer, x = torch.nn.GRU(4, 4), torch.randn(5, 2, 4)
    with torch.no_grad(), ThreadPoolExecutor(1) as pool:
        before = layer(x)[0]
        with one_step_each():
            assert torch.equal(pool.submit(torch.no_grad()(lambda: layer(x)[0])).result(60), before)
        assert torch.equal(layer(x)[0], before)
