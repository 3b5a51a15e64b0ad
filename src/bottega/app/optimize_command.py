"""`bottega optimize`: settings in, exit code out. The work is done in `bottega.episodes.optimize`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bottega.app.configured import Given, configured
from bottega.app.interrupts import INTERRUPTED
from bottega.app.settings.optimize import OptimizeSettings
from bottega.app.terminal import Terminal, json_line, say
from bottega.core.errors import UsageError
from bottega.core.verdict import BEST, interval_text
from bottega.episodes.delivery.result import Interval
from bottega.episodes.request import next_folder
from bottega.tasks.module import Wanted, open_module

if TYPE_CHECKING:
    from bottega.episodes.optimize import OptimizeFinished

FOUND, NONE_FOUND = 0, 3

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@configured(
    app,
    OptimizeSettings,
    "MODULE",
    "A Python file with an nn.Module, a task such as builtin:star_relu, a folder of `bottega capture`, or hf:MODEL.",
)
def optimize_command(given: Given[OptimizeSettings]) -> None:
    """Make a PyTorch module faster: write kernels, judge every one, hand over the best as a module in place of the original.

    A file in KernelBench's format, with a server that speaks OpenAI's protocol, and a limit of ten minutes:

        bottega optimize attention.py --backbone server:qwen3-32b@http://localhost:8000/v1 minutes=10

    Any file with an nn.Module: say how it is built and called.

        bottega optimize model.py --class Block --init "dim=512" --inputs "torch.randn(8, 512)" --device cuda dtype=bfloat16

    A function of a file, the modules that a program calls, a whole model of transformers (random weights, or those of a local folder):

        bottega optimize losses.py function=focal_loss --inputs "torch.randn(8, 512), torch.rand(8, 512)"
        bottega optimize bottega-capture minutes=30
        bottega optimize hf:./my-llama --device cuda baseline=compile
        bottega optimize hf:./my-llama method=generate --inputs "input_ids=torch.randint(0, 32000, (1, 512)), max_new_tokens=64"

    On a GPU that this machine does not have, by a `bottega serve` that does: the search runs here, kernels are judged there.

        bottega optimize model.py --class Block --inputs "torch.randn(8, 512)" server=https://judge.example.org --device cuda

    Of a whole model (also a file's, with `whole=true`) the modules are searched that are worth it, once for each class and shape. Those that help
    are put in. The report has the end-to-end time of the model as it is and inside of torch.compile, against eager and the named baselines, and
    what each module contributed. Baselines begin to compile with the search (on a GPU), and have `compile_minutes` after it.

    Drafts come first: the rule-based compiler traces the module and writes kernels without a model and without tokens. They are checked like
    every kernel, timed as code that is trusted, count as kernels of the run, and the fastest proved one is handed over, whoever wrote it; display and
    reports say who. What the compiler does not understand it refuses, in a line. `drafts=0` leaves all of it to the model, `--backbone none` all
    of it to the compiler.

    An answer that is certain to fail (it is no Python, or reads a name that nothing defines) is not judged but sampled again, at
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
    from bottega.app.optimize_run import search

    settings = given.settings
    if len(given.words) != 1:
        raise UsageError(
            f"name one module: a Python file or a task such as builtin:star_relu, not {len(given.words)} arguments"
        )
    settings.prices(settings.backbone)
    wanted = Wanted(settings.class_name, settings.inputs, settings.init, settings.function, settings.dtype)
    try:
        several = _several(given, wanted)
    except KeyboardInterrupt:
        say("bottega: interrupted; what was searched is in modules/ of the run's folder, and --resume goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if several is not None:
        raise typer.Exit(several)
    subject = open_module(given.words[0], wanted, size="cpu" if settings.device == "cpu" else "gpu")
    folder = settings.out if settings.out is not None else next_folder(subject.task.name, Path(), settings.resume)
    try:
        finished = search(subject, folder, settings)
    except KeyboardInterrupt:
        where = f"; go on with --out {shlex.quote(str(folder))} --resume" if folder.exists() else ""
        say(f"bottega: interrupted before there was anything to report{where}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if settings.as_json:
        told = {"folder": str(finished.folder), "interrupted": finished.interrupted, **json.loads(finished.result.text())}
        sys.stdout.write(json_line(told) + "\n")
    else:
        show_finished(finished)
    raise typer.Exit(FOUND if finished.result.outcome == "faster" else NONE_FOUND)


def _several(given: Given[OptimizeSettings], wanted: Wanted) -> int | None:
    """The exit code where the word names a capture or a whole model, whose modules are searched one after the other."""
    from bottega.app.open_model import HUGGING_FACE, open_model
    from bottega.app.optimize_capture import FILE, optimize_capture
    from bottega.app.optimize_model import optimize_model
    from bottega.app.optimize_run import settings_for

    word, settings = given.words[0], given.settings
    captured = any(Path(word).glob("calls-*.jsonl")) if Path(word).is_dir() else False
    if not (captured or settings.whole or settings.method or word.startswith(HUGGING_FACE)):
        return None
    if "backbone" not in given.keys:
        settings = settings_for(settings.device, settings.model_dump(by_alias=True, exclude_unset=True))
    if captured:
        folder, searched = optimize_capture(Path(word), settings)
        found = [each for each in searched if each.result is not None and each.result.outcome == "faster"]
        any_found = bool(found)
        told: dict[str, Any] = {"folder": str(folder), "modules": [each.text for each in searched]}
        lines = [*(f"{each.text}: {each.folder / 'optimized.py'}" for each in found)] or ["No module was made surely faster."]
        if (folder / FILE).exists():
            lines.append(f"{folder / FILE}: model = {Path(FILE).stem}.load(model) puts all of them into your model")
    elif settings.server is not None:
        raise UsageError("server: a whole model is measured on this machine; give one module of it, or leave server= out")
    else:
        model, inputs = open_model(word, wanted, settings.device, settings.method)
        done = optimize_model(model, inputs, settings.out, settings)
        any_found = done.found
        told = {"folder": str(done.folder), **json.loads((done.folder / "whole_model.json").read_text(encoding="utf-8"))}
        lines = [done.report, f"{done.folder / 'optimized_model.py'}: model = optimized_model.load(model)" if any_found else ""]
    if settings.as_json:
        sys.stdout.write(json_line(told) + "\n")
    else:
        for line in filter(None, lines):
            say(line)
    return FOUND if any_found else NONE_FOUND


def show_finished(finished: OptimizeFinished) -> None:
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
    return f"{claim.point:.2f}× the speed of {which} (99 % interval {interval_text(claim.low, claim.high)})"
