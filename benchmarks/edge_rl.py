"""Does RL help a model that is right on some of its answers? From one cold start: RL, RL with shuffled advantages, fine-tuning on own right
answers, on more of the cold start's own rows (`longer`), and on the compiler's answers to the same tasks (`compiler`; RL never sees them), each for
as many seconds; then all of them on tasks of kinds that nobody was taught.

Tasks are kept of which a tenth to nine tenths of the samples are right (`select`): by the judge, after `repair.py draw`, or, in seconds and without
one, by what is the compiler's answer to the letter (`draw`, `select --by-answer`). While it learns, those that leave that band give way
(`rollout.band`). A step is one turn of 16 tasks and replaces none. A right answer earns 0.3 and a wrong one nothing where nothing is timed: to leave
matrix products to the library is right, so coverage neither pays (`reward.name=kevin`) nor drops an answer (`rejection.coverage.on`). All weights are
trained: in a few dozen updates an adapter hardly moves. Stages, because a GPU may be lent for minutes: every arm stops at its time with a checkpoint,
and the same call goes on. `edge_rl.sh` is all of it in ten minutes. `pack` and `unpack` carry an arm to another machine in files of 15 MB.

    PYTHONPATH=src python3 benchmarks/edge_rl.py draw edge --skip 1000 --limit 800
    PYTHONPATH=src python3 benchmarks/edge_rl.py select edge --by-answer
    PYTHONPATH=src python3 benchmarks/edge_rl.py arm edge rl --seconds 500 --trusted --untimed
    PYTHONPATH=src python3 benchmarks/edge_rl.py arm edge shuffled --seconds 500 --trusted --untimed
    PYTHONPATH=src python3 benchmarks/edge_rl.py arm edge longer --seconds 500
    PYTHONPATH=src python3 benchmarks/edge_rl.py answer edge cold rl shuffled longer
    PYTHONPATH=src python3 benchmarks/edge_rl.py report edge
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from batching_judge import trusted_inputs
from choice_distil import code_of
from choice_sweep import rows_of
from edge_data import (
    Asked,
    Folder,
    Processes,
    Tokens,
    answered,
    chat_row,
    difference,
    drawn_texts,
    is_right,
    judge_answers,
    known_verdicts,
    log,
    points,
    split_of,
    wholly_judged,
)
from figure import Device, Workers, write_rows
from repair import COLD, LONGEST_ANSWER, Limit, Round, Seconds, Skip

from bottega.bench.bootstrap import Draws
from bottega.core.event import Measured
from bottega.train.checkpoint import Checkpoints, export_model
from bottega.train.config import read_config
from bottega.train.learner import Learner
from bottega.train.rl import RlEvent
from bottega.train.rl import train as train_rl
from bottega.train.rollout import RlInputs, open_inputs
from bottega.train.run_directory import CHECKPOINTS, CONFIG, MODEL, resumed_config
from bottega.train.settings import Config
from bottega.train.sft import load_for_training, sft

KEPT, BAND = "kept", (0.1, 0.9)
ARMS: dict[str, tuple[str, ...]] = {
    "rl": (),
    "shuffled": ("ablations.shuffled_advantages=true",),
    "own": ("stages.own_answers=1000",),
    "ppo": ("advantage.name=gae", "stages.critic=2", "critic.lr=2e-4"),
    "two-turns": ("rollout.turns=2", "rollout.tasks=8"),
    "joint": (
        "rollout.turns=2", "rollout.tasks=8", "ablations.skills=true", "rollout.schemes=1", "rollout.samples=4", "rollout.summaries=2",
        "skills.library=starter", "skills.proofs=1", "skills.rounds=8", "skills.siblings=2",
    ),
}  # fmt: skip
SFT = {"compiler": KEPT, "longer": COLD}
"""Fine-tuning, by the name of its rows."""
RL_SETTINGS = (
    "data.steps=1000", "data.pack_tokens=16384", "rollout.tasks=16", "rollout.schemes=0", "rollout.samples=8", "rollout.turns=1",
    "rollout.replaced=0", "rollout.summaries=0", "rollout.temperature=1.0", "rollout.max_tokens=1536", "rollout.style=terse", "rollout.timeout=20",
    "rollout.band=[0.1, 0.9]", "rollout.updates=2", "reward.name=kevin", "reward.cap=1.5", "reward.gamma=0.4", "advantage.name=grpo",
    "rejection.coverage.on=false", "rejection.mismatch.low=0.9", "rejection.mismatch.high=1.1", "ablations.skills=false", "optimiser.lr=1e-5",
    "optimiser.weight_decay=0", "optimiser.warmup=0", "checkpoint.every=1000", "checkpoint.keep=1", "checkpoint.export=bfloat16",
    "log.tensorboard=false",
)  # fmt: skip
PIECE = 15_000_000
FIGURES = (
    "correct", "reward", "write/advantage_zero", "entropy", "gradient", "clipped_share", "mismatch", "dropped/mismatch", "junk", "cut", "unjudged",
    "tokens/answer", "rows", "seconds/rollout", "seconds/training", "seconds/step", "busy/generator", "busy/judge",
)  # fmt: skip
"""Of a step, that are told."""
Inputs = Callable[[Config], AbstractContextManager[RlInputs]]

app = typer.Typer(add_completion=False, help=__doc__)
Arm = Annotated[str, typer.Argument(help=", ".join((*ARMS, *SFT)))]


@app.command()
def draw(
    folder: Folder,
    round: Round = 1,
    device: Device = "cuda",
    limit: Limit = 800,
    skip: Skip = 1000,
    samples: Annotated[int, typer.Option(min=1, help="Of each task.")] = 6,
    tokens: Tokens = LONGEST_ANSWER,
) -> None:
    """Answers of the cold start to tasks that it was not taught, for `select --by-answer`: nobody reads or judges them."""
    tasks = split_of(folder, False, limit, skip)
    asked = [Asked(row, row["prompt"], 1.0, 1000 * round + number) for row in tasks for number in range(samples)]
    texts = drawn_texts(f"local:{folder / COLD / 'model'}", device, asked, tokens)
    write_rows(folder / f"draws-{round}.jsonl", [{"task": one.row["task"], "text": text} for one, text in zip(asked, texts)])


@app.command()
def select(
    folder: Folder,
    round: Round = 1,
    by_answer: Annotated[
        bool, typer.Option("--by-answer", help="Right is what says the same as the compiler's answer; no verdict is asked for.")
    ] = False,
) -> None:
    """Keep those tasks of which some samples are right and some wrong, as files that `data.tasks` takes."""
    by_task, verdicts = {row["task"]: row for row in split_of(folder, False)}, known_verdicts(folder)
    shares: dict[str, list[bool]] = {}
    for row in rows_of(folder / f"draws-{round}.jsonl"):
        same = code_of(row["text"]) == code_of(by_task[row["task"]]["answer"])
        if (right := same if by_answer else is_right(row, verdicts)) is not None:
            shares.setdefault(row["task"], []).append(right)
    kept = [task for task, found in shares.items() if BAND[0] <= sum(found) / len(found) <= BAND[1]]
    (folder / KEPT).mkdir(exist_ok=True)
    for task in kept:
        (folder / KEPT / f"{by_task[task]['name']}_{task[:6]}.py").write_text(by_task[task]["source"], encoding="utf-8")
    write_rows(folder / f"{KEPT}.jsonl", [chat_row(by_task[task]["prompt"], by_task[task]["answer"]) for task in kept])
    every = [right for found in shares.values() for right in found]
    always = sum(all(found) for found in shares.values())
    never = sum(not any(found) for found in shares.values())
    print(f"{sum(every) / max(1, len(every)):.0%} of {len(every)} answers are right")
    print(f"of {len(shares)} tasks {len(kept)} are kept; {always} were always right, {never} never")


@app.command()
def arm(
    folder: Folder,
    name: Arm,
    seconds: Annotated[float, typer.Option(min=1, help="Begin no further step after so long; the same call goes on.")] = 240.0,
    model: Annotated[str, typer.Option(help="The cold start, as model.name takes it; the folder's if empty.")] = "",
    device: Device = "cuda",
    workers: Workers = 12,
    settings: Annotated[str, typer.Option(help="Further settings of the training, separated by spaces.")] = "",
    trusted: Annotated[bool, typer.Option("--trusted", help="Judge without isolation: more steps in the same time.")] = False,
    untimed: Annotated[bool, typer.Option("--untimed", help="With --trusted: reward what is right, at any speed.")] = False,
) -> None:
    """Train one arm for so long."""
    begun, model = time.monotonic(), model or str(folder / COLD / "model")

    def late() -> bool:
        return time.monotonic() - begun > seconds

    if name in SFT:
        print(
            f"{name}: {_fine_tuned(folder, name, model, device, late, settings.split())} steps, {time.monotonic() - begun:.0f} s"
        )
        return
    own = [
        f"model.name={model}",
        f"model.device={device}",
        f"data.tasks={json.dumps([str(folder / KEPT)])}",
        f"rollout.judge_workers={workers}",
    ]
    inputs = partial(trusted_inputs, timed=not untimed) if trusted else open_inputs
    run_arm(folder / name, device, [*RL_SETTINGS, *own, *ARMS[name], *settings.split()], late, inputs)


def run_arm(
    run: Path,
    device: str,
    settings: Sequence[str],
    late: Callable[[], bool],
    inputs: Inputs = open_inputs,
    figures: Sequence[str] = FIGURES,
) -> None:
    """RL as `bottega train` has it, until it is late. A run that is there goes on."""
    begun, known = time.monotonic(), (run / CONFIG).exists()
    preset = "one-gpu" if device.startswith("cuda") else None
    config = resumed_config("rl", run) if known else read_config("rl", preset, None, settings)
    ended = train_rl(config, run, resume=known, inputs=inputs, on_event=partial(_tell, figures=figures), stop=late)
    print(
        f"{run.name}: {ended.step} steps, {time.monotonic() - begun:.0f} s in this call; {ended.stopped or 'all steps taken'}"
    )


def _tell(event: RlEvent, figures: Sequence[str]) -> None:
    if isinstance(event, Measured) and event.key.startswith(("train/", "checkpoint/")):
        told = {key: round(event.values[key], 3) for key in figures if key in event.values}
        if told:
            log(f"step {event.step}: {told} {event.note}")


def _fine_tuned(folder: Path, name: str, model: str, device: str, late: Callable[[], bool], settings: Sequence[str]) -> int:
    """As many steps as fit. A run that is stopped exports no model by itself."""
    own = [
        f"model.name={model}",
        f"model.device={device}",
        "data.epochs=1000",
        "data.held_out=0",
        "optimiser.lr=1e-4",
        "optimiser.warmup=0",
    ]
    preset = "one-gpu" if device.startswith("cuda") else "laptop"
    config = read_config("sft", preset, None, [*own, "optimiser.schedule=constant", "checkpoint.every=10000", *settings])
    ended = sft(config, folder / f"{SFT[name]}.jsonl", folder / name, stop=late)
    loaded = load_for_training(config)
    learner, keeping = Learner.begin(config, loaded.model), Checkpoints(folder / name / CHECKPOINTS)
    saved = keeping.latest(learner)
    assert saved is not None
    keeping.load(saved, learner)
    export_model(learner.whole_model(), loaded.tokenizer.inner, folder / name / MODEL, torch.bfloat16)
    return ended.step


@app.command()
def answer(
    folder: Folder,
    names: Annotated[list[str], typer.Argument(help="Of the arms, and of the cold start's folder.")],
    device: Device = "cuda",
    samples: Annotated[int, typer.Option(min=0, help="At temperature 1, beside the greedy one.")] = 4,
    limit: Limit = 240,
    workers: Workers = 12,
    seconds: Seconds = 100.0,
    tokens: Tokens = LONGEST_ANSWER,
    processes: Processes = 12,
    isolated: Annotated[bool, typer.Option("--isolated", help="Judge the greedy answers again, with isolation.")] = False,
    unjudged: Annotated[
        bool, typer.Option("--unjudged", help="Draw them only: a later call judges all arms together.")
    ] = False,
) -> None:
    """Answer the tasks that are set aside, and have all arms' answers to a task judged together."""
    tasks = split_of(folder, True, limit)
    asked = [Asked(row, row["prompt"], float(number > 0), number) for row in tasks for number in range(samples + 1)]
    paths = {name: folder / f"answers-{name}.jsonl" for name in names}
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        for name, path in paths.items():
            if not path.exists():
                found = answered(f"local:{folder / name / 'model'}", device, asked, tokens, pool)
                write_rows(path, [{**row, "sample": one.seed} for row, one in zip(found, asked)])
    if unjudged:
        return
    chosen = [row for path in paths.values() for row in rows_of(path) if not isolated or not row["sample"]]
    judge_answers(folder, chosen, {row["task"]: row for row in tasks}, device, workers, seconds, isolated)
    print("\n".join(table(_judged(folder, isolated))))


