"""Chains: a layer and operators of every kind behind it, as modules that run, and are the same for the same seed."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from bottega.core.errors import UsageError
from bottega.tasks.synth import synthesise
from bottega.tasks.synth.chain import chain_task
from bottega.tasks.synth.costs import target_of

FEW = range(80)


def made(index: int, device: str = "cpu") -> Any:
    return synthesise(11, index, device, levels=(2,), families=("chains",))


def test_chains_run_and_use_all_they_are_given() -> None:
    """Shapes fit at every step; a handful are norms over single elements, which torch refuses and the filter drops."""
    refused = 0
    seen: Counter[str] = Counter()
    for index in FEW:
        source = made(index, "cuda" if index % 2 else "cpu").task.source
        namespace: dict[str, Any] = {}
        with FakeTensorMode():
            exec(re.sub(r"^batch_size = \d+$", "batch_size = 3", source, flags=re.M), namespace)
            model = namespace["Model"](*namespace["get_init_inputs"]())
            try:
                result = model(*namespace["get_inputs"]())
            except ValueError:
                refused += 1
                continue
        assert isinstance(result, torch.Tensor)
        body = source.partition("def forward(self, ")[2]
        arguments, _, body = body.partition("):")
        assert all(re.search(rf"\b{name}\b", body) for name in arguments.split(", ")), source
        assert all(f"self.{name.partition('.')[0]}" in body for name, _ in model.named_parameters()), source
        seen.update(made(index).operators)
    assert refused <= 3
    assert len(seen) >= 30


def test_the_same_seed_writes_the_same_chain_and_another_writes_another() -> None:
    first = [made(index).task.source for index in range(12)]
    assert first == [made(index).task.source for index in range(12)]
    assert len(set(first)) == 12
    assert first[0] != synthesise(12, 0, "cpu", levels=(2,), families=("chains",)).task.source


def test_what_a_chain_costs_is_near_what_was_aimed_at() -> None:
    for device in ("cpu", "cuda"):
        found = [chain_task(Random(f"{device}/{index}"), target_of(device), 2.0) for index in FEW]
        assert sum(0.5 < one.milliseconds < 8.0 for one in found) > len(found) // 2


def test_chains_are_asked_for_alone() -> None:
    with pytest.raises(UsageError, match="chains are a series of their own"):
        synthesise(1, 0, "cpu", families=("chains", "norms"))
    with pytest.raises(UsageError, match="alone"):
        synthesise(1, 0, "cpu", levels=(1,), families=("chains",))


def test_some_inputs_are_one_for_all_samples_and_some_values_open_and_shut_others() -> None:
    found = [chain_task(Random(f"seen/{index}"), target_of("cuda"), 2.0) for index in range(200)]
    shared = [one.source for one in found if "shared_input" in one.operators]
    assert shared
    for source in shared:
        drawn = source.partition("return [")[2].partition("]")[0]
        assert re.search(r"torch\.randn\(\d", drawn), source
        assert "batch_size, " in drawn
    assert sum("keepdim=True)" in one.source for one in found if "gate" in one.operators) >= 5
    assert any(".transpose(1, 2)).transpose(1, 2)" in one.source for one in found)
    assert any("torch.bmm(" in one.source or "baddbmm(" in one.source for one in found)


def test_masks_of_yes_and_no_classes_recurrent_layers_scores_and_twins_come_too_and_run() -> None:
    found = [chain_task(Random(f"kinds/{index}"), target_of("cuda"), 2.0) for index in range(1200)]
    flagged = [one.source for one in found if "flagged" in one.operators]
    labelled = [one.source for one in found if "torch.randint(" in one.source]
    recurrent = [one.source for one in found if "recurrent" in one.operators]
    assert min(len(flagged), len(labelled), len(recurrent)) >= 3
    assert any("~" in source for source in flagged) and any(", batch_size, " in source for source in recurrent)
    scores = [one.source for one in found if "scores" in one.operators]
    masked = [one.source for one in found if "scores" in one.operators and "mask" in one.operators]
    twins = [one.source for one in found if "twin" in one.operators]
    assert min(len(scores), len(masked), len(twins)) >= 5
    rarer = [[one.source for one in found if kind in one.operators] for kind in ("prelu", "flattened", "entropy", "prototypes")]
    rarer.append([one.source for one in found if 'padding="same"' in one.source])
    assert min(map(len, rarer)) >= 5
    rare = [source for each in rarer for source in each[:6]]
    for source in (*flagged[:8], *labelled[:4], *recurrent[:4], *scores[:6], *masked[:12], *twins[:8], *rare):
        namespace: dict[str, Any] = {}
        with FakeTensorMode():
            exec(re.sub(r"^batch_size = \d+$", "batch_size = 3", source, flags=re.M), namespace)
            model = namespace["Model"](*namespace["get_init_inputs"]())
            assert isinstance(model(*namespace["get_inputs"]()), torch.Tensor), source


def test_what_is_left_of_a_map_without_one_of_its_dimensions_goes_on() -> None:
    """`x.amax(dim=1)` of maps is a smaller map or a sequence, and operators follow it."""
    dropped = re.compile(r"\.(?:mean|sum|amax|amin)\(dim=-?\d\)|torch\.(?:mean|sum|amax|amin)\(x, dim=-?\d\)")
    found = [chain_task(Random(f"dropped/{index}"), target_of("cuda"), 2.0).source for index in range(300)]
    lines = [source.partition("def forward")[2].partition("return x")[0].splitlines() for source in found]
    assert sum(any(dropped.search(line) for line in each[:-2]) for each in lines) >= 5
