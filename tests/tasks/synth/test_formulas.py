"""Formulas: primitive operators in any order, as modules that run, say what they compute with, and are the same for the same seed."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
import torch

from bottega.core.errors import UsageError
from bottega.tasks.synth import synthesise
from bottega.tasks.synth.costs import target_of
from bottega.tasks.synth.formula import formula
from bottega.tasks.synth.formula_terms import held

FEW = range(60)


def made(index: int, device: str = "cpu") -> Any:
    return synthesise(11, index, device, levels=(2,), families=("formulas",))


def small(source: str) -> dict[str, Any]:
    """The same module over a few rows."""
    namespace: dict[str, Any] = {}
    exec(re.sub(r"^(rows|batch) = \d+$", r"\1 = 3", source, flags=re.M), namespace)
    return namespace


def test_every_formula_runs_gives_finite_numbers_and_uses_all_it_is_given() -> None:
    kinds: set[str] = set()
    for index in FEW:
        task = made(index)
        namespace = small(task.task.source)
        torch.manual_seed(index)
        model = namespace["Model"](*namespace["get_init_inputs"]())
        inputs = namespace["get_inputs"]()
        result = model(*inputs)
        assert torch.isfinite(result).all(), task.task.source
        text = task.task.source.partition("def forward(self, ")[2]
        arguments, _, body = text.partition("):")
        assert all(re.search(rf"\b{name}\b", body) for name in arguments.split(", "))
        assert all(f"self.{name}" in body for name, _ in model.named_parameters())
        kinds |= set(task.operators)
    assert len(kinds) >= 20


def test_the_same_seed_writes_the_same_formula_and_another_writes_another() -> None:
    first = [made(index).task.source for index in range(12)]
    assert first == [made(index).task.source for index in range(12)]
    assert len(set(first)) == 12
    assert first[0] != synthesise(12, 0, "cpu", levels=(2,), families=("formulas",)).task.source


def test_what_a_formula_costs_is_near_what_was_aimed_at() -> None:
    for device in ("cpu", "cuda"):
        target = target_of(device)
        found = [formula(Random(f"{device}/{index}"), target, 1.0) for index in FEW]
        assert all(one.milliseconds < 4.0 and one.bytes <= target.largest_bytes for one in found)
        assert sum(one.milliseconds > 0.3 for one in found) > len(found) // 2


def test_formulas_are_asked_for_alone() -> None:
    with pytest.raises(UsageError, match="alone"):
        synthesise(1, 0, "cpu", families=("formulas", "norms"))
    with pytest.raises(UsageError, match="alone"):
        synthesise(1, 0, "cpu", levels=(1,), families=("formulas",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", "x"),
        ("self.scale", "self.scale"),
        ("a + b", "(a + b)"),
        ("-x", "(-x)"),
        ("torch.exp(-x)", "torch.exp(-x)"),
        ("x.mean(dim=-1)", "x.mean(dim=-1)"),
        ("(a + b) * c", "((a + b) * c)"),
    ],
)
def test_what_would_fall_apart_is_held_together(text: str, expected: str) -> None:
    assert held(text) == expected
