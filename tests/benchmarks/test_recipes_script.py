"""Only sizes of a recipe are cut, and what is cut is told."""

from __future__ import annotations

import pytest
from recipes import CUTS, cut

from bottega.train.config import read_config

SIZES = {
    "data.steps", "rollout.tasks", "rollout.turns", "rollout.summaries", "skills.proofs", "skills.siblings", "skills.rounds",
    "stages.single_turn", "stages.own_answers", "stages.critic",
}  # fmt: skip


@pytest.mark.parametrize("recipe", CUTS)
def test_only_sizes_are_cut(recipe: str) -> None:
    whole, config = (read_config("rl", f"one-gpu,{recipe}", None, settings) for settings in ([], [*CUTS[recipe]]))
    told = list(cut(whole, config))
    assert {line.split(":")[0] for line in told} <= SIZES and len(told) == len(CUTS[recipe])
    assert config.rollout.samples * (config.rollout.schemes + 1) == 16
    assert any(line == f"data.steps: {whole.data.steps} in the recipe, {config.data.steps} here" for line in told)
