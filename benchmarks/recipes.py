"""Some steps of a paper's recipe, end to end: model, judge, advantages, update. What is cut to fit the minutes is printed, and nothing else of the
recipe is changed.

    PYTHONPATH=src python3 benchmarks/recipes.py davinci recipes
    PYTHONPATH=src python3 benchmarks/recipes.py kevin recipes
    PYTHONPATH=src python3 benchmarks/recipes.py drkernel recipes
    PYTHONPATH=src python3 benchmarks/recipes.py cuda-agent recipes

A run that is there goes on: call it again with more `--steps`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from edge_data import log
from figure import Device

from bottega.core.event import Measured
from bottega.train.config import read_config
from bottega.train.rl import RlEvent
from bottega.train.rl import train as train_rl
from bottega.train.run_directory import CONFIG, resumed_config
from bottega.train.settings import Config

CUTS: dict[str, tuple[str, ...]] = {
    "davinci": ("data.steps=2", "rollout.tasks=1", "rollout.summaries=2", "skills.proofs=1", "skills.siblings=2", "skills.rounds=4"),
    "kevin": ("data.steps=2", "rollout.tasks=2"),
    "drkernel": ("data.steps=3", "rollout.tasks=2"),
    "cuda-agent": (
        "data.steps=4", "rollout.tasks=1", "rollout.turns=2", "stages.single_turn=1", "stages.own_answers=1", "stages.critic=1"
    ),
}  # fmt: skip
"""Sizes alone: tasks of a step, steps, rounds of the gate; of CUDA Agent also turns, so that every stage has its step."""
FIGURES = (
    "correct",
    "reward",
    "entropy",
    "rows",
    "mismatch/kl",
    "seconds/rollout",
    "seconds/gate",
    "seconds/training",
    "seconds/step",
)


def main(
    recipe: Annotated[str, typer.Argument(help=", ".join(CUTS))],
    folder: Annotated[Path, typer.Argument(help="Where runs are kept, one for each recipe.")],
    device: Device = "cuda",
    model: Annotated[str, typer.Option(help="As model.name takes it.")] = "embedded",
    seconds: Annotated[float, typer.Option(min=1, help="Begin no further step after so long.")] = 90.0,
    settings: Annotated[str, typer.Option(help="Further settings, separated by spaces.")] = "",
) -> None:
    begun, run = time.monotonic(), folder / recipe
    machine = f"{'laptop' if device == 'cpu' else 'one-gpu'},{recipe}"
    own = [f"model.name={model}", f"model.device={device}", "checkpoint.every=1", "checkpoint.keep=1", "log.tensorboard=false"]
    whole = read_config("rl", machine, None, own)
    config = read_config("rl", machine, None, [*own, *CUTS[recipe], *settings.split()])
    print("\n".join(cut(whole, config)), flush=True)

    def tell(event: RlEvent) -> None:
        if isinstance(event, Measured) and event.key.startswith("train/"):
            told = {key: round(event.values[key], 3) for key in FIGURES if key in event.values}
            log(f"[{time.monotonic() - begun:.0f} s] step {event.step}: {told} {event.note}")

    known = (run / CONFIG).exists()
    config = resumed_config("rl", run) if known else config
    ended = train_rl(config, run, resume=known, on_event=tell, stop=lambda: time.monotonic() - begun > seconds)
    print(
        f"{recipe}: {ended.step} of {ended.steps} steps in {time.monotonic() - begun:.0f} s; {ended.stopped or 'all steps taken'}"
    )


def cut(whole: Config, config: Config) -> Iterator[str]:
    """Settings that are not the recipe's."""
    before, after = flat(whole.model_dump(mode="json")), flat(config.model_dump(mode="json"))
    for key in sorted(after):
        if before.get(key) != after[key]:
            yield f"{key}: {before.get(key)} in the recipe, {after[key]} here"


def flat(data: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(data, dict):
        return {prefix: data}
    return {key: value for name, part in data.items() for key, value in flat(part, f"{prefix}.{name}".lstrip(".")).items()}


if __name__ == "__main__":
    typer.run(main)
