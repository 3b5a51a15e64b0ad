"""What an RL run works with, opened for real: a small model, a task of the set that comes along, and a judge of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tiny import saved_tiny  # noqa: E402

from bottega.backbone.loading import NOTE, trained_style  # noqa: E402
from bottega.core.errors import UsageError  # noqa: E402
from bottega.core.settings import preset_names  # noqa: E402
from bottega.core.task import Task  # noqa: E402
from bottega.core.verdict import Outcome  # noqa: E402
from bottega.episodes.backbone_defaults import prompt_style  # noqa: E402
from bottega.judge.judge import Judge  # noqa: E402
from bottega.languages import candidate_from  # noqa: E402
from bottega.train.config import PRESETS, read_config  # noqa: E402
from bottega.train.rollout import open_inputs, style_of, within_band  # noqa: E402

ENDLESS = "while True: pass  # class ModelNew"


@pytest.mark.slow
def test_the_judge_of_a_run_ends_a_kernel_after_the_runs_timeout(tmp_path: Path) -> None:
    chosen = [f"model.name={saved_tiny(tmp_path / 'model')}", "model.device=cpu", 'data.tasks=["builtin:star_relu"]']
    config = read_config("rl", None, None, [*chosen, "rollout.timeout=1.5", "rollout.judge_workers=2"])
    with open_inputs(config) as given:
        assert isinstance(given.judge, Judge)
        assert given.judge.workers == 2
        (task,) = given.tasks
        verdict = given.judge.judge(task, candidate_from(ENDLESS))
        assert verdict.outcome is Outcome.TIMEOUT
        assert "1.5 s" in verdict.diagnosis


@pytest.mark.parametrize("preset", preset_names(PRESETS))
def test_prompts_have_the_style_that_the_model_was_trained_on(preset: str, tmp_path: Path) -> None:
    config = read_config("rl", preset)
    large = config.model.name != "embedded"
    assert style_of(config) == ("full" if large else trained_style("embedded")), "of the embedded one its card names it"
    trained = saved_tiny(tmp_path / "model")
    (trained / NOTE).write_text('{"style": "terse"}')
    named = [f"model.name={trained}"]
    if large:  # its preset asks for another one, for a model that was not trained on any
        with pytest.raises(UsageError, match=r"rollout\.style = full, but .*model was trained on terse prompts"):
            style_of(read_config("rl", preset, None, named))
        named.append("rollout.style=terse")
    assert style_of(read_config("rl", preset, None, named)) == "terse"
    assert prompt_style(f"local:{trained}?slots=2") == "terse"
    (trained / NOTE).write_text("[")
    assert prompt_style(f"local:{trained}") == "compact"


def test_tasks_that_are_nearly_always_or_never_right_give_way_to_others() -> None:
    tasks = [Task(f"value = {number}\n", f"t{number}") for number in range(6)]
    shares = {tasks[0].id: 1.0, tasks[1].id: 0.5, tasks[2].id: 0.0, tasks[3].id: 0.95}
    found = within_band(tasks, tasks[:3], shares, (0.1, 0.9), "seed")
    assert found[0] == tasks[1] and len(found) == 3
    assert set(found[1:]) == {tasks[4], tasks[5]}, "one that was never drawn may be drawn"
    assert within_band(tasks, tasks[:3], shares, (0.1, 0.9), "seed") == found
    everything = {task.id: 1.0 for task in tasks}
    assert within_band(tasks, tasks[:2], everything, (0.1, 0.9), "seed") == tasks[:2], "a step has something to do"


def test_a_band_needs_the_step_before() -> None:
    assert read_config("rl", None, None, ["rollout.band=[0.1, 0.9]"]).rollout.band == (0.1, 0.9)
    with pytest.raises(UsageError, match="staleness"):
        read_config("rl", None, None, ["rollout.band=[0.1, 0.9]", "rollout.staleness=1", "rejection.mismatch.on=false"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ([], r"model.device = cuda.*set model.device=cpu rollout.judge_device=cpu rollout.language=cpp"),
        (["model.device=cpu", "rollout.judge_device=cuda:1"], r"judged on cuda:1.*set rollout.judge_device=cpu .*--cluster"),
    ],
    ids=["model", "judge"],
)
def test_a_machine_without_a_gpu_is_told_which_settings_do_without(
    settings: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=told), open_inputs(read_config("rl", "one-gpu", None, settings)):
        pass
