"""Choices of an answer are small changes of its text, found by the sizes of its call graph, and those of several places go together."""

from __future__ import annotations

import ast

from bottega.compiler.answer_choices import changed, changes_of, variants
from bottega.compiler.callgraph import Argument, Call, CallGraph, Input, NamedTensor

ANSWER = """import torch
import triton


class ModelNew(Model):
    def forward(self, x):
        t1 = linear(x, self.fc.weight, self.fc.bias)
        t2 = torch.empty((4096, 512), device=x.device, dtype=x.dtype)
        n = t1.numel()
        t2_kernel[(triton.cdiv(n, 1024),)](t1, t2, n, BLOCK=1024)
        t3 = torch.empty((4096, 512), device=x.device, dtype=x.dtype)
        columns = t2.shape[1]
        width = triton.next_power_of_2(columns)
        height = max(1, 2048 // width)
        rows = t2.shape[0]
        t3_kernel[(triton.cdiv(rows, height),)](
            t2, t3, columns, rows, ROWS=height, COLUMNS=width
        )
        return t3
"""


def graph(dtype: str = "float32") -> CallGraph:
    x = NamedTensor("x", (4096, 256), dtype)
    weights = NamedTensor("self.fc.weight", (512, 256), dtype), NamedTensor("self.fc.bias", (512,), dtype)
    names = tuple(Argument(one, "", (one,)) for one in ("x", "self.fc.weight", "self.fc.bias"))
    calls = (
        Call("linear", names, (NamedTensor("t1", (4096, 512), dtype),)),
        Call("gelu", (), (NamedTensor("t2", (4096, 512), dtype),)),
    )
    return CallGraph((Input("x", (x,)),), weights, calls, "t3")


def test_each_place_has_its_choices() -> None:
    found = changes_of(ANSWER, graph())
    assert set(found) == {"linear 4096x256 512x256 512", "elements", "rows"}
    labels = [change.label for change in found["linear 4096x256 512x256 512"]]
    assert "tile=(128, 64, 32)" in labels and "own=False" in labels


def test_changes_of_several_places_are_one_answer() -> None:
    found = changes_of(ANSWER, graph())
    chosen = [next(change for change in some if "warps=8" in change.label) for some in (found["elements"], found["rows"])]
    text = changed(ANSWER, [*chosen, next(one for one in found["linear 4096x256 512x256 512"] if one.label == "own=False")])
    ast.parse(text)
    assert "linear(x, self.fc.weight, self.fc.bias, own=False)" in text
    assert "t2_kernel[(triton.cdiv(n, 2048),)](t1, t2, n, BLOCK=2048, num_warps=8)" in text
    assert "height = max(1, 4096 // width)" in text and "COLUMNS=width, num_warps=8" in text


def test_a_choice_takes_the_place_of_the_one_that_the_answer_made() -> None:
    call = "linear(x, self.fc.weight, self.fc.bias"
    chosen = ANSWER.replace(f"{call})", f"{call}, tile=(64, 64, 32), warps=8)")
    found = changes_of(chosen, graph())["linear 4096x256 512x256 512"]
    for change in found:
        text = changed(chosen, [change])
        compile(text, "", "exec")
        assert f"{call}, {change.label})" in text


def test_what_the_call_graph_does_not_know_keeps_its_choice() -> None:
    assert set(changes_of(ANSWER, CallGraph((), (), (), ""))) == {"elements", "rows"}


def test_a_lone_call_is_not_handed_to_torch() -> None:
    alone = ANSWER.split("        t2 = ", maxsplit=1)[0] + "        return t1\n"
    (some,) = changes_of(alone, graph()).values()
    assert all("own=False" not in change.label for change in some)


def test_variants_take_all_places_in_turn() -> None:
    found = changes_of(ANSWER, graph())
    assert {change.place for change in variants(found, 3)} == set(found)
    assert len(variants(found, 7)) == 7


def test_an_answer_that_does_not_parse_has_none() -> None:
    assert changes_of("def (", graph()) == {}
