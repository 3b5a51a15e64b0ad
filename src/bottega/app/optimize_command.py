"""`bottega optimize`: settings in, exit code out. The work is done in `bottega.episodes.optimise`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from bottega.agents.answers.pipeline import policy_for
from bottega.app.configured import Given, configured
from bottega.app.display import Display, display_for
from bottega.app.interrupts import INTERRUPTED, on_signals
from bottega.app.optimize_display import OptimizeProgress
from bottega.app.settings.kinds import MODES
from bottega.app.settings.optimize import OptimizeSettings
from bottega.app.terminal import Terminal, json_line, say
from bottega.backbone.budgeted import check_context, chosen_prices, open_budgeted
from bottega.backbone.chat import Usage
from bottega.backbone.client import Client
from bottega.backbone.ledger import Spent
from bottega.core.errors import UsageError
from bottega.core.event import Event
from bottega.core.verdict import BEST
from bottega.episodes.attempts import totals_of
from bottega.episodes.backbone_defaults import (
    answer_tokens,
    draft_count,
    drafting_seconds,
    likeliest_first,
    prompt_style,
    resample_count,
    strategy_for,
    temperature_for,
)
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.delivery.result import Interval
from bottega.episodes.request import OptimizeRequest, next_folder, opened_run
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping
from bottega.judge.baselines import parse_baselines
from bottega.judge.machine import worker_count
from bottega.languages import choose_language
from bottega.tasks.module import Wanted, open_module

FOUND, NONE_FOUND = 0, 3
REPEATS = 3
"""Answers in a row that bring no new text end a search: a small model says the same again and again."""

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@configured(app, OptimizeSettings, "MODULE", "A Python file with an nn.Module, or a task such as builtin:star_relu.")
def optimize_command(given: Given[OptimizeSettings]) -> None:
    """Make a PyTorch module faster: write kernels, judge every one, hand over the best as a module in place of the original.

    A file in KernelBench's format, with a server that speaks OpenAI's protocol, and a limit of ten minutes:

        bottega optimize attention.py --backbone server:qwen3-32b@http://localhost:8000/v1 minutes=10

    Any file with an nn.Module: say how it is built and called.

        bottega optimize model.py --class Block --init "dim=512" --inputs "torch.randn(8, 512)" --device cuda

    Drafts come first: the rule-based compiler traces the module and writes kernels without a model and without tokens. They are judged like
    every kernel, count as kernels of the run, and the fastest proved one is handed over, whoever wrote it; display and reports say who. What the
    compiler does not understand it refuses, in a line. `drafts=0` leaves all of it to the model.

    An answer that is certain to fail (it reads a name that nothing defines, a launch leaves out an argument) is not judged but sampled again, at
    most `resamples` times; all answers count as tokens of the run, and if none is better the first one is judged.

    Go on after Ctrl-C, a crash, or a spent budget, with more to spend:

        bottega optimize model.py … --out bottega-model-1 --resume minutes=60

    The folder then holds `optimized.py` (`load(original)` gives the faster module; it needs torch, not Bottega), `report.html`, `report.md`,
    `verdict.json`, `original.py`, `result.json` and the log of all events. `bottega check DIR` judges it again.

    Ctrl-C ends the search with the best so far; twice, everything.

    What is handed over surely beats the first baseline that was named, the module as it is (`eager`) if none was. Where nothing beats that
    and a kernel surely beats eager, it is kept as `faster_than_eager.py`.

    Exit code 0: a kernel that surely beats the first baseline was found. 3: none was found, and the report says what was tried. 2: wrong usage,
    an unusable module, or neither a draft nor an answer from the model. 130: interrupted before there was anything to report.
    """
    settings = given.settings
    if len(given.words) != 1:
        raise UsageError(
            f"name one module: a Python file or a task such as builtin:star_relu, not {len(given.words)} arguments"
        )
    check_context(settings.context)
    request = request_for(settings, given.words[0])
    chosen_prices(settings.backbone, settings.price_prompt, settings.price_output, settings.money)
    subject = request.subject
    folder = settings.out if settings.out is not None else next_folder(subject.task.name, Path(), settings.resume)
    progress = OptimizeProgress(request.caps, request.settings.baseline)
    display = display_for(progress, f"optimizing {subject.title}", settings.quiet)
    raise typer.Exit(asyncio.run(_run(request, folder, settings, display)))


def request_for(settings: OptimizeSettings, module: str) -> OptimizeRequest:
    """What the user did not say is chosen by the backbone and the device."""
    backbone, device, skills = settings.backbone, settings.device, settings.skills
    style = prompt_style(backbone, settings.style)
    wanted = Wanted(settings.class_name, settings.inputs, settings.init, settings.function)
    return OptimizeRequest(
        subject=open_module(module, wanted, size="cpu" if device == "cpu" else "gpu"),
        settings=EpisodeSettings(
            device=device,
            language=choose_language(settings.language, device),
            baselines=parse_baselines(settings.baseline),
            precision=settings.precision,
            strategy=strategy_for(backbone, settings.strategy),
            turns=settings.turns,
            samples=settings.samples,
            schemes=settings.schemes if skills else 0,
            select="selector" if skills else "none",
            unproved=not settings.proved_only,
            temperature=temperature_for(backbone, settings.samples * settings.turns, settings.temperature),
            likeliest_first=likeliest_first(backbone, settings.temperature),
            max_tokens=answer_tokens(backbone, settings.max_tokens),
            style=style,
            drafts=draft_count(backbone, settings.kernels, settings.drafts),
            answers=policy_for(resample_count(style, settings.resamples)),
            summaries=settings.summaries if skills else 0,
            seed=settings.seed,
            stopping=Stopping(target=settings.target, patience=settings.patience, repeats=REPEATS),
        ),
        backbone=backbone,
        caps=BudgetCaps(settings.kernels, settings.tokens, settings.money, settings.minutes and settings.minutes * 60),
        training=MODES[settings.mode],
        prompts=settings.prompts,
        library=str(_library_folder(settings.library)) if skills else "",
        workers=worker_count(settings.workers, device),
        command=shlex.join(["bottega", *sys.argv[1:]]),
    )


async def _run(request: OptimizeRequest, folder: Path, settings: OptimizeSettings, display: Display) -> int:
    from bottega.data.drafts import CompilerDrafts
    from bottega.episodes.optimise import Stop, optimise
    from bottega.skills.default_library import open_library

    stop, loop = Stop(), asyncio.get_running_loop()

    def ring() -> None:
        stop.ring()
        if stop.rings > 1:
            on_signals(loop, None)  # a third one ends the process
        display.say(
            "stopping with the best so far, which is judged again; once more to stop at once" if stop.rings == 1 else "stopping"
        )

    with contextlib.ExitStack() as stack:
        cards = stack.enter_context(open_library(settings.library)) if request.library else None
        journal = stack.enter_context(opened_run(folder, request, settings.resume))
        stack.enter_context(display)
        on_signals(loop, ring)
        display.say(f"run in {folder}; the model is loaded and the module is tried in the sandbox")
        finished = await optimise(
            request,
            journal,
            lambda: _client(request, settings, journal.events),
            cards,
            stop,
            display.hear,
            CompilerDrafts(drafting_seconds(request.caps.seconds)),
        )
        kept = bool(journal.events)
    if finished is None:
        where = f"; go on with --out {shlex.quote(str(folder))} --resume" if kept else ""
        say(f"bottega: interrupted before there was anything to report{where}", err=True)
        return INTERRUPTED
    if settings.as_json:
        told = {"folder": str(finished.folder), "interrupted": finished.interrupted, **json.loads(finished.result.text())}
        sys.stdout.write(json_line(told) + "\n")
    else:
        _show(finished)
    return FOUND if finished.result.outcome == "faster" else NONE_FOUND


def _show(finished: Any) -> None:
    console, result, folder = Terminal(), finished.result, finished.folder

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, soft_wrap=True)

    if finished.error:
        say(f"The search was ended by an error: {finished.error}", "yellow")
    tried = (
        "; ".join(
            f"by {author}: {', '.join(f'{count} {outcome}' for outcome, count in outcomes.items())}"
            for author, outcomes in result.writers.items()
        )
        or "nothing"
    )
    if result.outcome == "faster":
        for name, claim in result.claim.items():
            say(speed_line(name, claim, result.fastest_baseline), "bold green")
        say(f"written by {result.author}")
        say(f"{folder / 'optimized.py'}: module = optimized.{result.load}(original)")
        if result.refused:
            say(f"but it refuses for now: {result.refused}", "yellow")
    else:
        say(result.missed, "bold yellow")
        if result.kept:
            say(
                f"{folder / result.kept} surely beats eager and is kept: module = {Path(result.kept).stem}.{result.load}(original)"
            )
            for name, claim in result.kept_claim.items():
                say(f"  {speed_line(name, claim, result.fastest_baseline)}")
    say(f"tried: {tried}; ended: {result.ended}")
    say(
        f"{folder / 'report.html'} tells how; check it again with: {result.check}"
        if result.outcome == "faster"
        else f"{folder / 'report.html'} tells what was tried"
    )


def speed_line(name: str, claim: Interval, fastest: str) -> str:
    which = f"{name}, which is {fastest} here" if name == BEST and fastest else name
    return f"{claim.point:.2f}× the speed of {which} (99 % interval {claim.low:.2f} to {claim.high:.2f})"


def _client(request: OptimizeRequest, settings: OptimizeSettings, events: Sequence[Event]) -> Client:
    earlier = totals_of(events)
    usage = Usage(earlier.prompt_tokens, earlier.output_tokens, earlier.cost)
    return open_budgeted(
        request.backbone,
        prices=chosen_prices(request.backbone, settings.price_prompt, settings.price_output, settings.money),
        context=settings.context,
        tokens=request.caps.tokens,
        money=request.caps.money,
        spent=Spent(usage, earlier.calls, earlier.estimated),
    )


def _library_folder(given: Path | None) -> Path:
    from bottega.skills.default_library import default_folder

    return (given or default_folder()).resolve()
