"""Timed outputs: a glance at each for what trials look for, and what it shows is followed up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bottega.judge import timed_outputs
from bottega.judge.timed_outputs import ALARMS, GLANCED_AT, TimedOutputs, _thinned
from bottega.judge.trials import OutputPair

OFF = [(0.0, 0.0)]


def inspection(kind: str = "fp64") -> TimedOutputs:
    oracle: Any = SimpleNamespace(kind=kind)
    options: Any = SimpleNamespace(precision="fp32")
    nobody: Any = None
    return TimedOutputs(oracle, nobody, nobody, options, quick=True)


def pair(*shape: int) -> OutputPair:
    """A faint slice is left out."""
    want = torch.randn(*shape)
    want[:, 3] *= 1e-4
    got = want.clone()
    got[:, 3] = 0
    return OutputPair("the output", got, want)


@pytest.mark.parametrize("shape", [(64, 32), (70_000, 8), (300, 8, 1000)])
def test_a_faint_slice_that_is_left_out_of_a_timed_call_is_followed_up(shape: tuple[int, ...]) -> None:
    one = pair(*shape)
    assert inspection()._must_follow_up([one], OFF)
    assert not inspection()._must_follow_up([OutputPair("the output", one.want.clone(), one.want)], OFF)
    assert not inspection("reference")._must_follow_up([one], OFF), "there is nothing to hold it against"
    assert not inspection()._must_follow_up([one], [(1e-3, 0.0)]), "nor of what the reference itself is far off"


def test_a_baseline_that_rounds_no_better_does_not_have_every_call_followed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_outputs.secrets, "randbelow", lambda bound: 1)
    looked = inspection()
    assert sum(looked._must_follow_up([pair(64, 32)], OFF) for _ in range(20)) == ALARMS


def test_whole_slices_of_the_longest_axes_are_looked_at() -> None:
    want = torch.arange(3 * 50_000 * 40).view(3, 50_000, 40)
    got, same = _thinned(want, want)
    assert torch.equal(got, same) and GLANCED_AT // 2 < got.numel() <= GLANCED_AT and got.shape[0] == 3 and got.shape[2] == 40
