"""`bottega sft` and `bottega train`: options in, exit code out. The work is done in `bottega.train.sft` and `bottega.train.rl`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bottega.app.device_host import device_host
from bottega.app.interrupts import INTERRUPTED, stop_after_step
from bottega.app.terminal import say
from bottega.core.errors import UsageError

if TYPE_CHECKING:
    from bottega.train.config import Stage
    from bottega.train.ranks import Ranks
    from bottega.train.settings import Config

sft_app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
train_app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings, such as optimiser.lr=1e-6.")
]
Out = Annotated[Path, typer.Option("--out", metavar="RUN", help="The run's folder.")]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="A machine (laptop, one-gpu, 8b-lora, 8b-full, 14b-full), a recipe (davinci, drkernel, kevin, cuda-agent), or both by comma.",
    ),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A TOML file over the preset.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, from its last checkpoint.")]
ClusterRanks = Annotated[
    int | None,
    typer.Option("--ranks", min=1, metavar="N", help="Training processes that Ray Train starts in the --cluster, a GPU each."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")]


@sft_app.command("sft", epilog="All settings, with defaults and docs: bottega settings sft")
def sft_command(
    overrides: Overrides = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR_OR_FILE", help="JSONL or parquet with `messages`.")
    ] = None,
    out: Out = Path("bottega-sft"),
    preset: Preset = None,
    config: ConfigFile = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ADDRESS", help="The Ray cluster of --ranks: auto, or its address.")
    ] = None,
    ranks: ClusterRanks = None,
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on conversations (supervised fine-tuning): the answer of each row, given what comes before it.

        bottega sft --data examples/ --out run --preset one-gpu optimiser.lr=2e-4

    A row is `{"messages": [{"role": "user", "content": …}, …, {"role": "assistant", "content": …}]}`; `role` (write, select, summarise) and
    `split` (train, or anything else for held out) are optional. The folder then holds `events.jsonl` with every figure, `checkpoints/`, and
    `model/`, which `local:RUN/model` opens as a backbone.

    Ctrl-C ends the run after the current step with a checkpoint, and so does SIGTERM; `--resume` goes on, and ends with the same weights as if
    it had never stopped (on a CPU to the last bit). Exit code 0: finished. 130: stopped. 2: wrong usage, or training cannot go on.
    """
    from bottega.app.display import display_for
    from bottega.app.training_display import TrainingProgress
    from bottega.train.run_directory import data_of
    from bottega.train.sft import sft

    if data is None and not resume:
        raise UsageError("say what to learn from: --data DIR_OR_FILE")
    with _leading() as own:
        if own is None:
            return
        resume = resume or _restarted(out)
        settings = _settings("sft", out, preset, config, overrides, resume)
        source = data or Path(data_of(out))
        with display_for(TrainingProgress(), f"learning from {source}", quiet) as display, stop_after_step(display.say) as stop:
            if ranks is not None:
                finished = _on_cluster(cluster, "sft", settings, out, ranks, resume, display.on_event, stop, source.resolve())
            else:
                finished = sft(
                    settings,
                    source.resolve(),
                    out,
                    resume=resume,
                    on_event=display.on_event,
                    stop=lambda: bool(stop),
                    ranks=own,
                )
    if finished.stopped:
        say(f"stopped after step {finished.step} of {finished.steps}; go on with: bottega sft --out {out} --resume", err=True)
        raise typer.Exit(INTERRUPTED)
    told = f", held-out loss {finished.held_out['nll']:.4f}" if "nll" in finished.held_out else ""
    say(f"{finished.steps} steps{told}; the model is in {finished.model}")


