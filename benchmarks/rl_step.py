"""Seconds of an RL step by stage: rollouts (generation with judging beside it), the gate, the update, the checkpoint; who was busy; memory.

It is `bottega train` itself, measured by its own log. Stages overlap inside a rollout, so busy shares may add up to more than 1. A model that
has not been taught answers with few kernels, and then the judge has little to do: give a cold-started one by --model for a picture of training.

    PYTHONPATH=src python3 benchmarks/rl_step.py --quick
    PYTHONPATH=src python3 benchmarks/rl_step.py --device cuda --model sft-run/model
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from figure import Device, launch, show, where

from bottega.core.event import Measured
from bottega.episodes.journal import read_events
from bottega.train.config import read_config
from bottega.train.rl import train

QUICK = [
    "rollout.tasks=1", "rollout.schemes=1", "rollout.samples=2", "rollout.turns=1", "rollout.summaries=0", "rollout.max_tokens=64",
    "data.longest=2048", "data.pack_tokens=2048",
]  # fmt: skip
FIGURES = ("seconds/step", "seconds/rollout", "seconds/gate", "seconds/training", "seconds", "busy/generator", "busy/judge", "busy/trainer",
           "tokens/drawn", "tokens_per_second", "training_tokens_per_second", "tokens/prompt", "tokens/answer",
           "rows", "junk", "correct", "memory_gib")  # fmt: skip
NAMES = {"seconds": "seconds/checkpoint", "memory_gib": "memory_gib/peak"}


def main(
    device: Device = "cpu",
    model: Annotated[str, typer.Option(help="embedded, a folder or a hub name.")] = "embedded",
    preset: Annotated[str, typer.Option(help="Whose sizes: laptop or one-gpu; none takes what fits the device.")] = "",
    steps: Annotated[int, typer.Option(min=1, help="The first is not counted where there are more.")] = 3,
    quick: Annotated[bool, typer.Option("--quick/--full", help="One small task a step.")] = False,
    seconds: Annotated[float, typer.Option(help="Begin no further step after this long; 0 takes all.")] = 0.0,
    more: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Settings over the preset.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep the run in this folder: it is a run like any other.")] = None,
    raw: Annotated[Path | None, typer.Option("--json", help="Keep the numbers in this file.")] = None,
) -> None:
    chosen = preset or ("laptop" if device == "cpu" else "one-gpu")
    overrides = [f"model.name={model}", f"model.device={device}", f"data.steps={steps}", "checkpoint.every=1", "log.tensorboard=false",
                 *(QUICK if quick else []), *(more or [])]  # fmt: skip
    config = read_config("rl", chosen, None, overrides)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        late = lambda: bool(seconds) and time.monotonic() - begun >= seconds  # noqa: E731
        place = out or Path(folder) / "run"
        taken = train(config, place, on_event=_tell, stop=late).step
        events = [event for event in read_events(place) if isinstance(event, Measured)]
    counted = [event for event in events if event.step > 1 or taken == 1]
    rows, numbers = [], {}
    for name in FIGURES:
        values = [event.values[name] for event in counted if name in event.values]
        if values:
            numbers[NAMES.get(name, name)] = values
            rows.append(
                [NAMES.get(name, name), f"{statistics.median(values):,.3f}", f"{min(values):,.3f}", f"{max(values):,.3f}"]
            )
    rollout = config.rollout
    remarks = [
        where(device),
        f"{model}; {chosen}; {rollout.tasks} tasks x ({rollout.schemes} + 1) schemes x {rollout.samples} samples x {rollout.turns} turns, "
        f"answers of at most {rollout.max_tokens} tokens; {len([e for e in counted if e.key.startswith('train/')])} steps",
    ]
    remarks.append("memory: the most that trainer and generator held, together" + (" on the GPU" if device != "cpu" else ""))
    show(f"an RL step on {device}", ("", "median", "least", "most"), rows, remarks)
    if raw:
        content = {"figure": "rl_step", "where": where(device), "settings": overrides, "numbers": numbers}
        raw.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _tell(event: object) -> None:
    if isinstance(event, Measured) and event.key.startswith("train/"):
        print(f"step {event.step}: {event.values['seconds/step']:.1f} s {event.note}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    launch(main)
