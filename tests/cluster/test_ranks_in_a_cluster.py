"""What a command does about ranks before they are started and after they have failed; no Ray is needed for it."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.cluster import training
from bottega.cluster.training import Mailbox, TrainingJob, require_room, train_on_cluster
from bottega.core.errors import BottegaError, TrainingError, UsageError
from bottega.train.config import read_config

LAPTOP = {"Alive": True, "Resources": {"CPU": 2.0}}
EIGHT = {"Alive": True, "Resources": {"CPU": 96.0, "GPU": 8.0}}
GONE = {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}


def job(stage: Any, ranks: int, judges: str = "auto", device: str = "cpu") -> TrainingJob:
    return TrainingJob(stage, read_config(stage, None, None, [f"model.device={device}"]), Path("run"), ranks, judges=judges)


def test_ranks_and_a_judge_that_have_no_room_are_refused() -> None:
    """Ray would wait for them without a word."""
    require_room([LAPTOP], job("sft", 2))
    require_room([LAPTOP], job("rl", 1, "auto?cores=1"))
    require_room([EIGHT], job("rl", 7, device="cuda"))
    require_room([EIGHT, EIGHT], job("rl", 8, device="cuda"))
    for nodes, wanted, told in (
        ([LAPTOP, GONE], job("sft", 4), "has 2 cores"),
        ([LAPTOP], job("rl", 1), "cores=1"),
        ([EIGHT, GONE], job("rl", 8, device="cuda"), "a judge beside them 1; torchrun"),
        ([LAPTOP], job("sft", 1, device="cuda"), "model.device=cpu"),
    ):
        with pytest.raises(UsageError, match=told):
            require_room(nodes, wanted)


class LocalRay:
    """Stands for Ray, with a mailbox in this process."""

    def nodes(self) -> list[dict[str, Any]]:
        return [LAPTOP]

    def get(self, found: Any) -> Any:
        return found


def local_mailbox() -> Any:
    made = Mailbox()
    names = [name for name in dir(made) if not name.startswith("_")]
    return SimpleNamespace(**{name: SimpleNamespace(remote=getattr(made, name)) for name in names})


def test_an_error_of_a_rank_is_told_and_ray_is_left_only_when_its_ranks_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that asks a Ray which it has shut down is ended by Ray at once, with none of our words."""
    happened: list[str] = []

    def fit(job: TrainingJob, mailbox: Any) -> None:
        mailbox.tell.remote(TrainingError("what went wrong"))
        time.sleep(0.3)
        happened.append("ended")

    monkeypatch.setattr(training, "_trainer", lambda: fit)
    monkeypatch.setattr(training, "imported", LocalRay)
    monkeypatch.setattr(training, "open_mailbox", local_mailbox)
    monkeypatch.setattr(training, "join", lambda address: True)
    monkeypatch.setattr(training, "leave", lambda: happened.append("left"))
    with pytest.raises(BottegaError, match="what went wrong"):
        train_on_cluster("auto", job("sft", 2))
    assert happened == ["ended", "left"]
