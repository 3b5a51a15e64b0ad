"""The SkyRL environment, made and stepped by skyrl-gym itself."""

from __future__ import annotations

import pytest

pytest.importorskip("skyrl_gym", reason="pip install skyrl-gym")

import skyrl_gym
from scripted_judge import KERNEL, ROOT, ScriptedJudge, faster, lost

from bottega.service.environments.factory import SessionFactory
from bottega.service.environments.settings import EnvironmentSettings
from bottega.service.environments.skyrl_gym_env import ID, register

ROW = {"task": "builtin:star_relu"}


def made(judge: ScriptedJudge) -> skyrl_gym.Env:
    register()
    settings = EnvironmentSettings(turns=3, reward="kevin", style="full")
    return skyrl_gym.make(ID, env_config=SessionFactory(settings, judge), extras=ROW)


def test_rewards_of_the_steps_add_up_to_the_score() -> None:
    environment = made(ScriptedJudge([faster(1.0), faster(3.0), faster(2.0)]))
    messages, _ = environment.init([])
    assert "class Model" in messages[-1]["content"]
    steps = [environment.step(KERNEL) for _ in range(3)]
    assert [step["done"] for step in steps] == [False, False, True]
    assert steps[0]["observations"][0]["role"] == "user" and not steps[2]["observations"]
    assert [step["reward"] for step in steps] == pytest.approx([1.3, 2.0, 0.0])
    assert environment.get_metrics()["best"] == pytest.approx(2.7)


def test_a_lost_judge_ends_the_trajectory() -> None:
    step = made(ScriptedJudge([lost()])).step(KERNEL)
    assert step["done"] and step["reward"] == 0 and step["metadata"]["judged"] == 0


@pytest.mark.slow
def test_a_real_rollout() -> None:
    register()
    environment = skyrl_gym.make(ID, env_config={"turns": 1, "n_jobs": 4}, extras=ROW)
    environment.init([])
    step = environment.step(f"```python\n{(ROOT / 'examples/star_relu.py').read_text()}\n```")
    assert step["done"] and step["reward"] > 0.5, step
