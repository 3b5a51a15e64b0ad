"""It learns: a model that knows nothing, trained by the loop as it is, gets better in each of its three roles; with shuffled advantages
it does not. The world is a toy (see `toy_world`), the loop, the gate, the agents and the trainer are the real ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from toy_world import CARDS, LETTERS, tasks, toy_config, toy_materials  # noqa: E402

from bottega.core.event import Event, Measured, Selected, Summarised  # noqa: E402
from bottega.episodes.journal import read_events  # noqa: E402
from bottega.train.rl import train  # noqa: E402

STEPS = 40
"""Of these the first four are the beginning, and the last quarter is the end."""


@dataclass(frozen=True)
class Came:
    """Means over some steps: the reward of each role, and how often what a role said was right."""

    write: float
    select: float
    summarise: float
    right_card: float
    right_letter: float


def run(folder: Path, seed: int, *more: str, steps: int = STEPS) -> tuple[Came, Came]:
    """What it came to at the beginning and at the end. The library is frozen: a card that is there already is worth nothing again."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # the model is too small to be shared
    try:
        config = toy_config(
            folder,
            f"data.steps={steps}",
            f"data.seed={seed}",
            "ablations.frozen_library=true",
            "checkpoint.step_logs=all",
            *more,
        )
        train(config, folder / "run", materials=toy_materials(folder))
    finally:
        torch.set_num_threads(before)
    return came(folder / "run", range(1, 5)), came(folder / "run", range(steps - steps // 4 + 1, steps + 1))


def came(folder: Path, steps: range) -> Came:
    told = [e.values for e in read_events(folder) if isinstance(e, Measured) and e.key.startswith("train/") and e.step in steps]
    events = [event for step in steps for event in read_events(folder / "steps" / f"{step:06}")]
    chosen = [event.names == (CARDS[colour_of(event)],) for event in events if isinstance(event, Selected)]
    proposed = [
        any(skill.name == f"proposal_{LETTERS[colour_of(event)]}" for skill in event.proposals)
        for event in events
        if isinstance(event, Summarised)
    ]

    def reward(role: str) -> float:
        found = [(values[f"{role}/reward"], values[f"{role}/count"]) for values in told if f"{role}/reward" in values]
        return sum(value * count for value, count in found) / max(1.0, sum(count for _, count in found))

    return Came(reward("write"), reward("select"), reward("summarise"), mean(chosen), mean(proposed))


def colour_of(event: Event) -> str:
    by_id = {task.id: task.source.split()[0] for task in tasks()}
    assert isinstance(event, Selected | Summarised)
    return by_id[event.episode.rpartition("-")[2]]


def mean(values: list[bool]) -> float:
    return sum(values) / max(1, len(values))


@pytest.mark.slow
def test_writer_and_selector_get_better_in_a_few_steps(tmp_path: Path) -> None:
    """Without summaries and with a looser rein it takes seconds."""
    first, last = run(tmp_path, 0, "rollout.summaries=0", "loss.kl=0.05", steps=16)
    print(f"few steps: {first} to {last}")
    assert last.write > first.write + 0.4, (first, last)
    assert last.select > first.select + 0.4, (first, last)
    assert last.right_card > first.right_card + 0.15, (first, last)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_role_gets_better(seed: int, tmp_path: Path) -> None:
    first, last = run(tmp_path, seed)
    print(f"seed {seed}: {first} to {last}")
    assert last.write > first.write + 0.5, (first, last)
    assert last.select > first.select + 0.5, (first, last)
    assert last.summarise > first.summarise + 0.25, (first, last)
    assert last.right_card > first.right_card + 0.2, "the selector's reward rose by the writer's work alone"
    assert last.right_letter > first.right_letter + 0.15, "the summariser's reward rose by the writer's work alone"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_none_does_with_shuffled_advantages(seed: int, tmp_path: Path) -> None:
    first, last = run(tmp_path, seed, "ablations.shuffled_advantages=true")
    print(f"seed {seed}, shuffled: {first} to {last}")
    assert last.write < first.write + 0.6, (first, last)
    assert last.select < first.select + 0.6, (first, last)
    assert last.summarise < first.summarise + 0.25, (first, last)
    assert last.right_card < first.right_card + 0.25, (first, last)
    assert last.right_letter < first.right_letter + 0.25, (first, last)
