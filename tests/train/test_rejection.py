"""Rejection by coverage and by mismatch: what is dropped, what stays, and that it is told."""

from __future__ import annotations

import math

import pytest

from bottega.core.trace import Trace
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Verdict
from bottega.train.rejection_sampling import keep_probability, reject_by_coverage, reject_by_mismatch
from bottega.train.settings import CoverageSettings, MismatchSettings


def kernels(name: str, share: float | None, outcome: Outcome = Outcome.FASTER, turns: int = 1) -> Trace:
    turn = Turn("write", "", verdict=Verdict(outcome, True, coverage={"share": share}))
    return Trace(name, "write", (turn,) * turns)


@pytest.mark.parametrize(("share", "kept"), [(0.0, 0.0), (0.3, 0.0), (0.325, 0.25), (0.35, 0.5), (0.4, 1.0), (1.0, 1.0)])
def test_the_probability_of_staying(share: float, kept: float) -> None:
    assert keep_probability(share, CoverageSettings()) == pytest.approx(kept)


def test_above_the_ramp_everything_stays_and_below_it_nothing() -> None:
    rule = CoverageSettings()
    assert reject_by_coverage([kernels("a", 0.9, turns=50)], rule, 0).dropped == ()
    low = reject_by_coverage([kernels("a", 0.1, turns=50)], rule, 0)
    assert len(low.turns) == 50
    assert low.share == 1.0
    assert str(low) == "50 of 50 dropped: 50 low coverage"


def test_on_the_ramp_the_share_is_the_probability_and_the_draw_is_the_seeds() -> None:
    traces = [kernels(f"t{number}", 0.37, turns=4) for number in range(500)]
    first = reject_by_coverage(traces, CoverageSettings(), seed=1)
    assert first.share == pytest.approx(0.3, abs=0.04)
    assert reject_by_coverage(traces, CoverageSettings(), seed=1) == first
    assert reject_by_coverage(traces, CoverageSettings(), seed=2).turns != first.turns
    alone = reject_by_coverage(traces[7:8], CoverageSettings(), seed=1)
    assert alone.turns == {turn for turn in first.turns if turn[0] == "t7"}, "what else is in the batch changed the draw"


def test_wrong_and_unmeasured_kernels_stay() -> None:
    traces = [
        kernels("wrong", 0.0, Outcome.INCORRECT),
        kernels("unmeasured", None),
        Trace("none", "write", (Turn("write", ""),)),
    ]
    assert reject_by_coverage(traces, CoverageSettings(), 0).dropped == ()


def drawn(name: str, *logprobs: tuple[float, ...]) -> Trace:
    return Trace(name, "write", tuple(Turn("write", "", output_ids=(1,) * len(own), logprobs=own) for own in logprobs))


@pytest.mark.parametrize(
    ("ours", "reason", "value"),
    [
        (((-1.0, -1.0), (-1.0,)), None, None),
        (((-1.0, -1.0), (-0.994,)), "geometric mean", math.exp(0.006 / 3)),
        (((-1.5, -0.5), (-1.0,)), None, None),  # apart at each token, together on the whole
        (((-1.0, -11.0), (9.0,)), "veto", math.exp(-10)),
        (((-1.0, math.nan), (-1.0,)), "no number", math.nan),
        (((-1.0, -math.inf), (-1.0,)), "no number", math.nan),
    ],
)
def test_a_trace_goes_by_its_geometric_mean_or_by_one_impossible_token(
    ours: tuple[tuple[float, ...], ...], reason: str | None, value: float | None
) -> None:
    trace = drawn("t", (-1.0, -1.0), (-1.0,))
    found = reject_by_mismatch([trace, drawn("u", (-2.0,))], {"t": ours, "u": ((-2.0,),)}, MismatchSettings())
    assert found.looked_at == 2
    assert [each.reason for each in found.dropped] == ([] if reason is None else [reason])
    if reason is not None and value is not None:
        assert found.dropped[0].value == pytest.approx(value, nan_ok=True)
        assert found.traces == {"t"}
        assert found.drops("t", 0) and found.drops("t", 1) and not found.drops("u", 0)
