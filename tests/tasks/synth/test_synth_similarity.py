"""Likeness of modules: names, comments and sizes do not count, operators do."""

import pytest

from bottega.core.task import Task
from bottega.tasks.synth import Benchmark, similarity, synthesise

CONV = '''
import torch
import torch.nn as nn

class Model(nn.Module):
    """A convolution, scaled."""

    def __init__(self, in_channels, out_channels, scale):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.scale = scale

    def forward(self, x):
        # convolve
        x = self.conv(x)
        x = torch.relu(x)
        return x * self.scale

def get_inputs():
    return [torch.rand(8, 3, 32, 32)]

def get_init_inputs():
    return [3, 16, 2.0]
'''
RENAMED = '''
import torch
import torch.nn as nn

N = 64

class Model(nn.Module):
    def __init__(self, c_in: int, c_out: int, factor: float = 3.0):
        super(Model, self).__init__()
        self.layer = nn.Conv2d(c_in, c_out, 5, padding=2)
        self.factor = factor

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Something else entirely."""
        out = self.layer(image)
        activated = torch.relu(out)  # here
        return activated * self.factor

def get_inputs():
    return [torch.randn(N, 8, 16, 16)]

def get_init_inputs():
    return [8, 4]
'''


def single(expression: str) -> str:
    return f"""
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return {expression}
"""


def test_names_comments_annotations_and_sizes_do_not_count() -> None:
    assert similarity(CONV, RENAMED) == 1.0
    assert similarity(CONV, CONV.replace("        # convolve\n", "").replace("2.0", "7.0")) == 1.0


@pytest.mark.parametrize(
    ("before", "after", "most"),
    [
        ("torch.relu(x)", "torch.tanh(x)", 0.85),
        ("nn.Conv2d", "nn.ConvTranspose2d", 0.85),
        ("x * self.scale", "x + self.scale", 0.85),
        ("        x = torch.relu(x)\n", "", 0.88),
        ("        x = torch.relu(x)\n", "        x = torch.relu(x)\n        x = x.mean(dim=1)\n", 0.88),
    ],
)
def test_another_operator_is_another_module(before: str, after: str, most: float) -> None:
    changed = CONV.replace(before, after)
    assert changed != CONV
    assert similarity(CONV, changed) < most


def test_short_modules_are_told_apart_by_their_one_operator() -> None:
    forms = [
        "torch.relu(x)",
        "torch.tanh(x)",
        "x.sum(dim=1)",
        "x.mean(dim=1)",
        "torch.softmax(x, dim=1)",
        "x * torch.sigmoid(x)",
    ]
    for one in forms:
        for two in forms:
            assert (similarity(single(one), single(two)) > 0.9) == (one == two), (one, two)


def test_the_benchmark_finds_the_nearest() -> None:
    tasks = [Task(CONV, "conv", "a:conv"), Task(single("torch.relu(x)"), "relu", "a:relu")]
    found = Benchmark(tasks).nearest(RENAMED)
    assert (found.similarity, found.label) == (1.0, "a:conv")
    other = single("torch.cumsum(x, dim=1)")
    assert Benchmark(tasks).nearest(other).similarity == pytest.approx(max(similarity(task.source, other) for task in tasks))


def test_nothing_is_similar_to_nothing() -> None:
    assert Benchmark([]).nearest(CONV).similarity == 0.0
    assert Benchmark([Task(CONV)]).nearest("x = 1").similarity == 0.0
    assert similarity("x = 1", CONV) == 0.0


@pytest.mark.rotates
def test_different_samples_are_seldom_alike_and_each_is_like_itself() -> None:
    samples = [synthesise(8, index, "cpu", levels=(2, 3)).task.source for index in range(40)]
    pairs = [(one, two) for place, one in enumerate(samples) for two in samples[place + 1 :]]
    assert all(similarity(source, source) == 1.0 for source in samples)
    assert sum(similarity(one, two) > 0.9 for one, two in pairs) / len(pairs) < 0.02
