"""Validation during RL: when it comes, what it tells, and that training is the same with it, killed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from test_rl import EXACT, SMALL, measured, same  # noqa: E402
from tiny import one_thread, weights  # noqa: E402, F401
from toy_world import ToyJudge, tasks, toy_config, toy_inputs  # noqa: E402

from bottega.app.report_training import training_page  # noqa: E402
from bottega.core.candidate import Candidate  # noqa: E402
from bottega.core.errors import UsageError  # noqa: E402
from bottega.core.task import Task  # noqa: E402
from bottega.train import rl  # noqa: E402
from bottega.train.rollout import RlInputs  # noqa: E402
from bottega.train.settings import Config  # noqa: E402
from bottega.train.validation import is_due, require_unseen  # noqa: E402

LATE = 40
OFTEN = ["log.eval_every=2", "checkpoint.every=1", *SMALL, *EXACT, "rollout.tasks=1", "ablations.frozen_library=true"]


def inputs(folder: Path, validation: tuple[Task, ...], judge: ToyJudge) -> Callable[[Config], Any]:
    given = toy_inputs(folder, judge)

    @contextmanager
    def opened(config: Config) -> Iterator[RlInputs]:
        with given(config) as found:
            yield replace(found, tasks=tasks()[:4], validation=validation)

    return opened


def run(folder: Path, validation: tuple[Task, ...], judge: ToyJudge, *overrides: str, resume: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    rl.train(toy_config(folder, *OFTEN, *overrides), folder / "run", resume=resume, inputs=inputs(folder, validation, judge))
    return folder / "run"


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    judge = ToyJudge()
    found = run(tmp_path_factory.mktemp("whole"), tasks()[4:], judge)
    assert judge.calls > LATE
    return found


@pytest.mark.rotates
def test_it_tells_how_unseen_tasks_fare_and_changes_nothing(whole: Path, tmp_path: Path) -> None:
    told = measured(whole)
    assert [key for key in told if key.startswith("eval/")] == ["eval/0", "eval/2", "eval/3"]
    assert told["eval/0"]["tasks"] == 2 and {"correct", "fast_1", "with_skills/correct"} <= told["eval/3"].keys()
    without = run(tmp_path / "without", (), ToyJudge())
    assert {key: value for key, value in told.items() if not key.startswith("eval/")} == measured(without)
    assert same(weights(whole), weights(without))
    drawn = [panel.title for block in training_page(whole, "rl").blocks for panel in getattr(block, "drawings", ())]
    assert "Validation" in drawn


@pytest.mark.rotates
@pytest.mark.parametrize("verdicts", [3, LATE])
def test_a_killed_run_validates_as_if_it_had_not_been(whole: Path, tmp_path: Path, verdicts: int) -> None:
    """Killed within the first validation, and within a later step: the same figures come out."""

    def heard(task: Task, candidate: Candidate) -> None:
        if judge.calls == verdicts:
            raise Killed

    judge = ToyJudge(heard)
    with pytest.raises(Killed):
        run(tmp_path / "killed", tasks()[4:], judge)
    killed = run(tmp_path / "killed", tasks()[4:], judge, resume=True)
    assert measured(killed) == measured(whole) and same(weights(killed), weights(whole))


def test_it_is_due_at_first_and_after_so_many_versions() -> None:
    assert is_due(0, -1, 10) and is_due(3, -1, 10), "a run that was given validation tasks begins with them"
    assert not is_due(0, 0, 10) and not is_due(9, 0, 10) and is_due(10, 0, 10)
    assert is_due(11, 9, 10) and not is_due(12, 11, 10), "a version that was passed over counts with the next"


def test_what_is_trained_on_is_refused() -> None:
    with pytest.raises(UsageError, match="toy_1 is among"):
        require_unseen(tasks()[:2], tasks()[:1])