@app.command()
def report(folder: Folder) -> None:
    """Print what there is, and the arms against each other."""
    for isolated in (False, True):
        found = _judged(folder, isolated)
        title = "Judged with isolation, greedy answers alone:" if isolated else "Judged without isolation:"
        print("\n".join([title, "", *table(found), "", *contrasts(found), ""]))


Scores = dict[str, dict[str, tuple[float, float]]]
"""By arm and task: whether the greedy answer is right, and the share of all samples that are."""


def _judged(folder: Path, isolated: bool = False) -> Scores:
    verdicts = known_verdicts(folder, isolated)
    found: Scores = {}
    for path in sorted(folder.glob("answers-*.jsonl")):
        right: dict[str, dict[int, bool | None]] = {}
        for row in rows_of(path):
            if not isolated or not row["sample"]:
                right.setdefault(row["task"], {})[row["sample"]] = is_right(row, verdicts)
        kept = wholly_judged([None not in each.values() for each in right.values()])
        whole = {
            task: [bool(each[number]) for number in sorted(each)]
            for task, each in list(right.items())[:kept]
            if None not in each.values()
        }
        found[path.stem.removeprefix("answers-")] = {
            task: (float(each[0]), sum(each[1:]) / max(1, len(each) - 1)) for task, each in whole.items()
        }
    return found


