"""`bottega bench`: options in, exit code out. The work is done in `bottega.bench.session` and `bottega.bench.verify`."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from bottega.app.asking import answer_tokens, prompt_style, redraw_count, temperature_for
from bottega.app.bench_display import BenchProgress, checked_line, show, show_verification, summaries_of
from bottega.app.learning_display import Quiet, display_for
from bottega.app.optimize_command import chosen_language, chosen_prices
from bottega.app.terminal import json_line, say
from bottega.backbone.client import Speaker
from bottega.bench.attempt import Attempt
from bottega.bench.session import STARTER, Finished, Wish, next_folder, sit
from bottega.bench.settings import BenchSettings, Judging, Selection, Writing
from bottega.bench.shard import devices_named, kind_of
from bottega.bench.verify import verify
from bottega.core.errors import UsageError
from bottega.episodes.budget import Caps
from bottega.episodes.delivery.files import strict
from bottega.episodes.settings import StrategyName
from bottega.judge.baselines import parse_baselines
from bottega.judge.machine import worker_count

WHOLE, REFUTED, UNFINISHED, INTERRUPTED = 0, 1, 4, 130
WHAT, WRITING, MODEL, FOREIGN, JUDGING, RECORD, OUTPUT = (
    "The tasks", "How kernels are written", "The model", "Kernels that others wrote", "How they are judged", "Checking a record", "Output",
)  # fmt: skip

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


OF_CHECKING_ALONE = ("--verify", "--share", "--count")
OF_CHECKING = (*OF_CHECKING_ALONE, "--seed", "--device", "--workers", "--quiet", "--json")
OF_WRITING = (
    "--samples", "--turns", "--strategy", "--width", "--branch", "--redraws", "--library", "--selection", "--proved-only", "--seed", "--at-once",
    "--temperature", "--max-tokens", "--context", "--style", "--prompts", "--price-prompt", "--price-output", "--money", "--tokens", "--language",
)  # fmt: skip


def _given(call: typer.Context) -> list[str]:
    """What stood on the command line, by the names that a user knows."""
    given = [
        one for one in call.command.params if one.name and str(call.get_parameter_source(one.name)).endswith("COMMANDLINE")
    ]
    return [one.opts[0] if one.param_type_name == "option" else "TASKS" for one in given]


def _in(panel: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **options)


@app.command("bench")
def bench_command(
    context_of_call: typer.Context,
    tasks: Annotated[
        list[str] | None,
        typer.Argument(
            help="A folder of tasks (KernelBench's level1/ … or any), a data set, kernelbench:level1, builtin or builtin:NAME."
        ),
    ] = None,
    levels: Annotated[str, _in(WHAT, "--levels", metavar="1,2", help="Only tasks of these levels.")] = "",
    only: Annotated[str, _in(WHAT, "--only", metavar="PATTERN", help="Only tasks whose name fits, such as `*softmax*`.")] = "",
    limit: Annotated[int | None, _in(WHAT, "--limit", help="So many tasks, at even distances over the whole set.")] = None,
    backbone: Annotated[
        str | None,
        _in(MODEL, "--backbone", metavar="SPEC", help="embedded, local:PATH, vllm:PATH, server:MODEL@URL or scripted:FILE."),
    ] = None,
    samples: Annotated[int, _in(WRITING, "--samples", help="Of each task, none of which sees another.")] = 1,
    turns: Annotated[int, _in(WRITING, "--turns", help="Kernels of a sample in a row, each seeing the ones before it.")] = 1,
    strategy: Annotated[
        str,
        _in(
            WRITING, "--strategy", help="serial; parallel (samples × turns kernels, all apart); beam or evolve in each sample."
        ),
    ] = "serial",
    width: Annotated[int, _in(WRITING, "--width", help="Of a beam; islands of an evolution.")] = 2,
    branch: Annotated[int, _in(WRITING, "--branch", help="Children of a kernel in a beam, of an island in evolution.")] = 2,
    redraws: Annotated[
        int | None,
        _in(
            WRITING,
            "--redraws",
            metavar="N",
            help="Ask again, so often at most, where an answer is seen to be broken before it is judged; 3 if terse, else 0.",
        ),
    ] = None,
    library: Annotated[
        str, _in(WRITING, "--library", metavar="PATH", help="A skill library, starter for the set that comes along, or none.")
    ] = "none",
    selection: Annotated[
        str, _in(WRITING, "--selection", help="Who picks skills: selector (the backbone), bm25 (the search alone), none.")
    ] = "selector",
    proved_only: Annotated[bool, _in(WRITING, "--proved-only", help="Offer admitted skills only, not proposed ones.")] = False,
    seed: Annotated[
        int | None,
        _in(WRITING, "--seed", help="Of drawing answers: 0. Repeats what --verify judged again; chance decides if left out."),
    ] = None,
    at_once: Annotated[
        int | None,
        _in(
            WRITING,
            "--at-once",
            help="Samples under way at a time, for each device; 8, or 256 by a model on the judge's device.",
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        _in(MODEL, "--temperature", help="0 takes the likeliest answer; 1, or what suits the embedded model."),
    ] = None,
    max_tokens: Annotated[int | None, _in(MODEL, "--max-tokens", help="Of one answer; 3072, and 8192 from a server.")] = None,
    context: Annotated[int | None, _in(MODEL, "--context", help="Tokens that the model takes, prompt and answer.")] = None,
    style: Annotated[
        str | None, _in(MODEL, "--style", help="terse for models trained on it, compact for small ones, full.")
    ] = None,
    prompts: Annotated[
        Path | None, _in(MODEL, "--prompts", metavar="DIR", help="Prompt files that overrule the shipped ones.")
    ] = None,
    price_prompt: Annotated[float | None, _in(MODEL, "--price-prompt", help="Price of a million prompt tokens.")] = None,
    price_output: Annotated[float | None, _in(MODEL, "--price-output", help="Price of a million output tokens.")] = None,
    money: Annotated[float | None, _in(MODEL, "--money", help="Spend at most this much, over all sittings.")] = None,
    tokens: Annotated[int | None, _in(MODEL, "--tokens", help="At most this many tokens, over all sittings.")] = None,
    candidates: Annotated[
        Path | None,
        _in(
            FOREIGN,
            "--candidates",
            metavar="DIR",
            help="Judge these kernels: KernelBench's run folder, or TASK.py, TASK.0.py, TASK/0.py.",
        ),
    ] = None,
    name: Annotated[
        str, _in(FOREIGN, "--name", help="Who wrote the kernels, for the record; the model or folder if left out.")
    ] = "",
    device: Annotated[str, _in(JUDGING, "--device", help="cpu, cuda, cuda:0,cuda:1, or all: one judge on each.")] = "cpu",
    workers: Annotated[
        str,
        _in(
            JUDGING,
            "--workers",
            metavar="N",
            help="Kernels built and tried side by side on each device; auto: what cores carry.",
        ),
    ] = "auto",
    language: Annotated[str | None, _in(JUDGING, "--language", help="To write in: cpp, triton or cuda; by the device.")] = None,
    baseline: Annotated[
        str,
        _in(
            JUDGING,
            "--baseline",
            help="eager, compile, autotune, best (the fastest of them), or several by comma. The first one counts.",
        ),
    ] = "eager",
    precision: Annotated[
        str, _in(JUDGING, "--precision", help="fp32 (strict), or what both sides may use: tf32, bf16, fp16.")
    ] = "fp32",
    mode: Annotated[str, _in(JUDGING, "--mode", help="Judge models in train or eval mode, or as-built.")] = "as-built",
    quick: Annotated[bool, _in(JUDGING, "--quick", help="Fewer input variants and timed rounds; not for publishing.")] = False,
    timeout: Annotated[float, _in(JUDGING, "--timeout", help="Seconds of a kernel's own time, compiling included.")] = 120.0,
    require_kernel: Annotated[
        float | None, _in(JUDGING, "--require-kernel", metavar="SHARE", help="Reject where own kernels do less of the work.")
    ] = None,
    known: Annotated[
        list[Path] | None,
        _in(
            JUDGING,
            "--known",
            metavar="RUN",
            help="What this run judged, in the same way, is not judged again; may be given often.",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        _in(
            RECORD,
            "--verify",
            metavar="RECORD",
            help="Judge a random part of a record again: a leaderboard.json or its folder.",
        ),
    ] = None,
    share: Annotated[float, _in(RECORD, "--share", help="The part that is judged again.")] = 0.1,
    count: Annotated[int | None, _in(RECORD, "--count", help="So many kernels, in place of a share.")] = None,
    out: Annotated[
        Path | None, _in(OUTPUT, "--out", metavar="DIR", help="The run's folder; ./bottega-bench-N if left out.")
    ] = None,
    quiet: Annotated[bool, _in(OUTPUT, "--quiet", help="No progress on standard error.")] = False,
    as_json: Annotated[
        bool, _in(OUTPUT, "--json", help="Print the record, or what there is of it, on standard output.")
    ] = False,
) -> None:
    """Measure who writes how good kernels: every kernel of a task set judged, in KernelBench's terms and in stricter ones.

    A model over KernelBench's first two levels, four samples of three turns each, on every GPU of the machine:

        bottega bench KernelBench --levels 1,2 --backbone server:qwen3-32b@http://localhost:8000/v1 --samples 4 --turns 3 --device all --out run

    The same with the skills that come along, or with your own, for `bottega compare`; a kernel that both runs wrote is judged once:

        bottega bench KernelBench … --library starter --known run --out run-with-skills
        bottega compare run run-with-skills

    Kernels that another system wrote, in KernelBench's run folder or as TASK.py files, under the same rules:

        bottega bench KernelBench --candidates runs/their_run --name theirs --device cuda --out theirs

    Two kernels of your own, for two built-in tasks, on this CPU; the files are `mine/star_relu.py` and `mine/rms_norm_rows.py`:

        bottega bench builtin:star_relu builtin:rms_norm_rows --candidates mine --out run-mine

    Is a published record true? Judge a tenth of it again:

        bottega bench --verify theirs/leaderboard.json --device cuda

    **The same command goes on** where a run stopped, however it stopped: give the same --out. Nothing is judged or counted twice.
    What may change between sittings: --device (of one make), --workers, --at-once, --known, --money, --tokens.

    Tasks that cannot be judged fairly (constant outputs, launch-bound, …) keep their place and are told apart: totals with and without them.

    Exit code 0: all of it is done, or the record holds. 1: the record does not hold. 4: some tasks are not done, which their rows tell
    (a lost device, a spent budget, a silent model), run it again; or nothing of a record could be compared. 2: wrong usage, or nothing can be
    written. 130: interrupted; run it again.
    """
    given = _given(context_of_call)
    devices = devices_named(device)
    baselines = parse_baselines(baseline)
    if record is not None:
        if surplus := [name for name in given if name not in OF_CHECKING]:
            raise UsageError(
                f"--verify takes tasks, kernels and how they are judged from the record: leave out {', '.join(surplus)}"
            )
        raise typer.Exit(
            _verified(record, devices, share, count, seed, worker_count(workers, devices[0], len(devices)), quiet, as_json)
        )
    if not tasks:
        raise UsageError("no tasks: name a folder of tasks, a data set, or builtin")
    if (backbone is None) == (candidates is None):
        raise UsageError("give either --backbone, to have kernels written, or --candidates, to judge kernels that others wrote")
    if surplus := [name for name in given if name in OF_CHECKING_ALONE or (backbone is None and name in OF_WRITING)]:
        raise UsageError(
            f"{', '.join(surplus)}: says nothing {'with --candidates' if backbone is None else 'without --verify'}; leave it out"
        )
    for option, value in (("--at-once", at_once), ("--context", context)):
        if value is not None and value < 1:
            raise UsageError(f"{option} must be at least 1, not {value}")
    places = worker_count(workers, devices[0], len(devices))
    judging = Judging(kind_of(devices[0]), baselines, precision, mode, quick, timeout, require_kernel)
    writing = None
    if backbone is not None:
        writing = Writing(
            backbone=backbone,
            language=chosen_language(language, kind_of(devices[0])),
            samples=samples,
            strategy=cast(StrategyName, strategy),
            generations=turns,
            width=width,
            branch=branch,
            library=_library(library),
            selection=cast(Selection, selection),
            unproved=not proved_only,
            temperature=temperature_for(backbone, samples * turns, temperature),
            max_tokens=answer_tokens(backbone, max_tokens),
            context=context,
            style=prompt_style(backbone, style),
            redraws=redraw_count(prompt_style(backbone, style), redraws),
            prompts=str(prompts.resolve()) if prompts is not None else "",
            seed=seed or 0,
        )
    settings = BenchSettings(
        tuple(tasks), judging, writing, name, _levels(levels), only, limit, "" if candidates is None else str(candidates)
    )
    prices = chosen_prices(backbone, price_prompt, price_output, money) if backbone is not None else None
    caps = Caps(tokens=tokens, money=money)
    command = shlex.join(["bottega", *sys.argv[1:]])
    folder = out if out is not None else next_folder(Path())
    wish = Wish(settings, folder, devices, places, at_once, caps, command, tuple(known or ()))
    display = display_for(BenchProgress(baselines[0]), f"bench on {device}", quiet)

    def speaker(spent: Sequence[Attempt]) -> Speaker:
        return speaker_for(str(backbone), prices, context, caps, spent)

    finished = asyncio.run(_interruptible(sit(wish, speaker, display.say, display.hear), display))
    if finished is None:
        say(f"bottega: interrupted; the same command with --out {shlex.quote(str(wish.folder))} goes on", err=True)
        raise typer.Exit(INTERRUPTED)
    _tell(finished, as_json)
    raise typer.Exit(WHOLE if finished.whole else UNFINISHED)


async def _interruptible(work: Any, display: Quiet) -> Any:
    """The work's result, or None after a signal. What is under way is left; a second signal ends the process at once."""
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

    def ring() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ring)
    with display:
        try:
            return await task
        except asyncio.CancelledError:
            return None


