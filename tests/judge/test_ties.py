"""An integer or a step that rounding may break either way is right both ways, and no other."""

from __future__ import annotations

import torch

from bottega.judge.inputs import InputSet
from bottega.judge.oracle import Oracle
from bottega.judge.output_comparison import OutputComparison, root_mean_square
from bottega.judge.reference import Reference
from bottega.judge.ties import are_steps, are_ties

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round().to(torch.int8), x.argmax(-1)

def get_inputs():
    return [torch.randn(40, 50)]

def get_init_inputs():
    return []
"""


def test_ties_of_quantized_values_and_of_a_maximum() -> None:
    reference = Reference(SOURCE, "cpu", None)
    drawn: InputSet = reference.draw()
    x = drawn.tensors[0]
    x[:, 0], x[7, 3] = 127.0, 10.5
    x[9, 20] = 127.0 * (1 + 2**-24)
    with torch.no_grad():
        outputs = list(reference.build()(x))
    oracle = Oracle(reference)

    def right(place: int, at: tuple[int, ...], value: int) -> bool:
        got = outputs[place].clone()
        got[at] = value
        return are_ties(got, outputs[place], place, oracle, drawn, "loaded", outputs)

    assert right(0, (7, 3), 10) and right(0, (7, 3), 11)
    assert not right(0, (7, 3), 12) and not right(0, (8, 3), int(outputs[0][8, 3]) + 1)
    assert right(1, (9,), 0) and right(1, (9,), 20) and not right(1, (9,), 21) and not right(1, (8,), 20)
    assert not are_ties(outputs[0] + 1, outputs[0], 0, oracle, drawn, "loaded", outputs)


def test_steps_of_numbers() -> None:
    reference = Reference(
        SOURCE.replace("(x / scale).round().to(torch.int8), x.argmax(-1)", "(x / scale).round() * scale"), "cpu", None
    )
    drawn: InputSet = reference.draw()
    x = drawn.tensors[0]
    x[:, 0], x[7, 3] = 127.0, 10.5
    with torch.no_grad():
        wanted = reference.build()(x)
    oracle = Oracle(reference)

    def right(at: tuple[int, int], value: float, **others: float) -> bool:
        got = wanted.clone() * others.get("times", 1.0)
        got[at] = value
        rest = OutputComparison("float32", "fp32", root_mean_square(wanted))
        return are_steps(got, wanted, rest, 0, oracle, drawn, "loaded", [wanted])

    assert right((7, 3), 11.0) or right((7, 3), 10.0)  # one of them is the reference's own, where nothing is to be excused
    assert not right((7, 3), 10.5) and not right((7, 3), 12.0) and not right((8, 3), float(wanted[8, 3]) + 1)
    assert not right((7, 3), 11.0, times=1.0002) and not right((7, 3), 10.0, times=1.0002)
