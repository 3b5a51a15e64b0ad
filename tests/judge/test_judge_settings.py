"""A bad choice is refused at once, in words that name the good ones."""

from __future__ import annotations

import math

import pytest

from bottega.core.errors import UsageError
from bottega.judge.judge import Judge
from bottega.judge.settings import Settings


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"device": "tpu"}, "use cpu, cuda or cuda:N"),
        ({"device": "cpu:1"}, "cuda:N"),
        ({"device": "cuda:x"}, "cuda:N"),
        ({"device": "cudagraph"}, "cuda:N"),
        ({"device": ""}, "cuda:N"),
        ({"baselines": ()}, "eager, compile, autotune or best"),
        ({"baselines": ("eager", "fast")}, "eager, compile, autotune or best"),
        ({"baselines": ("both",)}, "eager, compile, autotune or best"),
        ({"baselines": ("eager", "eager")}, "each once"),
        ({"baselines": "eager"}, "eager, compile, autotune or best"),
        ({"precision": "fp64"}, "fp32, tf32, bf16, fp16"),
        ({"precision": ""}, "fp32"),
        ({"require_kernel": 1.5}, "between 0 and 1"),
        ({"require_kernel": -0.1}, "between 0 and 1"),
        ({"require_kernel": math.nan}, "between 0 and 1"),
        ({"timeout": 0}, "more than 0"),
        ({"timeout": -1}, "more than 0"),
        ({"timeout": math.nan}, "more than 0"),
        ({"task_timeout": 0.0}, "more than 0"),
        ({"memory_gb": -1.0}, ""),
        ({"memory_gb": math.nan}, ""),
        ({"noise_floor": -0.01}, ""),
        ({"noise_floor": math.nan}, ""),
        ({"timeout": math.inf}, ""),
        ({"timeout": 1e300}, ""),
        ({"task_timeout": math.inf}, ""),
    ],
    ids=str,
)
def test_bad_values_are_refused(choice: dict, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        Settings(**choice)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "choice",
    [
        {"device": "cuda"},
        {"device": "cuda:3"},
        {"baselines": ("compile",)},
        {"baselines": ("eager", "compile")},
        {"baselines": ("best", "autotune")},
        {"precision": "bf16"},
        {"require_kernel": 0},
        {"require_kernel": 1.0},
        {"timeout": 0.5},
    ],
    ids=str,
)
def test_good_values_are_taken(choice: dict) -> None:
    Settings(**choice)


def test_quick_means_less() -> None:
    full, quick = Settings(), Settings(quick=True)
    assert set(quick.variants) < set(full.variants)
    assert quick.rounds[0] <= full.rounds[0]
    assert quick.rounds[1] < full.rounds[1]
    assert quick.timing_seconds < full.timing_seconds


def test_noise_floor_can_be_chosen() -> None:
    assert Settings(noise_floor=0.0).floor == 0.0
    assert Settings().floor > 0


def test_unknown_options_and_workers_are_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="speed"):
        Judge("cpu", speed=11)
    with pytest.raises(UsageError, match="worker"):
        Judge("cpu", workers=0)
