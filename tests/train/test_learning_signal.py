"""What training learns from: nothing that copies, nothing that cannot be read, no noise made large, and whole comparisons."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from bottega.agents.prompts import Prompts
from bottega.core.device import DeviceFacts
from bottega.core.episode import Episode
from bottega.core.errors import UsageError
from bottega.core.settings import preset_names
from bottega.core.trace import Trace
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.skills.gate import GatePair, Rules, decide, worth
from bottega.train.admission import _rules
from bottega.train.batch import credits_of
from bottega.train.config import PRESETS, read_config
from bottega.train.rejection_sampling import reject_by_coverage
from bottega.train.rewards import REWARDS, reward_named
from bottega.train.rollout import RlInputs, Rollouts, episode_settings, has_signal, replacements, shares_right

KERNEL = Verdict(Outcome.FASTER, True, {"eager": Speedup(1.5, 1.4, 1.6)}, coverage={"share": 0.8, "own": ["scale"]})
WRONG = Verdict(Outcome.INCORRECT, False)
COPY = Verdict(Outcome.AMBIGUOUS, True, {"eager": Speedup(1.0, 0.99, 1.01)}, coverage={"share": 0.0, "own": []})


def written(name: str, scheme: int, *verdicts: Verdict) -> Trace:
    return Trace(name, "write", tuple(Turn("write", "", verdict=verdict) for verdict in verdicts), scheme)


def episode(*traces: Trace, schemes: int = 3) -> Episode:
    names: tuple[tuple[str, ...], ...] = ((), ("one",), ("two",), ("three",))
    return Episode("e", "task", "task", "", "cpu", 0, (), names[:schemes], traces)


@pytest.mark.parametrize("name", REWARDS.names)
def test_a_copy_of_the_reference_earns_what_a_wrong_kernel_does(name: str) -> None:
    reward = reward_named(name)
    assert reward(COPY) == reward(WRONG) < reward(KERNEL)
    unmeasured = replace(COPY, coverage={"share": None, "own": []})
    assert reward(unmeasured) == reward(WRONG), "it has no kernel at all"
    around = replace(COPY, coverage={"share": 0.002, "own": ["gate"], "beside_products": True})
    assert reward(around) > reward(WRONG), "its kernels do all that is beside the products"


def test_a_copy_is_worth_nothing_to_the_gate_and_is_not_right_at_the_edge_of_ability() -> None:
    from bottega.core.task import Task

    library_call = replace(COPY, outcome=Outcome.FASTER, speedup={"eager": Speedup(2.0, 1.9, 2.1)})
    assert worth(library_call, Rules()) == 0.0 < worth(KERNEL, Rules())
    held = episode(written("a", 0, KERNEL), written("b", 0, COPY), written("c", 0, WRONG), written("d", 0, library_call))
    assert shares_right(Rollouts((held,), (Task("x = 1\n", "t"),))) == {"task": 0.25}


def test_a_copy_stays_in_the_batch_as_the_failure_that_it_is() -> None:
    settings = read_config("rl", None).rejection.coverage
    kept = reject_by_coverage([written("copy", 0, COPY), written("wrong", 0, WRONG)], settings, seed=0)
    assert not kept.dropped
    library = replace(KERNEL, coverage={"share": 0.1, "own": ["scale"]})
    assert reject_by_coverage([written("library", 0, library)], settings, seed=0).dropped


def test_a_selection_that_cannot_be_read_is_no_choice_of_nothing() -> None:
    slow = replace(KERNEL, speedup={"eager": Speedup(1.2, 1.2, 1.2)})
    selections = (
        Trace("garbage", "select", (Turn("select", "", fault="The answer names no skill."),), 1),
        Trace("valid", "select", (Turn("select", ""),), 2),
    )
    held = episode(*selections, written("w0", 0, KERNEL), written("w1", 1, KERNEL), written("w2", 2, slow))
    held = replace(held, schemes=((), (), ("two",)))
    config = read_config("rl", None, None, ["reward.name=kevin"])
    found = {credit.trace: credit for credit in credits_of(config, [held], {}, 1) if credit.role == "select"}
    assert found["garbage"].reward == 0.0
    assert found["garbage"].advantage < found["valid"].advantage


def test_only_writing_is_evened_out_and_noise_is_not_made_large() -> None:
    def fast(value: float) -> Verdict:
        return replace(KERNEL, speedup={"eager": Speedup(value, value, value)})

    alike = episode(written("a", 0, fast(1.0)), written("b", 0, fast(1.0005)), schemes=1)
    config = read_config("rl", None, None, ["advantage.even=true", "reward.name=kevin"])
    assert max(abs(credit.advantage) for credit in credits_of(config, [alike], {}, 1)) < 0.02
    summaries = [Trace(name, "summarise", (Turn("summarise", ""),), 0) for name in ("m", "n")]
    chosen = Trace("s", "select", (Turn("select", ""),), 1)
    apart = episode(written("a", 0, fast(1.0)), written("b", 1, fast(3.0)), *summaries, chosen, schemes=2)
    found = {credit.trace: credit.advantage for credit in credits_of(config, [apart], {"m": 0.25, "n": 0.0}, 1)}
    assert (found["a"], found["b"]) == pytest.approx((-1.0, 1.0))
    assert found["s"] == pytest.approx(2.0 * config.advantage.weights.select), "as measured"
    weight = config.advantage.weights.summarise
    assert (found["m"], found["n"]) == pytest.approx((0.25 * weight, -0.25 * weight)), "as measured"


@pytest.mark.parametrize("preset", [None, *preset_names(PRESETS)])
def test_a_run_offers_what_its_library_has_and_compares_as_many_rollouts_without_cards(preset: str | None) -> None:
    config = read_config("rl", preset)
    given = RlInputs(None, (), None, Prompts("terse"), DeviceFacts("cpu", "a toy", "", 1, 1.0), "cpu", "cpp", {})  # type: ignore[arg-type]
    settings = episode_settings(config, given)
    assert settings.unproved and settings.even_groups and settings.empty_scheme
    assert settings.samples * (settings.schemes + 1) == (16 if preset != "laptop" else 4)
    assert settings.turns > 1 and (settings.summaries > 0 or not config.ablations.skills)


def test_with_one_turn_nothing_can_be_summarised_and_that_is_told() -> None:
    with pytest.raises(UsageError, match="nothing is ever summarised"):
        read_config("rl", None, None, ["rollout.turns=1"])
    assert read_config("rl", None, None, ["rollout.turns=1", "rollout.summaries=0"]).rollout.turns == 1


def test_a_cap_that_a_reward_does_not_have_is_told_with_the_settings() -> None:
    with pytest.raises(UsageError, match="milestones has no cap"):
        read_config("rl", None, None, ["reward.name=milestones", "reward.cap=3"])


def passes(gain: float, seed: int, rules: Rules, siblings: int = 6) -> bool:
    """A card with a true gain, written by a model that is right nine times of ten."""
    chance = random.Random(seed)

    def worth(speed: float) -> float:
        return max(0.0, math.log(speed) + chance.gauss(0, 0.05)) if chance.random() < 0.9 else 0.0

    pairs: dict[str, list[GatePair]] = {str(task): [] for task in range(1 + siblings)}
    while True:
        for of_task in pairs.values():
            of_task.append(GatePair(worth(1.2 * gain), worth(1.2)))
        decision = decide(pairs, "0", rules)
        if decision.step != "go on":
            return decision.step == "admit"


@pytest.mark.rotates
def test_the_gate_admits_in_its_budget_what_is_worth_a_summary_and_nothing_else() -> None:
    skills = read_config("rl", None).skills
    rules = Rules(least_rounds=skills.least_rounds, most_rounds=skills.rounds)
    assert (skills.siblings, skills.rounds) >= (6, 24)
    assert sum(passes(1.5, seed, rules) for seed in range(40)) >= 38
    assert sum(passes(1.2, seed, rules) for seed in range(40)) >= 20
    assert sum(passes(1.0, seed, rules) for seed in range(100)) <= 5


def test_the_gate_counts_speedups_up_to_its_setting() -> None:
    """Where the rule's kernel is four times as fast as eager, a cap of 3 hides what any card gains."""
    four, five = (replace(KERNEL, outcome=Outcome.FASTER, speedup={"eager": Speedup(x, x, x)}) for x in (4.0, 5.0))
    low, high = (_rules(read_config("rl", None, None, [f"skills.cap={cap}"])) for cap in (3, 6))
    assert worth(five, low) == worth(four, low) and worth(five, high) > worth(four, high)
    with pytest.raises(UsageError, match="must be below cap"):
        read_config("rl", None, None, ["skills.cap=1.5", "skills.threshold=1.5"])


def test_tasks_without_a_signal_are_replaced_by_others() -> None:
    from toy_world import tasks

    reward, known = reward_named("davinci"), tasks()
    faster = replace(KERNEL, speedup={"eager": Speedup(2.0, 2.0, 2.0)})
    dull = episode(written("a", 0, KERNEL), written("b", 0, KERNEL))
    lively = episode(written("a", 0, KERNEL), written("b", 0, faster))
    assert has_signal(lively, reward) and not has_signal(dull, reward)
    rollouts = Rollouts((dull, lively, dull), known[:3])
    others = replacements(known, rollouts, reward, "7")
    assert len(others) == 2 and not {task.id for task in others} & {task.id for task in known[:3]}
    assert others == replacements(known, rollouts, reward, "7")
    assert replacements(known[:3], rollouts, reward, "7") == []
