"""The command line: thin. It reads files, asks the judge, prints, and maps outcomes to exit codes."""

from __future__ import annotations

import sys
from errno import EACCES, EDQUOT, EFBIG, EISDIR, ENAMETOOLONG, ENOSPC, ENOTDIR, EPERM, EROFS
from functools import partial
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from bottega import __version__
from bottega.app.terminal import print_json, say, write_source
from bottega.core.errors import BottegaError, UsageError

LAZY = {
    "judge": ("judge_command", "Judge a candidate: is it right, is it faster, is it honest?"),
    "demo": ("judge_command:demo_app", "Judge a shipped pair, an honest kernel and a cheat."),
    "optimize": ("optimize_command", "Make a PyTorch module faster."),
    "check": ("check_command", "Judge a finished result again, from its files alone."),
    "capture": ("capture_command", "Run a program and record which modules it calls."),
    "bench": ("bench_command", "Measure a model, or a set of kernels, over a set of tasks."),
    "compare": ("compare_command", "Compare benchmark runs, task by task."),
    "report": ("report_command", "Draw a run of training, a benchmark or a lineage as one page."),
    "dashboard": ("dashboard_command", "Watch runs in a browser while they grow."),
    "tasks": ("tasks_command", "Where tasks come from, and whether they can be judged fairly."),
    "data": ("data_command", "Training data from judged kernels."),
    "sft": ("training_command:sft_app", "Train a model on conversations (supervised fine-tuning)."),
    "train": ("training_command:train_app", "Train a model by reinforcement learning with the judge."),
    "model": ("model_command", "Trained models as small files."),
    "skills": ("skills_command", "The library of skill cards."),
    "lineage": ("lineage_command", "Make skill cards of the steps of an expert kernel."),
    "serve": ("serve_command", "Serve the judge over HTTP."),
    "mcp": ("mcp_command", "Give the judge to a coding agent."),
    "settings": ("settings_command", "Print all settings of a command."),
}
"""Module in `bottega.app`, and the line of `bottega --help`: that list imports none of them, which would take seconds."""
LISTING = "bottega.listing"


def with_whole_help(command: Any) -> Any:
    """typer takes the indentation of some examples away, whose lines then run into each other: where help is shown they are fenced."""
    for each in (command, *getattr(command, "commands", {}).values()):
        each.format_help = partial(_format_help, each, each.format_help)
    return command


def _format_help(command: Any, format_help: Any, ctx: Any, formatter: Any) -> None:
    written = command.help
    paragraphs = cleandoc(written or "").split("\n\n")
    command.help = "\n\n".join(
        f"```\n{dedent(each)}\n```" if each.startswith(("    ", "bottega ")) else each for each in paragraphs
    )
    try:
        format_help(ctx, formatter)
    finally:
        command.help = written


class LazyCommands(TyperGroup):
    """These commands, each imported when it is called, and those that the application registers."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*LAZY, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in LAZY:
            return with_whole_help(super().get_command(ctx, cmd_name))
        module, summary = LAZY[cmd_name]
        if ctx is not None and LISTING in ctx.meta:
            return TyperCommand(cmd_name, help=summary)
        module, _, name = module.partition(":")
        command = typer.main.get_command(getattr(import_module(f"bottega.app.{module}"), name or "app"))
        command.name = cmd_name
        return with_whole_help(command)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        ctx.meta[LISTING] = True
        super().format_help(ctx, formatter)


app = typer.Typer(
    name="bottega",
    cls=LazyCommands,
    help="Judge, search and learn GPU and CPU kernels: is a kernel right, is it faster, is it honest?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.command("export")
def export_command(
    candidate: Annotated[Path, typer.Argument(help="A candidate file, or the folder of a finished `bottega optimize`.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it; standard output if left out.")
    ] = None,
    kernel_hub: Annotated[
        Path | None,
        typer.Option(help="Write a folder in the layout of the Hugging Face Kernel Hub, of a finished `bottega optimize`."),
    ] = None,
    repo: Annotated[str, typer.Option(help="The name that it will have on the hub: OWNER/NAME.")] = "",
) -> None:
    """Turn a finished kernel into one file that needs no Bottega, or into a repository for the Hugging Face Kernel Hub.

        bottega export kernel.py -o alone.py
        bottega export bottega-model-1 --kernel-hub my-kernel

    The second folder has the verdict on its card, loads with the `kernels` package as it is, and builds with kernel-builder.
    """
    from bottega.runtime.export import export_source

    if kernel_hub is not None:
        from bottega.episodes.delivery.kernel_hub import write_kernel_hub

        say(f"wrote {write_kernel_hub(candidate, kernel_hub, repo)}")
        return
    if candidate.is_dir():  # of a finished search
        folder, candidate = candidate, candidate / "optimized.py"
        if not candidate.is_file():
            raise UsageError(f"{folder}: has no optimized.py: the search has not ended, or found nothing that is surely faster")
    if not candidate.is_file():
        raise UsageError(f"{candidate}: no such file")
    try:
        text = export_source(candidate.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise UsageError(f"{candidate}: {error}") from None
    if output is None:
        write_source(text)
    else:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{output}: cannot be written: {error.strerror}") from None
        say(f"wrote {output}")


@app.command("version")
def version_command() -> None:
    """Print the version of Bottega and of its judge."""
    from bottega.judge.fingerprint import JUDGE_VERSION

    say(f"bottega {__version__}, judge {JUDGE_VERSION}")


def _print_version(asked: bool) -> None:
    if asked:
        version_command()
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="As the command version.")
    ] = False,
) -> None: ...


_OF_THE_DISK = {ENOSPC, EDQUOT, EFBIG, EROFS, EACCES, EPERM, ENOTDIR, EISDIR, ENAMETOOLONG}
"""Errors that say nothing of Bottega; most are told by whoever met them, in better words."""


def _end(reason: str) -> NoReturn:
    say(f"bottega: {reason}", err=True)
    if {"--json", "json=true"} & set(sys.argv):  # whoever reads JSON reads the reason as JSON too
        print_json({"error": reason})
    raise SystemExit(2) from None


def main() -> None:
    try:
        app()
    except BottegaError as error:
        _end(str(error))
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        _end(f"{error.filename or 'a file'}: {error.strerror}; make room or name another place, and run it again")
    except KeyboardInterrupt:
        say("bottega: interrupted", err=True)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