def table(found: Scores) -> Iterator[str]:
    yield "| arm | tasks | right, greedy | right, samples at temperature 1 |"
    yield "|---|---:|---:|---:|"
    for name, scores in found.items():
        if scores:
            cells = [f"{share.point or 0:.1%}" for share in Draws(len(scores)).shares(np.asarray(list(scores.values()), float))]
            yield f"| {name} | {len(scores)} | {' | '.join(cells)} |"


def contrasts(found: Scores) -> Iterator[str]:
    """On the tasks that both have, in points, with intervals over tasks."""
    yield "| | tasks | greedy, points | samples, points |"
    yield "|---|---:|---|---|"
    for one, other in ((one, other) for one in found for other in found if one != other and one in (*ARMS, *SFT)):
        both = sorted(found[one].keys() & found[other].keys())
        if both:
            pairs = [difference(*([found[way][task][place] for task in both] for way in (one, other))) for place in (0, 1)]
            yield f"| {one} over {other} | {len(both)} | {' | '.join(map(points, pairs))} |"


# from machine to machine


@app.command()
def pack(folder: Folder, name: Arm, out: Annotated[Path, typer.Argument(help="Where the pieces go.")]) -> None:
    """An arm's checkpoint, settings and log in pieces of 15 MB; not its model, which the next call exports again."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as file:
        for path in sorted((folder / name).rglob("*")):
            if path.is_file() and path.relative_to(folder / name).parts[0] not in (
                "model",
                "adapter",
                "tokenizer",
                "steps",
                "tensorboard",
            ):
                file.add(path, path.relative_to(folder))
    whole = data.getvalue()
    out.mkdir(parents=True, exist_ok=True)
    for number in range(0, len(whole), PIECE):
        (out / f"{name}.tar.{number // PIECE:03}").write_bytes(whole[number : number + PIECE])
    print(f"{name}: {len(whole) / 2**20:.0f} MiB in {-(-len(whole) // PIECE)} pieces")


@app.command()
def unpack(folder: Folder, name: Arm, pieces: Annotated[Path, typer.Argument(help="Where `pack` put them.")]) -> None:
    whole = b"".join(path.read_bytes() for path in sorted(pieces.glob(f"{name}.tar.*")))
    with tarfile.open(fileobj=io.BytesIO(whole)) as file:
        file.extractall(folder, filter="data")
    print(f"{name}: {sum(path.is_file() for path in (folder / name).rglob('*'))} files", file=sys.stderr)


if __name__ == "__main__":
    app()
