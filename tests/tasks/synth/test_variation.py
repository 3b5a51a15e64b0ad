"""A variation keeps the structure of what somebody wrote, runs, and is another task."""

from pathlib import Path
from random import Random

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.tasks.load import load_tasks
from bottega.tasks.synth import Series, SynthPlan, run
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


@pytest.mark.rotates
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
    ):
        assert word in together, word


@pytest.mark.rotates
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


def forward(line: str) -> str:
    return (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, x):\n        y = torch.sin(x) * 0.5\n        {line}\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "return y + (x.abs() + 0.5).sqrt()",
        "return y + x.abs() ** 1.5",
        "return y + torch.acosh(1.0 + x.abs())",
        "return y + x.narrow(1, 0, x.size(1) - 1)",
        "return y.view(x.shape[0], n) if (n := x.shape[1] * x.shape[2]) else y",
        "return y + torch.exp(x - x.amax(dim=-1, keepdim=True))",
        "return y + x.clamp(-0.5, 0.5)",
        "return y + torch.where(x > 0, F.softmax(x, dim=-1), torch.log(y))",
        "return y + F.relu(input=x)",
        "return y + F.max_pool2d(x, 2, 2, 0, 1)",
        "return y + nn.AvgPool2d(3, 2, 1, False, False)(x)",
        "return y + F.mse_loss(x, y, None, None, 'none')",
        "return y + (x > 0).sum()",
        "return y + x.sum(dtype=torch.float32)",
        "return y + F.dropout(x, 0.0)",
    ],
)
def test_what_others_depend_on_is_left(line: str):
    kept = line.removeprefix("return y").removeprefix(" + ").partition(" if ")[0]
    drawn = {varied(forward(line), Random(seed)) for seed in range(30)}
    assert len(drawn) > 3
    assert all(kept in source for source in drawn), next(source for source in drawn if kept not in source)


@pytest.mark.parametrize("rows", ["n = x.shape[0] * x.shape[1]", "b, n = x.shape[0], x.size(1) + 1", "n = 2 * x.numel()"])
def test_names_of_sizes_are_known(rows: str):
    line = f"{rows}\n        return y.new_zeros(n + 3, n * n)"
    assert all("y.new_zeros(n + 3, n * n)" in varied(forward(line), Random(seed)) for seed in range(20))


def test_shares_stay_shares():
    drawn = [varied(forward("return x * 0.9"), Random(seed)) for seed in range(40)]
    found = {float(source.split()[-1]) for source in drawn}
    assert all(0 < value < 1 for value in found) and len(found) > 1


def test_patterns_are_left():
    line = "match x.dim():\n            case 1.5:\n                return x\n            case _:\n                return torch.cos(x)"
    assert all("case 1.5:" in varied(forward(line), Random(seed)) for seed in range(10))


def test_a_series_varies_all_originals_before_one_again_and_repeats_none_of_them():
    originals = load_tasks(["builtin:level2"]).tasks
    plan = SynthPlan(1, like="some", filtered=False).checked()
    seen = {tree_key(task.source) for task in originals}
    names: list[str] = []
    for (sample, is_repeated), _ in zip(Series(plan, originals), range(3 * len(originals)), strict=False):
        assert is_repeated == (sample.key[0] in seen)
        names.append(sample.task.name.rpartition("_")[0])
        seen.update(sample.key)
    for turn in range(3):
        assert sorted(names[turn * len(originals) : (turn + 1) * len(originals)]) == sorted(task.name for task in originals)


def test_the_order_in_which_originals_are_named_does_not_matter_and_shards_meet_all_of_them():
    originals = load_tasks(["builtin:level2"]).tasks[:2]
    plan = SynthPlan(1, like="some", filtered=False).checked()
    one, two = (
        [sample.task.source for (sample, _), _ in zip(Series(plan, given), range(12), strict=False)]
        for given in (originals, originals[::-1])
    )
    assert one == two
    shard = SynthPlan(1, like="some", filtered=False, shard=1, shards=2).checked()
    met = {sample.task.name.rpartition("_")[0] for (sample, _), _ in zip(Series(shard, originals), range(12), strict=False)}
    assert met == {task.name for task in originals}


def test_a_module_that_cannot_be_varied_ends_a_run_soon(tmp_path: Path):
    task = Task(
        "class Model:\n    def forward(self, x):\n        return x @ x\n\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"
    )
    with pytest.raises(UsageError, match="give more modules to vary"):
        run(SynthPlan(5, like="some", filtered=False).checked(), tmp_path, originals=[task])


def test_families_and_variations_do_not_go_together():
    with pytest.raises(UsageError, match="--families"):
        SynthPlan(1, like="some", families=("chains",)).checked()
