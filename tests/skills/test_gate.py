"""The gate's decision, on pairs as they might come: it needs a gain on siblings too, and stops early both ways."""

from __future__ import annotations

import math

import numpy as np
import pytest
from skill_cards import verdict

from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.skills.gate import GatePair, Rules, decide, hopeless, worth

RULES = Rules()


def pairs(gains: list[float], without: float = 0.1) -> list[GatePair]:
    return [GatePair(without + gain, without) for gain in gains]


def both(own: list[float], sibling: list[float] | None = None) -> dict[str, list[GatePair]]:
    return {"own": pairs(own), "sibling": pairs(own if sibling is None else sibling)}


@pytest.mark.parametrize(
    ("given", "speedup"),
    [
        (verdict(2.0), 2.0),
        (verdict(0.5), 1.0),
        (verdict(50.0), 3.0),
        (verdict(None), 1.0),
        (verdict(float("nan")), 1.0),
        (verdict(float("inf")), 1.0),
        (Verdict(Outcome.FASTER, True), 1.0),
        (Verdict(Outcome.REJECTED, True, {"eager": Speedup(9, 9, 9)}), 1.0),
        (Verdict(Outcome.AMBIGUOUS, True, {"eager": Speedup(1.2, 0.9, 1.5)}), 1.2),
        (Verdict(Outcome.FASTER, True, {"compile": Speedup(2, 2, 2)}), 1.0),
    ],
)
def test_an_attempt_is_worth_what_its_user_gains(given: Verdict, speedup: float) -> None:
    assert math.exp(worth(given, RULES)) == pytest.approx(speedup)


def test_a_clear_gain_on_both_tasks_is_admitted_early() -> None:
    for rounds in range(1, 33):
        decision = decide(both([0.5] * rounds), "own", RULES)
        if decision.step != "go on":
            break
    assert decision.step == "admit" and RULES.least_rounds <= rounds <= 12
    assert decision.gain.low > 1.05 and decision.rounds == rounds
    assert set(decision.by_task) == {"own", "sibling"} and decision.by_task["sibling"].point == pytest.approx(math.exp(0.5))


def test_nothing_is_decided_before_the_least_number_of_rounds() -> None:
    rules = Rules(least_rounds=6)
    for gain in (1.09, -1.0, 0.0):
        assert all(decide(both([gain] * rounds), "own", rules).step == "go on" for rounds in range(1, 6))


def test_no_gain_and_harm_are_refused_early() -> None:
    for gain in (0.0, 0.01, -0.3):
        decision = decide(both([gain] * RULES.least_rounds), "own", RULES)
        assert decision.step == "refuse", gain
    noisy = [0.2, -0.25, 0.1, -0.15, 0.05, -0.1, 0.0, -0.05]
    steps = [decide(both(noisy[:rounds]), "own", RULES).step for rounds in range(1, 9)]
    assert "admit" not in steps


def test_harm_is_refused_by_its_bound() -> None:
    decision = decide(both([-0.9, -0.2] * 6), "own", Rules(least_rounds=12))
    assert decision.step == "refuse" and "gain below 1.05x" in decision.reason and decision.gain.high < 1.05


def test_a_gain_that_stays_unproved_is_refused_in_the_end() -> None:
    chance = np.random.default_rng(1)
    gains = list(chance.normal(0.12, 0.5, 32).clip(-1, 1))
    gains = [gain + 0.08 - sum(gains) / 32 for gain in gains]
    decision = decide(both(gains), "own", RULES)
    assert decision.step == "refuse" and "not proved" in decision.reason and decision.gain.point > 1.05 > decision.gain.low


def test_a_card_that_helps_its_own_task_only_is_not_admitted() -> None:
    own, none = [1.0] * 32, [0.0] * 32
    steps = [decide(both(own[:rounds], none[:rounds]), "own", RULES) for rounds in range(1, 33)]
    assert all(decision.step != "admit" for decision in steps)
    assert steps[-1].step == "refuse" and "its own task only" in steps[-1].reason
    assert any("its siblings do not show it yet" in decision.reason for decision in steps)
    assert decide(both(none, own), "own", RULES).step == "admit", "a sibling's gain is what was asked for"


def test_a_lucky_few_do_not_carry_a_card() -> None:
    assert decide(both([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]), "own", RULES).step != "admit"


def test_all_tasks_must_have_whole_rounds_and_there_must_be_a_sibling() -> None:
    with pytest.raises(ValueError, match="whole rounds"):
        decide({"own": pairs([0.1] * 5), "sibling": pairs([0.1] * 4)}, "own", RULES)
    with pytest.raises(ValueError, match="sibling"):
        decide({"own": pairs([0.1] * 5)}, "own", RULES)


@pytest.mark.parametrize(
    "rules",
    [
        {"threshold": 0.9},
        {"threshold": 3.0},
        {"threshold": float("nan")},
        {"least_rounds": 0},
        {"least_rounds": 9, "most_rounds": 8},
        {"cap": 1.0},
    ],
    ids=str,
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        Rules(**rules)  # type: ignore[arg-type]


def test_hope_ends_two_errors_below_the_threshold() -> None:
    assert hopeless([0.0] * 4, RULES)
    assert not hopeless([0.0, 0.0, 0.0, 0.5], RULES)
    assert not hopeless([0.06] * 4, RULES)
    assert not hopeless([0.0, 0.0, 0.0, 0.15], RULES), "its mean is below the threshold, and might not be"
    assert hopeless([0.02, -0.02] * 8, RULES)


def run_of(chance: np.random.Generator, gain: float, rules: Rules) -> str:
    """A proof of a card with this gain, between attempts that succeed half of the time."""
    got: dict[str, list[GatePair]] = {"own": [], "sibling": []}
    while True:
        for of_task in got.values():
            values = [math.log(min(3.0, max(1.0, chance.lognormal(mean, 0.3)))) for mean in (0.3 + gain, 0.3)]
            lucky = chance.random(2) < 0.5
            of_task.append(GatePair(values[0] * lucky[0], values[1] * lucky[1]))
        decision = decide(got, "own", rules)
        if decision.step != "go on":
            return decision.step


@pytest.mark.slow
def test_cards_without_a_gain_are_seldom_admitted() -> None:
    chance, rules = np.random.default_rng(8), Rules(threshold=1.0, most_rounds=12)
    assert sum(run_of(chance, 0.0, rules) == "admit" for _ in range(24)) <= 4


@pytest.mark.slow
def test_good_cards_are_often_admitted() -> None:
    chance, rules = np.random.default_rng(8), Rules(threshold=1.0)
    assert sum(run_of(chance, 0.8, rules) == "admit" for _ in range(24)) >= 8


@pytest.mark.slow
def test_over_many_proofs_cards_without_a_gain_are_admitted_no_more_often_than_said() -> None:
    chance, rules = np.random.default_rng(9), Rules(threshold=1.0, alpha=0.1)
    admitted = sum(run_of(chance, 0.0, rules) == "admit" for _ in range(120))
    assert admitted <= 12 + 3 * math.sqrt(10.8)