@train_app.command("train", epilog="All settings, with defaults and docs: bottega settings train")
def train_command(
    overrides: Overrides = None,
    out: Out = Path("bottega-train"),
    preset: Preset = None,
    config: ConfigFile = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ADDRESS", help="Judge in a Ray cluster: auto, or its address.")
    ] = None,
    ranks: ClusterRanks = None,
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Train one model in three roles by reinforcement learning: select skills, write kernels, summarise what worked.

        bottega train --preset laptop --out run
        bottega train --preset one-gpu --out run model.name=sft-run/model data.tasks=my-tasks
        bottega report run

    A step draws `rollout.tasks` tasks; for each `rollout.schemes` selections of skills beside the empty one, `rollout.samples` rollouts of each,
    `rollout.turns` kernels in a rollout. The judge's verdicts are the reward; winning traces are summarised into cards, and a card whose gain the
    gate has measured enters the run's own library together with the weights that earned it.

    Ablations are settings: `ablations.skills=false`, `ablations.selector=bm25`, `ablations.frozen_library=true`,
    `ablations.roles=write`, `reward.name=kevin`, `advantage.name=grpo`. A key that does not exist is an error that names the nearest one.

    Ctrl-C ends the run after the current step with a checkpoint, and so do SIGTERM and, with `log.stop_on_alarm=true`, an alarm for collapse.
    `--resume` goes on; also after a kill, and then nothing is sampled or judged twice. Exit code 0: finished. 130: stopped. 2: wrong usage,
    or training cannot go on.
    """
    from bottega.app.display import display_for
    from bottega.app.training_display import TrainingProgress
    from bottega.train.rl import train
    from bottega.train.rollout import open_inputs

    with _leading() as own:
        if own is None:
            return
        resume = resume or _restarted(out)
        settings = _settings("rl", out, preset, config, overrides, resume)
        with display_for(TrainingProgress(), f"training in {out}", quiet) as display, stop_after_step(display.say) as stop:
            if ranks is not None:
                finished = _on_cluster(cluster, "rl", settings, out, ranks, resume, display.on_event, stop)
            else:
                with device_host(cluster=cluster) as host:
                    inputs = partial(open_inputs, host=host)
                    finished = train(
                        settings,
                        out,
                        resume=resume,
                        inputs=inputs,
                        on_event=display.on_event,
                        stop=lambda: bool(stop),
                        ranks=own,
                    )
    if finished.stopped:
        say(
            f"stopped after step {finished.step} of {finished.steps}: {finished.stopped}; go on with: bottega train --out {out} --resume",
            err=True,
        )
        raise typer.Exit(INTERRUPTED)
    told = f", reward {finished.values['reward']:.3f} in the last" if "reward" in finished.values else ""
    say(f"{finished.steps} steps{told}; the model is in {out / 'model'}; see it with: bottega report {out}")


def _on_cluster(
    cluster: str | None, stage: Stage, settings: Config, out: Path, ranks: int, resume: bool, on_event: Any, stop: list[bool],
    source: Path | None = None,
) -> Any:  # fmt: skip
    from bottega.cluster.training import TrainingJob, train_on_cluster

    if cluster is None:
        raise UsageError(
            "--ranks starts processes in a Ray cluster: say which by --cluster auto|ADDRESS, or start them by torchrun"
        )
    job = TrainingJob(stage, settings, out, ranks, resume, source, judges=cluster)
    return train_on_cluster(cluster, job, on_event, lambda: bool(stop))


@contextmanager
def _leading() -> Iterator[Ranks | None]:
    """The ranks of a run that torchrun started, for the first of its processes; the others take part in here, and get none."""
    from bottega.train.learner import follow
    from bottega.train.ranks import open_ranks

    with open_ranks() as ranks:
        if not ranks.leads:
            follow(ranks)
        yield ranks if ranks.leads else None


def _restarted(out: Path) -> bool:
    """Whether torchrun has started the processes again after one was lost: then the same command goes on."""
    from bottega.train.run_directory import CONFIG

    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0 and (out / CONFIG).exists()


def _settings(
    stage: Stage, out: Path, preset: str | None, config: Path | None, overrides: list[str] | None, resume: bool
) -> Config:
    from bottega.train.config import read_config
    from bottega.train.run_directory import resumed_config

    if not resume:
        return read_config(stage, preset, config, overrides or ())
    said = read_config(stage, preset, config, overrides or ()) if preset or config else None
    return resumed_config(stage, out, overrides or (), said)
