"""A variation keeps the structure of what somebody wrote, runs, and is another task."""

from random import Random

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.tasks.load import load_tasks
from bottega.tasks.synth import Plan, Series
from bottega.tasks.synth.keys import tree_key
from bottega.tasks.synth.variation import varied

MODULE = '''
"""What it was."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Two halves."""

    def __init__(self, channels, slope=0.2):
        super().__init__()
        self.conv = nn.Conv2d(channels, 2 * channels + 2, 3)
        self.gate = nn.Sigmoid()
        self.slope = slope

    def forward(self, x, skip):
        x = self.conv(x)
        a, b = x.chunk(2, dim=1)
        x = self.gate(a) * F.leaky_relu(b, self.slope) + skip.relu()
        x = x / (x.abs().sum(dim=1, keepdim=True) + 1e-6)
        x = torch.sqrt(x.square() + 0.5)
        return x.view(x.shape[0], x.shape[1] * 36).mean(dim=-1)


def get_inputs():
    return [torch.rand(4, 3, 8, 8), torch.rand(4, 4, 6, 6)]


def get_init_inputs():
    return [3]
'''


def many(count: int = 40) -> list[str]:
    return [varied(MODULE, Random(seed)) for seed in range(count)]


def shape_of(source: str) -> tuple[int, ...]:
    found: dict = {}
    with FakeTensorMode():
        exec(source, found)
        return tuple(found["Model"](*found["get_init_inputs"]())(*found["get_inputs"]()).shape)


def test_every_variation_runs_gives_the_same_shape_and_is_another_task():
    for source in many():
        assert shape_of(source) == (4,)
        assert Task(source).id != Task(MODULE).id


def test_what_can_be_changed_is_changed_somewhere():
    together = "\n".join(many())
    for word in (
        "nn.GELU()",
        "F.softplus(b)",
        "sum(dim=-1)",
        "- skip.",
        "* skip.",
        "skip.tanh()",
        "1e-06",
        "F.leaky_relu(b, self.slope)",
    ):
        assert word in together, word


@pytest.mark.parametrize(
    "kept",
    [
        "2 * channels + 2",
        "x.chunk(2, dim=1)",
        "x.view(x.shape[0], x.shape[1] * 36)",
        "(x.abs().sum(dim=1, keepdim=True) + 1e-06)",
        "torch.sqrt(x.square() + 0.5)",
        "torch.rand(4, 4, 6, 6)",
    ],
    ids=lambda kept: kept[:12],
)
def test_sizes_and_what_must_stay_in_a_domain_are_kept(kept: str):
    assert all(kept in source for source in many())


def test_docstrings_of_what_it_was_are_gone():
    assert all("What it was" not in source and "Two halves" not in source for source in many())


def test_the_same_seed_gives_the_same_variation():
    assert varied(MODULE, Random(3)) == varied(MODULE, Random(3))


def test_what_has_nothing_to_change_stays():
    source = "class Model:\n    def forward(self, x):\n        return x @ x\n"
    assert varied(source, Random(0)) == source


def test_a_series_varies_its_originals_in_turn_and_repeats_none_of_them():
    originals = load_tasks(["builtin:level2"]).tasks
    plan = Plan(1, like="some", filtered=False).checked()
    seen = {tree_key(task.source) for task in originals}
    for made, repeated in zip(Series(plan, originals), range(3 * len(originals)), strict=False):
        sketch, is_repeated = made
        assert is_repeated == (sketch.key[0] in seen)
        assert sketch.task.name.startswith(originals[repeated % len(originals)].name)
        seen.update(sketch.key)


def test_families_and_variations_do_not_go_together():
    with pytest.raises(UsageError, match="--families"):
        Plan(1, like="some", families=("chains",)).checked()
