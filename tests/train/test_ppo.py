"""PPO: GAE against a plain reference, what the critic learns, and the loop with it: pre-training, checkpoints, resume."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_rl import EXACT, SMALL, measured, notes, same  # noqa: E402
from tiny import one_thread, random_rows, tiny_llama, weights  # noqa: E402, F401
from toy_world import toy_config, toy_inputs, toy_loaded  # noqa: E402

from bottega.core.errors import UsageError  # noqa: E402
from bottega.train import rl  # noqa: E402
from bottega.train.advantages.gae import token_advantages  # noqa: E402
from bottega.train.config import read_config  # noqa: E402
from bottega.train.critic import Critic, with_token_advantages  # noqa: E402
from bottega.train.learner import Learner  # noqa: E402
from bottega.train.policy import Policy  # noqa: E402
from bottega.train.returns import returns  # noqa: E402
from bottega.train.rows import TrainRow, imitation_row  # noqa: E402
from bottega.train.run_directory import resumed_config  # noqa: E402
from bottega.train.settings import Config  # noqa: E402

PPO = ["advantage.name=gae", "critic.lr=1e-2"]


def plain_gae(values: list[float], rewards: list[float], discounts: list[float], trust: float) -> list[float]:
    """As the papers write it: a sum over all later steps, with nothing carried along."""
    steps = len(values)
    after = [*values[1:], 0.0]
    deltas = [rewards[t] + discounts[t] * after[t] - values[t] for t in range(steps)]
    return [
        sum(np.prod([trust * discounts[k] for k in range(t, later)]) * deltas[later] for later in range(t, steps))
        for t in range(steps)
    ]


@pytest.mark.parametrize(("kind", "gamma", "trust"), [*itertools.product(("sum", "max", "last"), (1.0, 0.4), (0.0, 0.95, 1.0))])
def test_gae_is_what_the_papers_write(kind: Any, gamma: float, trust: float) -> None:
    source = np.random.default_rng(3)
    lengths, earned = (4, 1, 6), [0.5, 2.0, 1.25]
    values = [source.normal(size=length) for length in lengths]
    worth = returns(earned, kind, gamma)
    later = [*worth[1:], 0.0]
    rewards: list[float] = []
    discounts: list[float] = []
    for length, own, after in zip(lengths, worth, later):
        rewards += [0.0] * (length - 1) + [own - gamma * after]
        discounts += [1.0] * (length - 1) + [gamma]
    wanted = plain_gae([float(value) for each in values for value in each], rewards, discounts, trust)
    advantages, targets = token_advantages(values, worth, [gamma] * 3, trust)
    assert np.concatenate(advantages) == pytest.approx(wanted)
    assert np.concatenate(targets) == pytest.approx(np.asarray(wanted) + np.concatenate(values))
    if trust == 1.0:
        assert targets[1] == pytest.approx(np.full(1, worth[1])), "with full trust in what came, the target is the return"
    if trust == 1.0 and kind == "sum":
        assert sum(rewards) == pytest.approx(sum(earned)), "a sum's increments are the rewards themselves"


def policy_row(ids: list[int], spans: tuple[tuple[str, int, int, int], ...]) -> TrainRow:
    from dataclasses import replace

    plain = imitation_row(ids[: spans[0][2]], ids[spans[0][2] :])
    policy = np.zeros(len(ids), np.float32)
    for _, _, begin, end in spans:
        policy[begin:end] = 1.0
    return replace(plain, imitation=np.zeros(len(ids), np.float32), policy=policy, spans=spans)


def test_the_turns_of_a_trace_are_one_sequence_whatever_rows_they_lie_in() -> None:
    config = Config.model_validate({"advantage": {"name": "gae"}, "critic": {"whiten": False}, "reward": {"gamma": 0.5}})
    merged = policy_row(list(range(12)), (("a", 0, 2, 5), ("a", 2, 8, 12)))
    apart = [policy_row(list(range(5)), (("a", 0, 2, 5),)), policy_row(list(range(12)), (("a", 2, 8, 12),))]
    values = np.arange(7, dtype=np.float32) / 7
    worth = {("a", 0): 3.0, ("a", 2): 2.0}
    (one,) = with_token_advantages([merged], [values], worth, config)
    first, second = with_token_advantages(apart, [values[:3], values[3:]], worth, config)
    assert one.advantage[2:5] == pytest.approx(first.advantage[2:5])
    assert one.advantage[8:12] == pytest.approx(second.advantage[8:12])
    wanted = plain_gae(values.tolist(), [0, 0, 3.0 - 0.25 * 2.0, 0, 0, 0, 2.0], [1, 1, 0.25, 1, 1, 1, 0], 0.95)
    assert [*one.advantage[2:5], *one.advantage[8:12]] == pytest.approx(wanted, rel=1e-5)
    assert np.isnan(one.target[:2]).all() and not one.advantage[:2].any(), "a prompt's tokens have neither"
    white = with_token_advantages([merged], [values], worth, config.model_copy(update={"critic": Config().critic}))[0]
    told = np.concatenate([white.advantage[2:5], white.advantage[8:12]])
    assert told.mean() == pytest.approx(0, abs=1e-6) and told.std() == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("foreign", [False, True])
def test_a_critic_learns_what_its_targets_say(foreign: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    if foreign:
        monkeypatch.setattr("bottega.train.policy.unfit", lambda model: "told so")
    config = Config.model_validate(
        {"advantage": {"name": "gae"}, "critic": {"lr": 1e-2}, "optimiser": {"schedule": "constant"}}
    )
    policy = Policy(tiny_llama())
    rows = [policy_row(row.ids.tolist(), (("a", 0, row.spans[0][2], len(row)),)) for row in random_rows(6)]
    rows = [
        replace(row, target=np.where(row.policy > 0, number % 3, np.nan).astype(np.float32)) for number, row in enumerate(rows)
    ]
    critic = Critic(policy, config)
    packs = policy.packs(rows, 64)
    assert all(not critic.values(pack).any() for pack in packs), "it begins by expecting nothing"
    before = {name: value.detach().clone() for name, value in policy.model.named_parameters()}
    told = [critic.update(packs, step, 60) for step in range(60)]
    assert told[-1]["critic/loss"] < 0.1 * told[0]["critic/loss"]
    assert told[-1]["critic/explained"] > 0.8
    assert all(torch.equal(value, before[name]) for name, value in policy.model.named_parameters()), (
        "the policy is another network"
    )


@pytest.mark.rotates
def test_the_policy_waits_while_the_critic_is_trained_first(tmp_path: Path) -> None:
    given = [*SMALL, *EXACT, *PPO, "ablations.frozen_library=true", "rollout.summaries=0", "data.steps=2"]
    rl.train(toy_config(tmp_path, *given, "stages.critic=2"), tmp_path / "waits", inputs=toy_inputs(tmp_path))
    told = measured(tmp_path / "waits")
    assert told["train/2"]["critic/loss"] >= 0 and told["train/2"]["tokens/learned"] == 0
    assert "the critic is trained first" in notes(tmp_path / "waits")
    begun = {name: value.detach() for name, value in toy_loaded().model.named_parameters()}
    assert same(weights(tmp_path / "waits"), begun)
    rl.train(toy_config(tmp_path, *given, "stages.critic=1"), tmp_path / "learns", inputs=toy_inputs(tmp_path))
    assert measured(tmp_path / "learns")["train/2"]["tokens/learned"] > 0
    assert not same(weights(tmp_path / "learns"), begun)


@pytest.mark.rotates
def test_a_run_with_a_critic_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    config = toy_config(
        tmp_path, *SMALL, *EXACT, *PPO, "ablations.frozen_library=true", "rollout.summaries=0", "stages.critic=1"
    )
    rl.train(config, tmp_path / "whole", inputs=toy_inputs(tmp_path))
    asked = iter([False, True])
    cut = rl.train(config, tmp_path / "cut", inputs=toy_inputs(tmp_path), stop=lambda: next(asked))
    assert cut.step == 2
    rl.train(resumed_config("rl", tmp_path / "cut"), tmp_path / "cut", resume=True, inputs=toy_inputs(tmp_path))
    one, other = (
        {key: value for key, value in measured(tmp_path / name).items() if key.startswith("train/")}
        for name in ("whole", "cut")
    )
    assert one == other
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "cut"))


def test_a_checkpoint_without_a_critic_is_another_models(tmp_path: Path) -> None:
    from bottega.core.errors import TrainingError

    Learner.begin(Config(), toy_loaded().model).save(tmp_path / "plain")
    with pytest.raises(TrainingError, match="another model"):
        Learner.begin(Config.model_validate({"advantage": {"name": "gae"}}), toy_loaded().model).load(tmp_path / "plain")


@pytest.mark.parametrize("more", ["advantage.even=true", "sharding.ranks=2"])
def test_what_does_not_go_with_a_critic_is_refused(more: str) -> None:
    with pytest.raises(UsageError, match="gae"):
        read_config("rl", None, None, ["advantage.name=gae", more])


@pytest.mark.slow
def test_the_writer_gets_better_by_ppo(tmp_path: Path) -> None:
    from test_it_learns import run

    first, last = run(tmp_path, 0, *PPO, "rollout.summaries=0", "loss.kl=0.05", "stages.critic=2", steps=24)
    print(f"PPO: {first} to {last}")
    assert last.write > first.write + 0.4, (first, last)
