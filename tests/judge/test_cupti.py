"""Times of kernels as a profiler saw them, when other processes may have had the device in between."""

from __future__ import annotations

from bottega.judge.cupti import undisturbed


def test_a_launch_that_was_interrupted_counts_as_in_the_other_calls() -> None:
    launches = [("copy", 1.0), ("scale", 5.0)] * 2 + [("copy", 900.0), ("scale", 5.0)]
    assert undisturbed(launches, 3) == [("copy", 1.0), ("scale", 5.0)] * 3


def test_the_same_kernel_may_be_launched_with_several_sizes() -> None:
    launches = [("scale", 100.0), ("scale", 1.0), ("scale", 1.0)] * 5
    assert undisturbed(launches, 5) == launches


def test_calls_that_differ_stay_as_they_are() -> None:
    launches = [("first", 9.0), ("scale", 1.0), ("scale", 1.0)]
    assert undisturbed(launches, 2) == launches
    assert undisturbed([("first", 9.0), *launches], 2) == [("first", 9.0), *launches]
    assert undisturbed([], 4) == []
