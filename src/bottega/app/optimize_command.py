"""`bottega optimize`: options in, exit code out. The work is done in `bottega.episodes.optimise`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from bottega.app.asking import (
    answer_tokens,
    draft_count,
    drafting_seconds,
    likeliest_first,
    prompt_style,
    redraw_count,
    strategy_for,
    temperature_for,
)
from bottega.app.optimize_display import Display, display_for
from bottega.app.terminal import Terminal, json_line, say
from bottega.core.candidate import Language
from bottega.core.errors import UsageError
from bottega.core.verdict import BEST
from bottega.episodes.budget import Caps
from bottega.episodes.delivery.result import Interval
from bottega.episodes.request import Commission, next_folder, opened_run
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping
from bottega.judge.baselines import parse_baselines
from bottega.judge.machine import worker_count
from bottega.tasks.module import Wanted, open_module

FOUND, UNUSABLE, NONE_FOUND, INTERRUPTED = 0, 2, 3, 130
MODES = {"as-built": None, "train": True, "eval": False}

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)

WHAT, SEARCH, BUDGET, MODEL, OUTPUT = "What to optimize", "The search", "Budgets", "The model", "Output"


def _in(panel: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **options)


@app.command("optimize")
def optimize_command(
    module: Annotated[str, typer.Argument(help="A Python file with an nn.Module, or a task such as builtin:star_relu.")],
    class_name: Annotated[
        str | None, _in(WHAT, "--class", metavar="NAME", help="Which class; not needed where there is only one.")
    ] = None,
    inputs: Annotated[
        str | None,
        _in(WHAT, "--inputs", metavar="EXPR", help="Example inputs: a function of the file, or an expression with torch."),
    ] = None,
    init: Annotated[str | None, _in(WHAT, "--init", metavar="EXPR", help="Constructor arguments, in the same way.")] = None,
    device: Annotated[str, _in(WHAT, "--device", help="cpu, cuda or cuda:N.")] = "cpu",
    language: Annotated[str | None, _in(WHAT, "--language", help="cpp, triton or cuda; cpp on a CPU, triton on a GPU.")] = None,
    baseline: Annotated[
        str,
        _in(
            WHAT,
            "--baseline",
            help="eager, compile, autotune, best (the fastest of them), or several by comma. The first is to be beaten.",
        ),
    ] = "eager",
    precision: Annotated[
        str, _in(WHAT, "--precision", help="fp32 (strict), or what kernel and baseline may use: tf32, bf16, fp16.")
    ] = "fp32",
    mode: Annotated[str, _in(WHAT, "--mode", help="Judge the module in train or eval mode, or as-built.")] = "as-built",
    strategy: Annotated[
        str | None,
        _in(SEARCH, "--strategy", help="serial, parallel, beam or evolve; parallel with the embedded model, else serial."),
    ] = None,
    turns: Annotated[int, _in(SEARCH, "--turns", help="Kernels in a line, each seeing the ones before it; generations.")] = 4,
    samples: Annotated[int, _in(SEARCH, "--samples", help="Lines for each selection of skills; width of a beam; islands.")] = 2,
    schemes: Annotated[int, _in(SEARCH, "--schemes", help="Selections of skills, beside writing without any.")] = 1,
    drafts: Annotated[
        int | None,
        _in(
            SEARCH, "--drafts", help="Kernels that the builder writes by rule before the model does, judged alike; 2, 0: none."
        ),
    ] = None,
    redraws: Annotated[
        int | None,
        _in(
            SEARCH,
            "--redraws",
            metavar="N",
            help="Ask again, so often at most, where an answer is seen to be broken before it is judged; 3 if terse, else 0.",
        ),
    ] = None,
    target: Annotated[
        float | None, _in(SEARCH, "--target", metavar="FACTOR", help="Stop once it is surely this much faster.")
    ] = None,
    patience: Annotated[
        int | None, _in(SEARCH, "--patience", metavar="KERNELS", help="Stop after this many without progress.")
    ] = None,
    seed: Annotated[int, _in(SEARCH, "--seed", help="Another seed is another search.")] = 0,
    workers: Annotated[
        str,
        _in(SEARCH, "--workers", metavar="N", help="Kernels that are built and tried side by side; auto: what cores carry."),
    ] = "auto",
    kernels: Annotated[int | None, _in(BUDGET, "--kernels", help="At most this many kernels.")] = None,
    tokens: Annotated[int | None, _in(BUDGET, "--tokens", help="At most this many tokens, prompts and answers.")] = None,
    money: Annotated[float | None, _in(BUDGET, "--money", help="At most this much, in the currency of the prices.")] = None,
    minutes: Annotated[float | None, _in(BUDGET, "--minutes", help="Search for at most this long.")] = None,
    price_prompt: Annotated[
        float | None, _in(BUDGET, "--price-prompt", help="Price of a million prompt tokens of the server.")
    ] = None,
    price_output: Annotated[float | None, _in(BUDGET, "--price-output", help="Price of a million output tokens.")] = None,
    backbone: Annotated[
        str,
        _in(MODEL, "--backbone", metavar="SPEC", help="embedded, local:PATH, vllm:PATH, server:MODEL@URL or scripted:FILE."),
    ] = "embedded",
    temperature: Annotated[
        float | None,
        _in(MODEL, "--temperature", help="0 takes the likeliest answer; 1, or what suits the embedded model."),
    ] = None,
    max_tokens: Annotated[int | None, _in(MODEL, "--max-tokens", help="Of one answer; 3072, and 8192 from a server.")] = None,
    context: Annotated[
        int | None, _in(MODEL, "--context", help="Tokens that the model takes, prompt and answer together.")
    ] = None,
    library: Annotated[Path | None, _in(MODEL, "--library", metavar="PATH", help="A skill library; yours if left out.")] = None,
    no_skills: Annotated[bool, _in(MODEL, "--no-skills", help="Write without skills, and propose none.")] = False,
    proved_only: Annotated[
        bool, _in(MODEL, "--proved-only", help="Offer admitted skills only, not proposed ones; a new library has only those.")
    ] = False,
    summaries: Annotated[int, _in(MODEL, "--summaries", help="Proposals of skills to ask for after a clear gain.")] = 1,
    prompts: Annotated[
        Path | None, _in(MODEL, "--prompts", metavar="DIR", help="Prompt files that overrule the shipped ones.")
    ] = None,
    style: Annotated[
        str | None, _in(MODEL, "--style", help="terse for models trained on it, compact for small ones, full for large ones.")
    ] = None,
    out: Annotated[
        Path | None, _in(OUTPUT, "--out", metavar="DIR", help="The run's folder; ./bottega-MODULE-N if left out.")
    ] = None,
    resume: Annotated[
        bool, _in(OUTPUT, "--resume", help="Go on with the run in --out, or with the last one of this module.")
    ] = False,
    quiet: Annotated[bool, _in(OUTPUT, "--quiet", help="No progress on standard error.")] = False,
    as_json: Annotated[bool, _in(OUTPUT, "--json", help="Print result.json on standard output.")] = False,
) -> None:
    """Make a PyTorch module faster: write kernels, judge every one, hand over the best as a module in place of the original.

    A file in KernelBench's format, with a server that speaks OpenAI's protocol, and a limit of ten minutes:

        bottega optimize attention.py --backbone server:qwen3-32b@http://localhost:8000/v1 --minutes 10

    Any file with an nn.Module: say how it is built and called.

        bottega optimize model.py --class Block --init "dim=512" --inputs "torch.randn(8, 512)" --device cuda

    What comes first are drafts: the builder (`docs/teachers.md`) traces the module and writes kernels by rule, without a model and without tokens.
    They are judged like every kernel, count as kernels of the run, and the fastest proved one is handed over, whoever wrote it; display and reports
    say who. What the builder does not understand it refuses, in a line. `--drafts 0` leaves all of it to the model.

    An answer that is certain to fail (it reads a name that nothing defines, a launch leaves out an argument) is not judged but asked for again, at
    most `--redraws` times; all draws count as tokens of the run, and if none is better the first one is judged.

    Go on after Ctrl-C, a crash, or a spent budget, with more to spend:

        bottega optimize model.py … --out bottega-model-1 --resume --minutes 60

    The folder then holds `optimized.py` (`load(original)` gives the faster module; it needs torch, not Bottega), `report.html`, `report.md`,
    `verdict.json`, `original.py`, `result.json` and the log of all events. `bottega check DIR` judges it again.

    Ctrl-C ends the search with the best so far; twice, everything.

    What is handed over surely beats the first baseline that was named, the module as it is (`eager`) if none was. Where nothing beats that
    and a kernel surely beats eager, it is kept as `faster_than_eager.py`.

    Exit code 0: a kernel that surely beats the first baseline was found. 3: none was found, and the report says what was tried. 2: wrong usage,
    an unusable module, or neither a draft nor an answer from the model. 130: interrupted before there was anything to report.
    """
    baselines = parse_baselines(baseline)
    if mode not in MODES:
        raise UsageError(f"unknown mode {mode!r}; use {', '.join(MODES)}")
    subject = open_module(module, Wanted(class_name, inputs, init), size="cpu" if device == "cpu" else "gpu")
    commission = Commission(
        subject=subject,
        settings=EpisodeSettings(
            device=device,
            language=chosen_language(language, device),
            baselines=baselines,
            precision=precision,
            strategy=strategy_for(backbone, strategy),
            turns=turns,
            samples=samples,
            schemes=0 if no_skills else schemes,
            select="none" if no_skills else "selector",
            unproved=not proved_only,
            temperature=temperature_for(backbone, samples * turns, temperature),
            likeliest_first=likeliest_first(backbone, temperature),
            max_tokens=answer_tokens(backbone, max_tokens),
            style=prompt_style(backbone, style),
            drafts=draft_count(backbone, kernels, drafts),
            redraws=redraw_count(prompt_style(backbone, style), redraws),
            summaries=0 if no_skills else summaries,
            seed=seed,
            stopping=Stopping(target=target, patience=patience),
        ),
        backbone=backbone,
        caps=Caps(kernels, tokens, money, None if minutes is None else minutes * 60),
        training=MODES[mode],
        prompts=prompts,
        library="" if no_skills else str(library_folder(library)),
        workers=worker_count(workers, device),
        command=shlex.join(["bottega", *sys.argv[1:]]),
    )
    prices = chosen_prices(backbone, price_prompt, price_output, money)
    folder = out if out is not None else next_folder(subject.task.name, Path(), resume)
    display = display_for(commission.caps, commission.settings.baseline, f"optimizing {subject.title}", quiet)
    code = asyncio.run(_run(commission, folder, resume, library, prices, context, display, as_json))
    raise typer.Exit(code)


async def _run(
    commission: Commission,
    folder: Path,
    resume: bool,
    library: Path | None,
    prices: tuple[float, float] | None,
    context: int | None,
    display: Display,
    as_json: bool,
) -> int:
    from bottega.app.optimize_backbone import speaker_for
    from bottega.data.drafts import CompilerDrafts
    from bottega.episodes.optimise import Stop, optimise
    from bottega.skills.home import open_library

    # In Triton always: the shelf's parts, which measure best, are that style's.
    plain = commission.settings.style == "terse" or commission.settings.language == "triton"
    stop, loop = Stop(), asyncio.get_running_loop()

    def ring() -> None:
        stop.ring()
        if stop.rings > 1:  # a third one ends the process at once
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        display.say(
            "stopping with the best so far, which is judged again; once more to stop at once" if stop.rings == 1 else "stopping"
        )

    with contextlib.ExitStack() as stack:
        cards = stack.enter_context(open_library(library)) if commission.library else None
        journal = stack.enter_context(opened_run(folder, commission, resume))
        stack.enter_context(display)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ring)
        display.say(f"run in {folder}")
        finished = await optimise(
            commission,
            journal,
            lambda: speaker_for(commission, prices, context, journal.events),
            cards,
            stop,
            display.hear,
            CompilerDrafts(plain, drafting_seconds(commission.caps.seconds)),
        )
        kept = bool(journal.events)
    if finished is None:
        where = f"; go on with --out {shlex.quote(str(folder))} --resume" if kept else ""
        say(f"bottega: interrupted before there was anything to report{where}", err=True)
        return INTERRUPTED
    if as_json:
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


def chosen_language(language: str | None, device: str) -> Language:
    if language is None:
        return "cpp" if device == "cpu" else "triton"
    if language not in ("cpp", "triton", "cuda"):
        raise UsageError(f"unknown language {language!r}; use cpp, triton or cuda")
    if device == "cpu" and language != "cpp":
        raise UsageError(f"{language} kernels cannot be timed on a CPU; use --language cpp, or --device cuda")
    return cast(Language, language)


def chosen_prices(backbone: str, prompt: float | None, output: float | None, money: float | None) -> tuple[float, float] | None:
    if prompt is None and output is None:
        if money is not None:
            raise UsageError("--money needs the server's prices: give --price-prompt and --price-output")
        return None
    if not backbone.startswith("server:"):
        raise UsageError(f"prices are for servers; {backbone} costs nothing")
    return prompt or 0.0, output or 0.0


def library_folder(given: Path | None) -> Path:
    from bottega.skills.home import default_folder

    return (given or default_folder()).resolve()
