"""`bottega sft`: options in, exit code out. The work is done in `bottega.train.sft`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bottega.app.interrupts import INTERRUPTED, stop_after_step
from bottega.app.terminal import say
from bottega.core.errors import UsageError

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@app.command("sft", epilog="All settings, with defaults and docs: bottega settings sft")
def sft_command(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings, such as optimiser.lr=1e-4.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR_OR_FILE", help="JSONL or parquet with `messages`.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="The run's folder.")] = Path("bottega-sft"),
    preset: Annotated[str | None, typer.Option("--preset", help="laptop, one-gpu or paper.")] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A TOML file over the preset.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, from its last checkpoint.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")] = False,
) -> None:
    """Train the backbone on conversations (supervised fine-tuning): the answer of each row, given what comes before it.

        bottega sft --data examples/ --out run --preset one-gpu optimiser.lr=2e-4

    A row is `{"messages": [{"role": "user", "content": …}, …, {"role": "assistant", "content": …}]}`; `role` (write, select, summarise) and
    `split` (train, or anything else for held out) are optional. The folder then holds `events.jsonl` with every figure, `checkpoints/`, and
    `model/`, which `local:RUN/model` opens as a backbone.

    Ctrl-C ends the run after the current step with a checkpoint, and so does SIGTERM; `--resume` goes on, and ends with the same weights as if
    it had never stopped (on a CPU to the last bit). Exit code 0: finished. 130: stopped. 2: wrong usage, or training cannot go on.
    """
    from bottega.app.display import display_for
    from bottega.app.sft_display import SftProgress
    from bottega.train.config import read_config
    from bottega.train.run_directory import data_of, resumed_config
    from bottega.train.sft import sft

    changes = overrides or ()
    if resume:
        if preset or config:
            raise UsageError("--resume takes its settings from the run: leave --preset and --config out")
        settings, source = resumed_config("sft", out, changes), data or Path(data_of(out))
    elif data is None:
        raise UsageError("say what to learn from: --data DIR_OR_FILE")
    else:
        settings, source = read_config("sft", preset, config, changes), data
    with display_for(SftProgress(), f"learning from {source}", quiet) as display, stop_after_step(display.say) as stop:
        finished = sft(settings, source.resolve(), out, resume=resume, on_event=display.hear, stop=lambda: bool(stop))
    if finished.stopped:
        say(f"stopped after step {finished.step} of {finished.steps}; go on with: bottega sft --out {out} --resume", err=True)
        raise typer.Exit(INTERRUPTED)
    told = f", held-out loss {finished.held_out['nll']:.4f}" if "nll" in finished.held_out else ""
    say(f"{finished.steps} steps{told}; the model is in {finished.model}")