def _tell(finished: Finished, as_json: bool) -> None:
    if not as_json:
        show(finished, summaries_of(finished.run))
        return
    from bottega.bench.leaderboard import record_of

    told = {"folder": str(finished.run.folder), "whole": finished.whole, "ended": finished.ended, **record_of(finished.run)}
    sys.stdout.write(json_line(strict(told)) + "\n")


def _verified(
    record: Path,
    devices: tuple[str, ...],
    share: float,
    count: int | None,
    seed: int | None,
    workers: int,
    quiet: bool,
    as_json: bool,
) -> int:
    def watch(one: Any) -> None:
        if not quiet:
            say(checked_line(one), err=True)

    work = verify(record, devices, share=share, count=count, seed=seed, workers=workers, watch=watch)
    found = asyncio.run(_interruptible(work, Quiet()))
    if found is None:
        say("bottega: interrupted; nothing was concluded", err=True)
        return INTERRUPTED
    if as_json:
        sys.stdout.write(json_line(strict(found.to_json())) + "\n")
    else:
        show_verification(found)
    return REFUTED if found.refuted else UNFINISHED if found.conclusion == "nothing could be compared" else WHOLE


def speaker_for(
    backbone: str, prices: tuple[float, float] | None, context: int | None, caps: Caps, spent: Sequence[Attempt]
) -> Speaker:
    """What earlier sittings spent counts against the caps."""
    from bottega.backbone.choose import open_backbone

    if not backbone.startswith("server:"):
        speaker = open_backbone(backbone)
        speaker.context = min(speaker.context, context or speaker.context)
        return speaker
    from bottega.backbone.chat import Usage
    from bottega.backbone.ledger import Ledger, Spent
    from bottega.backbone.pricing import Prices

    usage = Usage(
        sum(attempt.prompt_tokens for attempt in spent),
        sum(attempt.output_tokens for attempt in spent),
        sum(attempt.money for attempt in spent),
    )
    ledger = Ledger(
        Prices(*(prices or (0.0, 0.0))),
        token_cap=caps.tokens,
        money_cap=caps.money,
        spent=Spent(usage, sum(1 + attempt.redrawn for attempt in spent)),
    )
    options: dict[str, Any] = {} if context is None else {"context": context}
    return open_backbone(backbone, ledger=ledger, concurrency=64, **options)


def _library(word: str) -> str:
    if word in ("none", ""):
        return ""
    return word if word == STARTER else str(Path(word).resolve())


def _levels(words: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(word) for word in words.split(",") if word.strip()}))
    except ValueError:
        raise UsageError(f"--levels {words!r}: give numbers with commas, such as 1,2") from None
