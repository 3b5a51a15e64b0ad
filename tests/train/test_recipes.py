"""The papers' recipes as presets, each from its first step to its last with a tiny model, and the stages that a run may begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from test_rl import measured, notes, same  # noqa: E402
from tiny import one_thread, weights  # noqa: E402, F401
from toy_world import ToyJudge, toy_config, toy_inputs, toy_loaded  # noqa: E402

from bottega.core.episode import Episode  # noqa: E402
from bottega.core.event import Wrote  # noqa: E402
from bottega.core.trace import Trace  # noqa: E402
from bottega.core.turn import Turn  # noqa: E402
from bottega.core.verdict import Outcome, Speedup, Verdict  # noqa: E402
from bottega.episodes.journal import read_events  # noqa: E402
from bottega.train import rl  # noqa: E402
from bottega.train.config import read_config  # noqa: E402
from bottega.train.rewards import reward_named  # noqa: E402
from bottega.train.settings import StageSettings  # noqa: E402
from bottega.train.stages import own_answers, stage_of  # noqa: E402

SIZES = [
    "data.longest=64", "data.pack_tokens=2048", "data.steps=1", "rollout.tasks=1", "rollout.skills=1", "rollout.retrieved=2",
    "rollout.max_tokens=1", "rollout.language=cpp", "rollout.slots=64", "rollout.cache_tokens=4096", "rollout.replaced=0",
    "skills.proofs=1", "skills.rounds=2", "model.device=cpu", "log.tensorboard=false", "optimiser.lr=1e-2", "critic.lr=1e-2",
]  # fmt: skip
"""What a machine decides, and nothing of a recipe but its rates."""
TURNS = {"davinci": 3, "drkernel": 3, "kevin": 4, "cuda-agent": 8}


def writes(folder: Path, step: int) -> list[Wrote]:
    return [event for event in read_events(folder / "steps" / f"{step:06}") if isinstance(event, Wrote)]


@pytest.mark.rotates
@pytest.mark.parametrize("name", sorted(TURNS))
def test_a_recipe_runs_as_it_is(name: str, tmp_path: Path) -> None:
    toy_config(tmp_path)  # its library
    stages = ["data.steps=4", "stages.single_turn=1", "stages.own_answers=1", "stages.critic=1", "rollout.turns=2"] * (
        name == "cuda-agent"
    )
    library = [f"skills.library={tmp_path / 'library'}"]
    config = read_config("rl", name, None, [*SIZES, *stages, *library])
    rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path))
    told = measured(tmp_path / "run")
    last = told[f"train/{config.data.steps}"]
    turns = 2 if stages else TURNS[name]
    assert last["write/count"] == 16 * turns, "groups of sixteen, all turns taken"
    assert f"turn{turns}/reward" in last and f"turn{turns + 1}/reward" not in last
    if stages:
        assert told["train/1"]["write/count"] == 16, "the first stage has one turn"
        assert "own answers that were right were imitated" in notes(tmp_path / "run")
        assert "the critic is trained first" in notes(tmp_path / "run")
        assert "critic/loss" in last
    begun = {key: value.detach() for key, value in toy_loaded().model.named_parameters()}
    assert not same(weights(tmp_path / "run"), begun), "it learned"


def test_the_papers_settings_stand_in_the_recipes() -> None:
    kevin, agent, doctor = (read_config("rl", name) for name in ("kevin", "cuda-agent", "drkernel"))
    assert (kevin.reward.gamma, kevin.rollout.updates, kevin.rollout.temperature, kevin.optimiser.clip) == (0.4, 2, 0.9, 0.05)
    assert (agent.reward.name, agent.reward.returns, agent.critic.trust, agent.optimiser.lr, agent.critic.lr) == (
        "milestones", "last", 0.95, 3e-6, 6e-6,
    )  # fmt: skip
    assert agent.rollout.tasks * agent.rollout.samples == 1024
    assert (doctor.reward.name, doctor.advantage.name, doctor.rollout.samples, doctor.ablations.skills) == (
        "drkernel",
        "trloo",
        16,
        False,
    )
    assert [recipe.rollout.replaced for recipe in (kevin, agent, doctor, read_config("rl", "davinci"))] == [0, 0, 0, 1]
    assert {recipe.rollout.samples * (recipe.rollout.schemes + 1) for recipe in (kevin, agent, doctor)} == {16}


def test_stages_follow_each_other() -> None:
    settings = StageSettings(single_turn=2, own_answers=1, critic=1)
    assert [stage_of(settings, step) for step in range(1, 7)] == ["single_turn"] * 2 + ["own_answers", "critic", "rl", "rl"]
    assert stage_of(StageSettings(), 1) == "rl"


def trace(name: str, *turns: tuple[str, float]) -> Trace:
    def verdict(speedup: float) -> Verdict:
        if not speedup:
            return Verdict(Outcome.INCORRECT)
        return Verdict(Outcome.FASTER, True, {"eager": Speedup(speedup, speedup, speedup)}, coverage={"share": 1.0})

    made = tuple(
        Turn("write", text, prompt_ids=(1,), output_ids=tuple(map(ord, text)), verdict=verdict(speedup))
        for text, speedup in turns
    )
    return Trace(name, "write", made)


def test_own_answers_are_right_not_repeated_and_lead_somewhere() -> None:
    traces = (
        trace("mended", ("bad", 0.0), ("good", 1.5), ("good", 1.5), ("better", 2.0)),
        trace("spoiled", ("good", 1.5), ("bad", 0.0)),
    )
    episode = Episode("e", "t", "t", "f", "cpu", 0, (), ((),), traces)
    assert own_answers([episode], reward_named("kevin")) == {("mended", 1), ("mended", 3)}
    assert own_answers([episode], reward_named("milestones")) == {("mended", 1), ("mended", 3)}


class Wrong(ToyJudge):
    def judge(self, task, candidate, **options):
        return Verdict(Outcome.INCORRECT, task_id=task.id, candidate_id=candidate.id)


def test_where_no_own_answer_was_right_nothing_is_imitated(tmp_path: Path) -> None:
    config = toy_config(tmp_path, "data.steps=1", "rollout.tasks=1", "stages.own_answers=1", "rollout.summaries=0")
    rl.train(config, tmp_path / "run", inputs=toy_inputs(tmp_path, Wrong()))
    assert "no answer of the step was right" in notes(tmp_path / "run")
    assert same(weights(tmp_path / "run"), {key: value.detach() for key, value in toy_loaded().model.named_parameters()})
