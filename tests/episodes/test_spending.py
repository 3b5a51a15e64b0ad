"""Budgets and the reasons to stop: asked before each step, and never by luck."""

from __future__ import annotations

import pytest

from bottega.core.errors import BudgetError, UsageError
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.episodes.budget import BudgetCaps, RunBudget
from bottega.episodes.node import SearchNode, best_of, ranked
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping


def node(name: str, point: float | None, times: dict[str, float] | None = None) -> SearchNode:
    if point is None:
        return SearchNode(name, None, 0, Turn("write", "", fault="no code"))
    outcome = Outcome.FASTER if point > 1 else Outcome.SLOWER
    verdict = Verdict(outcome, True, {"eager": Speedup(point, point * 0.9, point * 1.1)}, times or {})
    return SearchNode(name, None, 0, Turn("write", "", source=name, verdict=verdict))


@pytest.mark.parametrize("cap", [{"kernels": 0}, {"tokens": 0}, {"money": 0.0}, {"seconds": 0.0}, {"kernels": -1}])
def test_a_budget_of_nothing_is_wrong_usage(cap: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="allows nothing"):
        BudgetCaps(**cap)  # type: ignore[arg-type]


def test_each_cap_is_named_when_it_is_reached() -> None:
    turn = Turn("write", "", prompt_tokens=60, output_tokens=40, cost=0.5)
    for caps, words in ((BudgetCaps(tokens=100), "100 tokens"), (BudgetCaps(money=0.5), "0.5 money")):
        budget = RunBudget(caps)
        assert budget.reached() is None
        budget.spend(turn)
        assert words in (budget.reached() or "")
    budget = RunBudget(BudgetCaps(kernels=2))
    budget.take_kernel()
    budget.take_kernel()
    with pytest.raises(BudgetError, match="2 kernels"):
        budget.take_kernel()


def test_what_a_run_took_before_it_was_resumed_counts() -> None:
    budget = RunBudget(BudgetCaps(seconds=10), earlier_seconds=11)
    assert "10 seconds" in (budget.reached() or "")
    assert budget.seconds_left() == 0
    assert RunBudget().seconds_left() is None


def test_the_sure_end_of_the_interval_ranks() -> None:
    unsure = SearchNode(
        "b", None, 0, Turn("write", "", verdict=Verdict(Outcome.AMBIGUOUS, True, {"eager": Speedup(9.0, 0.5, 90.0)}))
    )
    order = ranked([node("a", 2.0), unsure, node("c", None), node("d", 3.0)], "eager")
    assert [found.id for found in order] == ["d", "a", "b", "c"]
    assert best_of([node("c", None)], "eager") is None


def test_the_target_counts_by_its_lower_bound() -> None:
    assert Stopping(target=2.0).reason([node("a", 2.1)], "eager") is None
    assert "target" in (Stopping(target=2.0).reason([node("a", 2.3)], "eager") or "")


def test_memory_traffic_alone_ends_it() -> None:
    close = [node("a", 2.0, {"candidate": 1.05, "floor": 1.0})]
    assert "roofline" in (Stopping().reason(close, "eager") or "")
    assert Stopping(roofline=0).reason(close, "eager") is None
    unsure = node("a", 2.0, {"candidate": 0.01, "eager": 4.0, "floor": 1.0})
    assert Stopping().reason([unsure], "eager") is None, "its interval allows 2.2 ms"
    assert Stopping().reason([node("a", 0.5, {"candidate": 1.05, "floor": 1.0})], "eager") is None


def test_patience_counts_kernels_without_progress() -> None:
    patient = Stopping(patience=2, roofline=0)
    assert patient.reason([node("a", 2.0), node("b", None), node("c", 2.5)], "eager") is None
    assert "no progress in 2" in (patient.reason([node("a", 2.0), node("b", None), node("c", 2.01)], "eager") or "")


@pytest.mark.parametrize(
    "wrong", [{"strategy": "luck"}, {"turns": 0}, {"samples": 0}, {"schemes": -1}, {"schemes": 0, "empty_scheme": False}]
)
def test_settings_that_ask_for_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        EpisodeSettings(**wrong)  # type: ignore[arg-type]
