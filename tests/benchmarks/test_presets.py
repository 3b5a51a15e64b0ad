"""What is cut down of a preset is the machine's, and a line says whether the run went on where it was stopped."""

from __future__ import annotations

import pytest
from presets import MACHINES, RECIPES, STEPS, Told, settings_of

from bottega.core.event import Measured
from bottega.train.config import read_config
from bottega.train.metrics import TrainingStarted

FIGURES = {"seconds/step": 2.0, "reward": 0.5, "correct": 0.25, "memory_gib": 3.0}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", [*MACHINES, *RECIPES])
def test_a_preset_keeps_what_it_is(name: str, device: str) -> None:
    layers, own = settings_of(name, device, 2, 3)
    config, whole = read_config("rl", layers, None, own), read_config("rl", layers)
    assert (config.reward, config.advantage, config.loss, config.rejection) == (
        whole.reward,
        whole.advantage,
        whole.loss,
        whole.rejection,
    )
    assert config.optimiser.lr == whole.optimiser.lr and config.ablations == whole.ablations
    assert (config.model.lora, config.model.recompute) == (whole.model.lora, whole.model.recompute)
    stages = config.stages.single_turn + config.stages.own_answers + config.stages.critic
    assert stages < STEPS.get(name, 3), "a step of RL is left"


def told(begun: list[int], steps: list[int]) -> Told:
    found = Told()
    for step in begun:
        found.hear(TrainingStarted(3, step, "model", 1, 1, ""))
    for step in steps:
        found.hear(Measured(f"train/{step}", step, FIGURES))
    return found


def test_a_run_that_begins_again_did_not_go_on() -> None:
    assert "3 steps; 2.0 2.0 2.0 s a step" in told([0, 2], [1, 2, 3]).line("kevin", 3)
    assert "25% right; 3.0 GiB; resumed right" in told([0, 2], [1, 2, 3]).line("kevin", 3)
    assert "resumed wrong" in told([0, 0], [1, 2, 1, 2, 3]).line("kevin", 3)
    assert "0 steps" in told([], []).line("kevin", 3) and "resumed not yet" in told([0], [1]).line("kevin", 3)
