"""Seconds of an RL step by stage: rollouts (generation with judging beside it), the gate, the update, the checkpoint; who was busy; memory.

It is `bottega train` itself, measured by its own log. Stages overlap inside a rollout, so busy shares may add up to more than 1. A model that
has not been taught answers with few kernels, and then the judge has little to do: give a cold-started one by --model for a picture of training.

A model of a --shape has random weights. It draws and learns its own tokens, as many as rollout.max_tokens, and what is judged in their place are
kernels from a folder, half of them broken.

    PYTHONPATH=src python3 benchmarks/rl_step.py --quick
    PYTHONPATH=src python3 benchmarks/rl_step.py --device cuda --model sft-run/model
    PYTHONPATH=src python3 benchmarks/rl_step.py --device cuda --shape 8b --lora --set rollout.engine=vllm
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from figure import Device, launch, show, where
from grpo_step import CONTEXT, SHAPES, adapted, random_model

from bottega.backbone.chat import Message, Sampling
from bottega.backbone.client import Generation, TokenClient
from bottega.backbone.loading import LoadedModel
from bottega.backbone.tokenizer import HuggingFaceTokenizer
from bottega.core.event import Measured
from bottega.core.task import Task
from bottega.episodes.episode import run_episode
from bottega.episodes.journal import read_events
from bottega.train import rl, rollout
from bottega.train.config import read_config
from bottega.train.rl import train
from bottega.train.rollout import RlInputs, open_inputs
from bottega.train.settings import Config

QUICK = [
    "rollout.tasks=1", "rollout.schemes=1", "rollout.samples=2", "rollout.turns=1", "rollout.summaries=0", "rollout.max_tokens=64",
    "data.longest=2048", "data.pack_tokens=2048",
]  # fmt: skip
KERNELS = Path(__file__).parent / "candidates"
"""By language, for the tasks of these names."""
SHAPED = [
    "rollout.tasks=3", "rollout.schemes=0", "rollout.samples=8", "rollout.turns=2", "rollout.summaries=0", "rollout.max_tokens=1024",
    "rollout.replaced=0", "rollout.cache_tokens=131072",
    "ablations.skills=false", "rejection.mismatch.on=false", "data.longest=4096", "data.pack_tokens=16384",
    "rollout.timeout=30", "checkpoint.export=bfloat16",
]  # fmt: skip
TASK: ContextVar[str] = ContextVar("task")
"""Whose episode it is."""
FIGURES = ("seconds/step", "seconds/weights", "seconds/rollout", "seconds/gate", "seconds/training", "seconds",
           "busy/generator", "busy/judge", "busy/trainer",
           "tokens/drawn", "tokens_per_second", "training_tokens_per_second", "tokens/prompt", "tokens/answer",
           "rows", "junk", "correct", "memory_gib")  # fmt: skip
NAMES = {"seconds": "seconds/checkpoint", "memory_gib": "memory_gib/peak"}


def main(
    device: Device = "cpu",
    model: Annotated[str, typer.Option(help="embedded, a folder or a hub name.")] = "embedded",
    shape: Annotated[str, typer.Option(help=f"Random weights in place of --model: {', '.join(SHAPES)}.")] = "",
    lora: Annotated[bool, typer.Option(help="Rank 16 on all linear layers instead of all weights.")] = False,
    preset: Annotated[str, typer.Option(help="Whose sizes: laptop or one-gpu; none takes what fits the device.")] = "",
    steps: Annotated[int, typer.Option(min=1, help="The first is not counted where there are more.")] = 3,
    quick: Annotated[bool, typer.Option("--quick/--full", help="One small task a step.")] = False,
    seconds: Annotated[float, typer.Option(help="Begin no further step after this long; 0 takes all.")] = 0.0,
    more: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Settings over the preset.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep the run in this folder: it is a run like any other.")] = None,
) -> None:
    chosen = preset or ("laptop" if device == "cpu" else "one-gpu")
    language = "cpp" if device == "cpu" else "triton"
    overrides = [f"model.name={model}", f"model.device={device}", f"data.steps={steps}", "log.tensorboard=false",
                 *(shaped_settings(language, shape) if shape else ["checkpoint.every=1"]), *(QUICK if quick else []),
                 *(["model.lora.rank=16"] if lora else []), *(more or [])]  # fmt: skip
    config = read_config("rl", chosen, None, overrides)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        late = lambda: bool(seconds) and time.monotonic() - begun >= seconds  # noqa: E731
        place = out or Path(folder) / "run"
        given = dictated(shape, language) if shape else open_inputs
        taken = train(config, place, inputs=given, on_event=_tell, stop=late).step
        events = [event for event in read_events(place) if isinstance(event, Measured)]
    counted = [event for event in events if event.step > 1 or taken == 1]
    rows = []
    for name in FIGURES:
        values = [event.values[name] for event in counted if name in event.values]
        if values:
            rows.append(
                [NAMES.get(name, name), f"{statistics.median(values):,.3f}", f"{min(values):,.3f}", f"{max(values):,.3f}"]
            )
    rollout = config.rollout
    remarks = [
        where(device),
        f"{f'{shape}, random weights' if shape else model}, {'LoRA rank 16' if lora else 'all weights'}, drawn by {rollout.engine}; {chosen}; "
        f"{rollout.tasks} tasks x ({rollout.schemes} + 1) schemes x {rollout.samples} samples x {rollout.turns} turns, "
        f"answers of at most {rollout.max_tokens} tokens; {len([e for e in counted if e.key.startswith('train/')])} steps",
    ]
    remarks.append("memory: the most that trainer and generator held, together" + (" on the GPU" if device != "cpu" else ""))
    show(f"an RL step on {device}", ("", "median", "least", "most"), rows, remarks)


def shaped_settings(language: str, shape: str) -> list[str]:
    names = sorted(path.stem for path in (KERNELS / language).glob("*.py"))
    tasks = json.dumps([f"builtin:{name}" for name in names])
    recompute = str(shape == "8b").lower()
    return [
        *SHAPED,
        f"data.tasks={tasks}",
        f"rollout.language={language}",
        f"model.recompute={recompute}",
        "checkpoint.every=1000",
    ]


def dictated(shape: str, language: str) -> Any:
    """Inputs of a run by a model of that shape, whose answers are read as kernels from the folder."""
    kernels = {path.stem: path.read_text() for path in (KERNELS / language).glob("*.py")}

    class Dictated(TokenClient):
        async def generate(self, messages: Sequence[Message], sampling: Sampling) -> Generation:
            answer = await super().generate(messages, sampling)
            ids = answer.output_ids or (0,)
            source = kernels[TASK.get()] if sum(ids) % 2 else "class ModelNew: no kernel"
            return replace(answer, text=f"```python\n{source}\n# {abs(hash(ids))}\n```")

    async def named(context: Any, task: Task, *rest: Any) -> Any:
        TASK.set(task.name)
        return await run_episode(context, task, *rest)

    rl.TokenClient = Dictated  # type: ignore[attr-defined, misc]
    rollout.run_episode = named  # type: ignore[assignment, attr-defined]
    rl.RlRun.commit = lambda self, number: {}  # type: ignore[method-assign]  # random weights are not worth 16 GB on a disk
    rl.RlRun.export = lambda self: None  # type: ignore[method-assign]

    @contextmanager
    def inputs(config: Config) -> Iterator[RlInputs]:
        with open_inputs(config) as given:
            tokenizer = HuggingFaceTokenizer(given.loaded.tokenizer.inner, CONTEXT)
            dtype = torch.bfloat16 if config.model.lora and config.model.device != "cpu" else torch.float32
            model = random_model(shape, str(config.model.device), dtype, least_vocabulary=len(given.loaded.tokenizer.inner))
            yield replace(given, loaded=LoadedModel(shape, adapted(model) if config.model.lora else model, tokenizer))

    return inputs


def _tell(event: object) -> None:
    if isinstance(event, Measured) and event.key.startswith("train/"):
        print(f"step {event.step}: {event.values['seconds/step']:.1f} s {event.note}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    launch(main)
