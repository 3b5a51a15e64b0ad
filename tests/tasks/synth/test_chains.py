"""Chains and formulas: operators of every kind as modules that run, and are the same for the same seed."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import pytest
import torch

from bottega.core.errors import UsageError
from bottega.tasks.synth import synthesise
from bottega.tasks.synth.chain import chain_task, formula
from bottega.tasks.synth.chain_step import ChainState, StepDraft
from bottega.tasks.synth.chain_templates import STEPS, TEMPLATES
from bottega.tasks.synth.costs import target_of

SERIES = ("chains", "formulas")


def made(series: str, index: int, device: str = "cpu") -> Any:
    return synthesise(11, index, device, levels=(2,), families=(series,))


def small(source: str) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """The same module over a few samples."""
    space: dict[str, Any] = {}
    exec(re.sub(r"^batch_size = \d+$", "batch_size = 3", source, flags=re.M), space)
    return space["Model"](*space["get_init_inputs"]()), space["get_inputs"]()


@pytest.mark.parametrize("series", SERIES)
def test_they_run_and_use_all_they_are_given(series: str) -> None:
    seen: Counter[str] = Counter()
    for index in range(40):
        task = made(series, index, "cuda" if index % 2 else "cpu")
        with torch.device("meta"):
            model, given = small(task.task.source)
            assert isinstance(model(*given), torch.Tensor)
        arguments, _, body = task.task.source.partition("def forward(self, ")[2].partition("):")
        assert all(re.search(rf"\b{name}\b", body) for name in arguments.split(", ")), task.task.source
        assert all(f"self.{name.partition('.')[0]}" in body for name, _ in model.named_parameters()), task.task.source
        seen.update(task.operators)
    assert len(seen) >= 25


@pytest.mark.parametrize("series", SERIES)
def test_the_same_seed_writes_the_same_and_another_writes_another(series: str) -> None:
    first = [made(series, index).task.source for index in range(8)]
    assert first == [made(series, index).task.source for index in range(8)]
    assert len(set(first)) == 8
    assert first[0] != synthesise(12, 0, "cpu", levels=(2,), families=(series,)).task.source


@pytest.mark.parametrize("make", [chain_task, formula])
def test_what_it_costs_is_near_what_was_aimed_at(make: Any) -> None:
    for device in ("cpu", "cuda"):
        found = [make(Random(f"{device}/{index}"), target_of(device), 2.0) for index in range(25)]
        assert sum(0.5 < one.milliseconds < 8.0 for one in found) > len(found) // 2


@pytest.mark.parametrize("series", SERIES)
def test_they_are_asked_for_alone(series: str) -> None:
    with pytest.raises(UsageError, match=f"{series} are a series of their own"):
        synthesise(1, 0, "cpu", families=(series, "norms"))
    with pytest.raises(UsageError, match="alone"):
        synthesise(1, 0, "cpu", levels=(1,), families=(series,))


def test_chains_have_steps_of_every_kind() -> None:
    found = Counter(name for index in range(250) for name in chain_task(Random(index), target_of("cuda"), 2.0).operators)
    assert not set(TEMPLATES) - set(found) - {"triplet_loss"}
    assert len(found) > len(STEPS) + 20


def test_every_template_is_text_that_python_reads() -> None:
    state = ChainState((8, 16, 16), True)
    for kind, (_, texts) in TEMPLATES.items():
        for text in texts:
            draft = StepDraft(Random(kind + text), state)
            *before, last = draft.filled(text).splitlines()
            compile("\n".join([*before, f"x = {last}", *draft.made.values(), *draft.inputs.values()]), text, "exec")
