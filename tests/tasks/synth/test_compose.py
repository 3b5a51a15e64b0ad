"""Chains and formulas: operators of every kind as modules that run, use all they are given, and are the same for the same seed."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import pytest
import torch

from bottega.core.errors import UsageError
from bottega.tasks.synth import synthesise
from bottega.tasks.synth.catalogue import CATALOGUE
from bottega.tasks.synth.compose import STEPS, chain
from bottega.tasks.synth.style import draw_style

SERIES = ("chains", "formulas")


def made(series: str, index: int, device: str = "cpu") -> Any:
    return synthesise(11, index, device, levels=(2,), families=(series,))


@pytest.mark.rotates
@pytest.mark.parametrize("series", SERIES)
def test_they_run_and_use_all_they_are_given(series: str) -> None:
    seen: Counter[str] = Counter()
    for index in range(40):
        task = made(series, index, "cuda" if index % 2 else "cpu")
        space: dict[str, Any] = {}
        with torch.device("meta"):
            exec(task.task.source, space)
            model = space["Model"](*space["get_init_inputs"]())
            assert isinstance(model(*space["get_inputs"]()), torch.Tensor)
        arguments, _, body = task.task.source.partition("def forward(self, ")[2].partition(")")
        names = [argument.partition(":")[0] for argument in arguments.split(", ")]
        assert all(re.search(rf"\b{name}\b", body) for name in names), task.task.source
        assert all(f"self.{name.partition('.')[0]}" in body for name, _ in model.named_parameters()), task.task.source
        seen.update(task.operators)
    assert len(seen) >= 25


@pytest.mark.parametrize("series", SERIES)
def test_the_same_seed_writes_the_same_and_another_writes_another(series: str) -> None:
    first = [made(series, index).task.source for index in range(8)]
    assert first == [made(series, index).task.source for index in range(8)]
    assert len(set(first)) == 8
    assert first[0] != synthesise(12, 0, "cpu", levels=(2,), families=(series,)).task.source


@pytest.mark.parametrize("series", SERIES)
def test_they_are_asked_for_alone(series: str) -> None:
    with pytest.raises(UsageError, match=f"{series} are a series of their own"):
        synthesise(1, 0, "cpu", families=(series, "norms"))
    with pytest.raises(UsageError, match="alone"):
        synthesise(1, 0, "cpu", levels=(1,), families=(series,))


@pytest.mark.rotates
def test_chains_have_steps_of_every_kind() -> None:
    found: Counter[str] = Counter()
    for index in range(300):
        draft = chain(Random(index), draw_style(Random(index)), "cuda", ())
        found.update(CATALOGUE[name].kind for name in (draft.operators if draft else ()))
    assert not set(STEPS) - set(found)
    assert {"scores", "weights", "loss"} <= set(found)
