"""A run of the toy world in a process of its own that ends itself by SIGKILL at a given moment: a killed run that is always killed there.

    python killed_run.py FOLDER MOMENT [SECTION.KEY=VALUE]...

The same command goes on with a run that is there. Under torchrun the run has several ranks.

MOMENT is `none`, `STAGE@RANK` (a rank comes to a method of `Learner` for the second time, or to `load`), `write@RANK` (in the middle of its
file of the second checkpoint), `event:N` (after the N-th event is on the disk), `checkpoint` (before it gets its name), `publish` (the checkpoint
is there, the library knows nothing of it), `half` (cards are in the library, and not yet admitted) or `drop` (an early step's log is half
removed).
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from torch.distributed.checkpoint import filesystem
from toy_world import ToyJudge, toy_config, toy_inputs

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.skills.library import Library
from bottega.train import admission, checkpoint, rl, run_directory
from bottega.train.learner import Learner, follow
from bottega.train.ranks import Ranks, open_ranks
from bottega.train.run_directory import CHECKPOINTS


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def counted(folder: Path) -> ToyJudge:
    """A judge that writes down what it was asked, over all processes of a run."""

    def heard(task: Task, candidate: Candidate) -> None:
        with open(folder / "asked", "a") as file:
            file.write(f"{task.id} {candidate.id}\n")

    return ToyJudge(heard)


def die_at(folder: Path, stage: str) -> None:
    """Of all processes that run one after the other only the first dies."""
    if stage == "write":
        write_half(folder)
        return
    plain, calls = getattr(Learner, stage), []

    def dying(*given: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == (1 if stage == "load" else 2) and not (folder / "killed").exists():
            (folder / "killed").touch()
            die()
        return plain(*given, **options)

    setattr(Learner, stage, functools.wraps(plain)(dying))


def write_half(folder: Path) -> None:
    plain = filesystem._write_item

    def dying(*given: Any, **options: Any) -> Any:
        found = plain(*given, **options)
        if (
            found.storage_data.offset
            and (folder / "run" / CHECKPOINTS / "step-00000001").exists()
            and not (folder / "killed").exists()
        ):
            (folder / "killed").touch()
            die()
        return found

    filesystem._write_item = dying


def main() -> None:
    folder, moment = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    with open_ranks() as ranks:
        stage, _, rank = moment.partition("@")
        if rank == str(ranks.rank):
            die_at(folder, stage)
        if ranks.leads:
            lead(folder, moment, ranks)
        else:
            follow(ranks)


def lead(folder: Path, moment: str, ranks: Ranks) -> None:
    heard = 0

    def hear(event: Any) -> None:
        nonlocal heard
        heard += 1
        if moment == f"event:{heard}":
            die()

    if moment == "checkpoint":
        checkpoint.os.rename = die  # type: ignore[assignment]
    if moment == "publish":
        rl.apply = die  # type: ignore[assignment]
    if moment == "half":
        assert admission.Library is Library
        Library.move_within = die  # type: ignore[method-assign]
    if moment == "drop":
        real = run_directory.shutil.rmtree

        def half(place: Path, **options: Any) -> None:
            if place.parent.name == run_directory.STEPS:
                (place / "events.jsonl").unlink()
                die()
            real(place, **options)

        run_directory.shutil.rmtree = half  # type: ignore[assignment]
    run = folder / "run"
    resume = (run / run_directory.CONFIG).exists()
    config = toy_config(folder, *sys.argv[3:])
    rl.train(config, run, resume=resume, inputs=toy_inputs(folder, counted(folder)), on_event=hear, ranks=ranks)


if __name__ == "__main__":
    main()
