"""Every training preset for a few small steps on one device, with the shipped model: it runs, it can be stopped, and the same call goes on from the
checkpoint. That it learns is not asked.

A recipe lies over the machine's preset, as its page says (`--preset one-gpu,kevin`). What the machine decides is cut down: tasks, rollouts, turns,
lengths of answers, the gate. What a recipe is stays: reward, returns, advantages, loss, filters, critic and stages, of which each has one step.
Presets of several GPUs run on one.

    python benchmarks/presets.py OUT --device cuda
    python benchmarks/presets.py OUT kevin davinci --device cpu --settings "rollout.max_tokens=256"
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from figure import Device, Workers, where

from bottega.core.errors import BottegaError
from bottega.core.event import Measured
from bottega.train.config import read_config
from bottega.train.metrics import TrainingStarted
from bottega.train.rl import RlEvent, train

RECIPES = ("davinci", "drkernel", "kevin", "cuda-agent")
MACHINES = ("one-gpu", "8b-lora", "8b-full", "14b-full", "laptop")
STEPS = {"cuda-agent": 4}
"""Three if left out."""
SMALL = (
    "model.name=embedded", "model.compile=false", "rollout.style=terse", "rollout.tasks=1", "rollout.turns=2", "rollout.max_tokens=1024",
    "rollout.cache_tokens=98304", "rollout.replaced=0", "rollout.timeout=20", "skills.proofs=1", "skills.siblings=1", "skills.least_rounds=1",
    "skills.rounds=1", "data.longest=4096", "data.pack_tokens=16384", "optimiser.warmup=0", "checkpoint.every=1", "checkpoint.keep=1",
    "checkpoint.export=bfloat16", "log.tensorboard=false",
)  # fmt: skip
WITH_CARDS = ("rollout.schemes=1", "rollout.samples=2", "rollout.summaries=2")
WITHOUT = ("rollout.samples=4",)
FURTHER = {
    "cuda-agent": (*WITHOUT, "stages.single_turn=1", "stages.own_answers=1", "stages.critic=1"),
    "drkernel": WITHOUT,
    "kevin": WITHOUT,
}
ON_A_CPU = ("rollout.language=cpp", "rollout.judge_device=cpu", "rollout.slots=8", "rollout.cache_tokens=16384")


@dataclass
class Told:
    """What came of a preset, over both calls."""

    begun: list[int] = field(default_factory=list)
    """Steps that were done before each call."""
    steps: list[Measured] = field(default_factory=list)
    seconds: float = 0.0

    def hear(self, event: RlEvent) -> None:
        if isinstance(event, TrainingStarted):
            self.begun.append(event.step)
        if isinstance(event, Measured) and event.key.startswith("train/"):
            self.steps.append(event)

    def resumed(self, steps: int) -> bool:
        """The second call began behind what the first one did, and no step was walked twice or left out."""
        return self.begun == [0, steps - 1] and [event.step for event in self.steps] == [*range(1, steps + 1)]

    def line(self, name: str, steps: int) -> str:
        values = [event.values for event in self.steps]
        each = " ".join(f"{one['seconds/step']:.1f}" for one in values)
        reward = sum(one["reward"] for one in values) / max(1, len(values))
        right = sum(one["correct"] for one in values) / max(1, len(values))
        memory = max((one["memory_gib"] for one in values), default=0.0)
        resumed = "right" if self.resumed(steps) else "wrong" if len(self.begun) > 1 else "not yet"
        return (
            f"{name}: {len(values)} steps; {each} s a step, {self.seconds:.0f} s in all; reward {reward:.3f}, {right:.0%} right; "
            f"{memory:.1f} GiB; resumed {resumed}"
        )


def settings_of(name: str, device: str, workers: int, steps: int) -> tuple[str, list[str]]:
    """The presets to be laid over each other, and what is cut down."""
    layers = f"{'one-gpu' if device.startswith('cuda') else 'laptop'},{name}" if name in RECIPES else name
    own = [
        *SMALL,
        *FURTHER.get(name, WITH_CARDS),
        f"model.device={device}",
        f"rollout.judge_workers={workers}",
        f"data.steps={steps}",
    ]
    own += ["sharding.ranks=1", f"rollout.judge_device={device}"] if name.endswith("-full") else []
    return layers, [*own, *(ON_A_CPU if device == "cpu" else ())]


def run_preset(name: str, out: Path, device: str, workers: int, steps: int, settings: Sequence[str], told: Told) -> None:
    """All steps but the last one in the first call, and the last one in a second."""
    layers, own = settings_of(name, device, workers, steps)
    config, begun = read_config("rl", layers, None, [*own, *settings]), time.monotonic()
    try:
        train(config, out, on_event=told.hear, stop=lambda: len(told.steps) >= steps - 1)
        train(config, out, on_event=told.hear, resume=True)
    finally:
        told.seconds = time.monotonic() - begun


def main(
    out: Annotated[Path, typer.Argument(help="A folder for the runs; theirs must not be there yet.")],
    names: Annotated[list[str] | None, typer.Argument(help="All but laptop, which is for a CPU, if left out.")] = None,
    device: Device = "cuda",
    workers: Workers = 5,
    settings: Annotated[str, typer.Option(help="Further settings of `bottega train`, separated by spaces.")] = "",
) -> None:
    failed = False
    for name in names or [*MACHINES[:-1], *RECIPES]:
        steps, told, problem = STEPS.get(name, 3), Told(), ""
        try:
            run_preset(name, out / name, "cpu" if name == "laptop" else device, workers, steps, settings.split(), told)
        except (BottegaError, KeyboardInterrupt) as error:  # one preset may not end the rest
            problem = f"; {type(error).__name__}: {error}"
        failed |= not told.resumed(steps)
        print(told.line(name, steps) + problem, flush=True)
    print(where(device))
    raise typer.Exit(int(failed))


if __name__ == "__main__":
    typer.run(main)
