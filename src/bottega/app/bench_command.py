"""`bottega bench`: settings in, exit code out. The work is done in `bottega.bench.session` and `bottega.bench.verify`."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from bottega.app.bench_display import BenchProgress, checked_line, show, show_verification
from bottega.app.configured import Given, configured
from bottega.app.device_host import device_host
from bottega.app.display import display_for
from bottega.app.interrupts import INTERRUPTED, cancelled_by_signal
from bottega.app.terminal import print_json, say
from bottega.backbone.chat import Usage
from bottega.backbone.client import Client
from bottega.bench.attempt import BenchAttempt
from bottega.bench.session import BenchFinished, run_session
from bottega.bench.settings import BenchSettings
from bottega.bench.verify import verify
from bottega.core.errors import UsageError
from bottega.data.drafts import CompilerDrafts, side_by_side
from bottega.episodes.backbone_defaults import DRAFTING
from bottega.episodes.request import next_folder
from bottega.judge.baselines import parse_baselines
from bottega.judge.device_host import DeviceHost

WHOLE, REFUTED, UNFINISHED = 0, 1, 4
OF_CHECKING_ALONE = {"verify", "share", "count"}
OF_CHECKING = OF_CHECKING_ALONE | {"seed", "device", "server", "cluster", "workers", "quiet", "json"}
OF_WRITING = {
    "samples", "turns", "strategy", "steps", "skill_files", "width", "branch", "resamples", "library", "selection", "proved_only",
    "seed", "at_once", "temperature", "max_tokens", "stop", "context", "style", "prompts", "price_prompt", "price_output", "money", "tokens",
    "language",
}  # fmt: skip

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@configured(
    app,
    BenchSettings,
    "TASKS",
    "Folders of tasks (KernelBench's level1/ … or any), data sets, kernelbench:level1, builtin or builtin:NAME.",
)
def bench_command(given: Given[BenchSettings]) -> None:
    """Measure how good a model's kernels are, or those of a folder, over a set of tasks: as KernelBench counts, and by intervals.

    A model over KernelBench's first two levels, four samples of three turns each, on every GPU of the machine:

        bottega bench KernelBench levels=1,2 --backbone server:qwen3-32b@http://localhost:8000/v1 samples=4 turns=3 --device all --out run

    The same with the skills that come along, or with your own, for `bottega compare`; a kernel that both runs wrote is judged once:

        bottega bench KernelBench … library=starter known=run --out run-with-skills
        bottega compare run run-with-skills

    The model and the compiler together: where no kernel of a sample is faster, up to two drafts of the rule-based compiler are judged too, until
    one is. The record says who wrote what. Then the compiler alone:

        bottega bench KernelBench --backbone embedded drafts=2 --device cuda --out run-whole
        bottega bench KernelBench --backbone none drafts=2 --device cuda --out run-compiler

    Kernels that another system wrote, in KernelBench's run folder or as TASK.py files, under the same rules:

        bottega bench KernelBench --candidates runs/their_run name=theirs --device cuda --out theirs

    Two kernels of your own, for two built-in tasks, on this CPU; the files are `mine/star_relu.py` and `mine/rms_norm_rows.py`:

        bottega bench builtin:star_relu builtin:rms_norm_rows --candidates mine --out run-mine

    The same on a GPU that this machine does not have, by a `bottega serve` that does:

        bottega bench builtin:star_relu builtin:rms_norm_rows --candidates mine --server https://judge.example.org --out run-there

    And on all GPUs of a Ray cluster, whose machines may come and go:

        bottega bench builtin:star_relu builtin:rms_norm_rows --candidates mine --cluster auto --device cuda --out run-cluster

    Is a published record true? Judge a tenth of it again:

        bottega bench --verify theirs/leaderboard.json --device cuda

    **The same command goes on** where a run stopped, however it stopped: give the same --out. Nothing is judged or counted twice.
    What may change between sessions: device (of one make), workers, at_once, known, money, tokens.

    Tasks that cannot be judged fairly (constant outputs, launch-bound, …) are listed, and totals are given with and without them.

    Exit code 0: all of it is done, or the record holds. 1: the record does not hold. 4: some tasks are not done, which their rows tell
    (a lost device, a spent budget, a silent model), run it again; or nothing of a record could be compared. 2: wrong usage, or nothing can be
    written. 130: interrupted; run it again.
    """
    settings = given.settings
    parse_baselines(settings.baseline)
    refuse_without_effect(given)
    with device_host(settings.server, settings.cluster) as host:
        devices = host.chosen(settings.device if "device" in settings.model_fields_set else None)
        settings = settings.model_copy(update={"device": ",".join(devices)})
        if settings.record is not None:
            raise typer.Exit(_verified(settings.record, devices, settings, host))
        raise typer.Exit(_run(given.words, devices, settings, host))


def _run(words: Sequence[str], devices: tuple[str, ...], settings: BenchSettings, host: DeviceHost) -> int:
    if not words:
        raise UsageError("no tasks: name a folder of tasks, a data set, or builtin")
    if (settings.backbone is None) == (settings.candidates is None):
        raise UsageError("give either --backbone, to have kernels written, or --candidates, to judge kernels that others wrote")
    if settings.asks_model:
        settings.prices(str(settings.backbone))
    folder = settings.out if settings.out is not None else next_folder("bench", Path(), resume=False)
    display = display_for(BenchProgress(parse_baselines(settings.baseline)[0]), f"bench on {settings.device}", settings.quiet)
    work = run_session(
        settings,
        words,
        folder,
        devices,
        lambda spent: _client(settings, spent),
        display.say,
        display.on_event,
        command=shlex.join(["bottega", *sys.argv[1:]]),
        host=host,
        draft_source=CompilerDrafts(DRAFTING, side_by_side()),
    )
    with display:
        finished = asyncio.run(cancelled_by_signal(work))
    if finished is None:
        say(f"bottega: interrupted; the same command with --out {shlex.quote(str(folder))} goes on", err=True)
        return INTERRUPTED
    _print_finished(finished, settings.as_json)
    return WHOLE if finished.whole else UNFINISHED


def refuse_without_effect(given: Given[BenchSettings]) -> None:
    """Raises for what was said on the command line and would change nothing."""
    settings = given.settings
    if settings.server is not None and "workers" in given.keys:
        raise UsageError("workers: with --server the server decides how many there are; leave it out")
    if settings.record is not None:
        if surplus := ["TASKS"] * bool(given.words) + [key for key in given.keys if key not in OF_CHECKING]:
            raise UsageError(
                f"verify takes tasks, kernels and how they are judged from the record: leave out {', '.join(surplus)}"
            )
        return
    read = {"language"} if settings.drafts else set()
    unread = OF_CHECKING_ALONE | (set() if settings.asks_model else OF_WRITING - read)
    if surplus := [key for key in given.keys if key in unread]:
        who = "without a model" if settings.candidates is None else "with --candidates"
        without = who if surplus[0] in OF_WRITING else "without --verify"
        raise UsageError(f"{', '.join(surplus)}: has no effect {without}; leave it out")


def _print_finished(finished: BenchFinished, as_json: bool) -> None:
    if not as_json:
        show(finished)
        return
    from bottega.bench.leaderboard import record_of

    told = {"folder": str(finished.run.folder), "whole": finished.whole, "ended": finished.ended, **record_of(finished.run)}
    print_json(told)


def _verified(record: Path, devices: tuple[str, ...], settings: BenchSettings, host: DeviceHost) -> int:
    def watch(one: Any) -> None:
        if not settings.quiet:
            say(checked_line(one), err=True)

    work = verify(
        record,
        devices,
        share=settings.share,
        count=settings.count,
        seed=settings.seed,
        workers=settings.workers,
        on_event=watch,
        host=host,
    )
    found = asyncio.run(cancelled_by_signal(work))
    if found is None:
        say("bottega: interrupted; nothing was concluded", err=True)
        return INTERRUPTED
    if settings.as_json:
        print_json(found.to_json())
    else:
        show_verification(found)
    return REFUTED if found.refuted else UNFINISHED if found.conclusion == "nothing could be compared" else WHOLE


def _client(settings: BenchSettings, earlier: Sequence[BenchAttempt]) -> Client:
    earlier = [attempt for attempt in earlier if attempt.author == "model"]  # others cost nothing and are no answers
    usage = Usage(
        sum(attempt.prompt_tokens for attempt in earlier),
        sum(attempt.output_tokens for attempt in earlier),
        sum(attempt.money for attempt in earlier),
    )
    answers = sum(1 + attempt.redrawn for attempt in earlier)
    return settings.client(str(settings.backbone), usage, answers, concurrency=64)
