"""What an RL run works with, opened for real: a small model, a task of the set that comes along, and a judge of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tiny import saved_tiny  # noqa: E402

from bottega.core.verdict import Outcome  # noqa: E402
from bottega.judge.judge import Judge  # noqa: E402
from bottega.languages import candidate_from  # noqa: E402
from bottega.train.config import read_config  # noqa: E402
from bottega.train.rollout import open_inputs  # noqa: E402

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
