"""What a task's parameters are made of: values that nobody can know beforehand, whatever the constructor writes."""

from __future__ import annotations

import pytest
import torch
from module_task import module_task

from bottega.judge.reference import Reference

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)
        self.mix = nn.Parameter(torch.eye(width))
        self.table = nn.Parameter(torch.arange(width).float().log1p())
        self.tied = self.mix
        self.register_buffer("mask", torch.tril(torch.ones(width, width)))

    def forward(self, x):
        return self.norm(self.linear(x) @ self.mix * self.table) @ self.mask

def get_inputs():
    return [torch.randn(4, 8)]

def get_init_inputs():
    return [8]
"""
LINEAR = module_task("self.linear(x)", "torch.randn(4, 4096)", init="self.linear = nn.Linear(4096, 1024)")
KNOWN = {"norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "mix", "tied", "table"}


def test_what_begins_alike_whatever_the_seed_is_known_to_anybody() -> None:
    assert Reference(SOURCE, "cpu", None).guessable == KNOWN


def test_none_of_it_stays_as_it_was_built() -> None:
    reference = Reference(SOURCE, "cpu", None)
    for name in KNOWN:
        before, after = reference.seeded_state[name], reference.random_state[name]
        assert not torch.equal(before, after), name
        assert float((before != after).float().mean()) > 0.9, name
    assert torch.equal(reference.random_state["mask"], reference.seeded_state["mask"]), "a table of the architecture is its own"
    assert torch.equal(reference.random_state["mix"], reference.random_state["tied"]), "one tensor under two names"
    assert not torch.equal(reference.random_state["linear.weight"], reference.seeded_state["linear.weight"])
    assert float(reference.random_state["norm.running_var"].min()) > 0


def test_a_faint_bias_is_felt_in_a_lower_precision() -> None:
    """That of a layer with ten thousand inputs is less than what bf16 is allowed to be off by."""
    coarse, fine = Reference(LINEAR, "cpu", None, "bf16").random_state, Reference(LINEAR, "cpu", None).random_state
    assert float(coarse["linear.bias"].square().mean().sqrt()) == pytest.approx(0.2, rel=0.1)
    assert float(fine["linear.bias"].abs().max()) < 0.02 > float(coarse["linear.weight"].abs().max())
    narrow = Reference(LINEAR.replace("4096, 1024", "4096, 1024, dtype=torch.bfloat16"), "cpu", None).random_state
    assert float(narrow["linear.bias"].float().square().mean().sqrt()) == pytest.approx(0.2, rel=0.1)


def test_a_model_without_constants_leaves_nothing_to_guess() -> None:
    source = SOURCE.replace("self.norm = nn.BatchNorm1d(width)", "self.norm = nn.Identity()")
    source = source.replace("torch.eye(width)", "torch.randn(width, width)").replace(
        "torch.arange(width).float().log1p()", "torch.rand(width)"
    )
    assert Reference(source, "cpu", None).guessable == frozenset()


def test_what_is_drawn_so_small_that_it_could_be_left_out_is_as_good_as_known() -> None:
    source = SOURCE.replace("torch.eye(width)", "1e-6 * torch.randn(width, width)").replace(
        "torch.arange(width).float().log1p()", "1 + 1e-5 * torch.randn(width)"
    )
    reference = Reference(source, "cpu", None)
    assert reference.guessable == KNOWN
    assert float(reference.random_state["mix"].abs().mean()) > 0.01


def state_of(constructor: str, precision: str = "fp32") -> Reference:
    source = f"""
import copy, torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {constructor}

    def forward(self, x):
        return x

def get_inputs():
    return [torch.randn(4, 8)]

def get_init_inputs():
    return []
"""
    return Reference(source, "cpu", None, precision)


def test_what_ties_parameters_to_each_other_is_broken() -> None:
    state = state_of("self.norm = torch.nn.utils.weight_norm(nn.Linear(32, 16))")
    assert state.guessable == {"norm.weight_g"}
    lengths = state.random_state["norm.weight_v"].norm(dim=1, keepdim=True)
    assert float((state.random_state["norm.weight_g"] / lengths - 1).abs().max()) > 0.05

    state = state_of("self.one = nn.Linear(32, 16); self.two = copy.deepcopy(self.one)")
    assert state.guessable == {"two.weight", "two.bias"}
    assert float((state.random_state["one.weight"] - state.random_state["two.weight"]).abs().max()) > 0.01

    drawn = state_of("self.turn = nn.Parameter(nn.init.orthogonal_(torch.empty(32, 32)))").random_state["turn"]
    assert float((drawn @ drawn.T - torch.eye(32)).abs().max()) > 0.05


def test_signs_zeros_and_symmetry_of_parameters_stay() -> None:
    state = state_of("self.p = nn.Parameter(torch.randn(9, 8).relu()); m = torch.randn(8, 8); self.s = nn.Parameter(m @ m.T)")
    assert bool((state.random_state["p"] >= 0).all()) and bool((state.random_state["p"] == 0).any())
    assert torch.equal(state.random_state["s"], state.random_state["s"].T)


def test_buffers_of_zeros_or_ones_are_gains_that_may_not_be_left_out() -> None:
    state = state_of(
        "self.register_buffer('gain', torch.ones(8)); self.register_buffer('shift', torch.zeros(8)); "
        "self.register_buffer('table', torch.arange(8.0)); self.register_buffer('scale', torch.tensor(1.0))"
    )
    assert state.guessable == {"gain", "shift"}
    assert bool((state.random_state["gain"] > 1).all()) and bool((state.random_state["shift"] >= 0).all())
    assert torch.equal(state.random_state["table"], torch.arange(8.0))
