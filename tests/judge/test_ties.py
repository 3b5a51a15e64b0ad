"""An integer that rounding may break either way is right both ways, and no other."""

from __future__ import annotations

import torch

from bottega.judge.inputs import InputSet
from bottega.judge.oracle import Oracle
from bottega.judge.reference import Reference
from bottega.judge.ties import are_ties

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
