"""`bottega train`: options in, exit code out. The work is done in `bottega.train.rl`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bottega.app.interrupts import INTERRUPTED, stop_after_step
from bottega.app.terminal import say
from bottega.core.errors import UsageError

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@app.command("train", epilog="All settings, with defaults and docs: bottega settings train")
def train_command(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings, such as optimiser.lr=1e-6.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="The run's folder.")] = Path("bottega-train"),
    preset: Annotated[str | None, typer.Option("--preset", help="laptop, one-gpu or paper.")] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A TOML file over the preset.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, from its last checkpoint.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")] = False,
) -> None:
    """Train the one backbone in all three roles by reinforcement: select skills, write kernels, summarise what worked.

        bottega train --preset laptop --out run
        bottega train --preset one-gpu --out run model.name=sft-run/model data.tasks='["builtin"]'
        bottega report run

    A step draws `rollout.tasks` tasks; for each `rollout.schemes` selections of skills beside the empty one, `rollout.samples` rollouts of each,
    `rollout.turns` kernels in a rollout. The judge's verdicts are the reward; winning traces are summarised into cards, and a card whose gain the
    gate has measured enters the run's own library together with the weights that earned it.

    Ablations are settings: `ablations.skills=false`, `ablations.selector=bm25`, `ablations.frozen_library=true`,
    `ablations.roles='["write"]'`, `reward.name=kevin`, `advantage.name=grpo`. A key that does not exist is an error that names the nearest one.

    Ctrl-C ends the run after the current step with a checkpoint, and so do SIGTERM and, with `log.stop_on_alarm=true`, an alarm for collapse.
    `--resume` goes on; also after a kill, and then nothing is sampled or judged twice. Exit code 0: finished. 130: stopped. 2: wrong usage,
    or training cannot go on.
    """
    from bottega.app.display import display_for
    from bottega.app.train_display import TrainProgress
    from bottega.train.config import read_config
    from bottega.train.rl import train
    from bottega.train.run_directory import resumed_config

    if resume:
        if preset or config:
            raise UsageError("--resume takes its settings from the run: leave --preset and --config out")
        settings = resumed_config("rl", out, overrides or ())
    else:
        settings = read_config("rl", preset, config, overrides or ())
    with display_for(TrainProgress(), f"training in {out}", quiet) as display, stop_after_step(display.say) as stop:
        finished = train(settings, out, resume=resume, on_event=display.hear, stop=lambda: bool(stop))
    if finished.stopped:
        say(
            f"stopped after step {finished.step} of {finished.steps}: {finished.stopped}; go on with: bottega train --out {out} --resume",
            err=True,
        )
        raise typer.Exit(INTERRUPTED)
    told = f", reward {finished.values['reward']:.3f} in the last" if "reward" in finished.values else ""
    say(f"{finished.steps} steps{told}; the model is in {out / 'model'}; see it with: bottega report {out}")
