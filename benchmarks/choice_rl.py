"""RL on choices: from the model that was taught the sweep's winners, on the sweep's own training tasks where choices matter, with the judge's speedup
as reward; control: shuffled advantages. A library that grows meanwhile is `growing_library.py`'s.

`choice_distil.py` makes rows and models before, and answers and measures afterwards: arms lie in its folder, beside `winners`.

    PYTHONPATH=src python3 benchmarks/choice_rl.py tasks benchmarks/choice_sweep_h200 distil
    PYTHONPATH=src python3 benchmarks/choice_rl.py arm distil rl --seconds 240
    PYTHONPATH=src python3 benchmarks/choice_rl.py arm distil shuffled --seconds 240
    PYTHONPATH=src python3 benchmarks/choice_distil.py answer distil
    PYTHONPATH=src python3 benchmarks/choice_distil.py measure distil
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from choice_distil import WINNERS, Folder, is_held_out
from choice_sweep import RESULTS, rows_of, tasks_of
from edge_rl import run_arm
from figure import Device, Workers

TASKS, LEAST_GAIN, LONGEST_MS = "rl_tasks", 1.05, 2.0
SETTINGS = (
    "model.lora.rank=8", "model.lora.alpha=16", "data.steps=1000", "data.longest=3072", "rollout.tasks=8", "rollout.schemes=0", "rollout.samples=16",
    "rollout.turns=1", "rollout.summaries=0", "rollout.temperature=1.0", "rollout.max_tokens=1536", "rollout.style=terse", "rollout.timeout=20",
    "reward.name=davinci", "reward.cap=6", "advantage.even=true", "ablations.skills=false", "optimiser.lr=2e-4", "optimiser.warmup=0",
    "checkpoint.every=1000", "checkpoint.keep=1", "checkpoint.export=bfloat16", "log.tensorboard=false",
)  # fmt: skip
ARMS: dict[str, tuple[str, ...]] = {
    "rl": (),
    "shuffled": ("ablations.shuffled_advantages=true",),
}
Sweep = Annotated[Path, typer.Argument(help="The sweep's folder.")]

app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def tasks(sweep: Sweep, folder: Folder) -> None:
    """Write the tasks to learn from: of the sweep's that are not set aside, those whose best choice beat the rule, and that are short."""
    sources = {one.id: one for one in tasks_of(sweep)}
    place = folder / TASKS
    place.mkdir(parents=True, exist_ok=True)
    for row in rows_of(sweep / RESULTS):
        wanted = row["rule_ms"] and row["rule_ms"] <= LONGEST_MS and row["gain"] >= LEAST_GAIN
        if wanted and row["task"] in sources and not is_held_out(row):
            (place / f"{row['name'][:60]}_{row['task'][:6]}.py").write_text(sources[row["task"]].source, encoding="utf-8")
    print(f"{len(list(place.iterdir()))} tasks to learn choices from")


@app.command()
def arm(
    folder: Folder,
    name: Annotated[str, typer.Argument(help=", ".join(ARMS))],
    seconds: Annotated[float, typer.Option(min=1, help="Begin no further step after so long; the same call goes on.")] = 240.0,
    model: Annotated[str, typer.Option(help="As model.name takes it; the folder's winners if empty.")] = "",
    device: Device = "cuda",
    workers: Workers = 12,
    settings: Annotated[str, typer.Option(help="Further settings of `bottega train`, separated by spaces.")] = "",
) -> None:
    """Train one arm for so long."""
    begun = time.monotonic()
    own = [f"model.name={model or folder / WINNERS / 'model'}", f"model.device={device}", f"rollout.judge_workers={workers}"]
    own.append(f"data.tasks={json.dumps([str(folder / TASKS)])}")
    run_arm(
        folder / name, device, [*SETTINGS, *own, *ARMS[name], *settings.split()], lambda: time.monotonic() - begun > seconds
    )


if __name__ == "__main__":
    app()
