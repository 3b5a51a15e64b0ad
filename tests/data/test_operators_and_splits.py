"""Operators in one spelling, and sides that never share a combination of them, nor two tasks of nearly the same text."""

from __future__ import annotations

from dataclasses import replace

from hand_teacher import task

from bottega.core.task import Task
from bottega.data.operators import operators_of
from bottega.data.records import TaskRecord, task_record_of
from bottega.data.splits import splits_of

TEMPLATE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        {init}

    def forward(self, x):
        {forward}
        return x

def get_inputs():
    return [torch.rand(4, {size})]

def get_init_inputs():
    return [{size}]
"""
LINES = [f"x = torch.{name}(x)" for name in ("sin", "cos", "exp", "tanh", "relu", "sigmoid", "abs", "floor", "sqrt", "erf")]


def made(forward: str, init: str = "pass", size: int = 8) -> Task:
    source = TEMPLATE.format(forward=forward, init=init, size=size)
    return Task(source, "made")


def test_operators_have_one_spelling() -> None:
    as_module = made("x = self.act(self.norm(x)) + 1", "self.norm = nn.LayerNorm(width); self.act = nn.GELU()")
    as_function = made("x = F.gelu(F.layer_norm(x, x.shape[-1:])) + 1")
    assert operators_of(as_module.source) == operators_of(as_function.source) == ("add", "gelu", "layernorm")


def test_shapes_and_plumbing_are_no_operators() -> None:
    assert operators_of(made("x = x.view(x.size(0) * 2, -1).contiguous().unsqueeze(0) @ x[1 + 2]").source) == ("matmul",)
    assert operators_of(made("x = torch.mm(x, x); x = x.relu() * x").source) == ("matmul", "mul", "relu")


def many() -> list[TaskRecord]:
    tasks = [made("; ".join((LINES[i], LINES[j], LINES[k]))) for i in range(10) for j in range(10) for k in range(3)]
    return [task_record_of(one) for one in tasks]


def test_sides_share_no_combination_and_are_always_the_same() -> None:
    task_records = many()
    sides = splits_of(task_records, 0.2, "salt")
    assert sides == splits_of(list(reversed(task_records)), 0.2, "salt") and sides != splits_of(task_records, 0.2, "pepper")
    by_side = {side: {s.ops for s in task_records if sides[s.task.id] == side} for side in ("train", "test")}
    assert by_side["train"] and by_side["test"] and not by_side["train"] & by_side["test"]
    assert 0.05 < len(by_side["test"]) / len(by_side["train"] | by_side["test"]) < 0.4
    assert set(splits_of(task_records, 0.0, "salt").values()) == {"train"}


def test_what_a_data_set_calls_the_same_stays_together() -> None:
    """One task says it with operators, the other spells the operator out; its data set knows that they are one combination."""
    pairs = []
    for number, line in enumerate(LINES):
        one = replace(task_record_of(made(line)), ops=(f"op{number}",))
        other = replace(task_record_of(made(f"{line}; x = x * 1.5 - x.mean()")), ops=(f"op{number}",))
        pairs.append((one, other))
    sides = splits_of([task_record for pair in pairs for task_record in pair], 0.5, "salt")
    assert all(sides[one.task.id] == sides[other.task.id] for one, other in pairs) and len(set(sides.values())) == 2


def test_near_duplicates_stay_together() -> None:
    base = task("silu_norm")
    twins = [
        base,
        replace(base, source=base.source.replace("512", "640")),
        replace(base, source=base.source.replace("1e-6", "1e-5")),
    ]
    for salt in "abcdefgh":
        assert len(set(splits_of([task_record_of(one) for one in twins], 0.5, salt).values())) == 1
