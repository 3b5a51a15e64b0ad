"""The command line: thin. It reads files, asks the judge, prints, and maps outcomes to exit codes."""

from __future__ import annotations

import sys
from errno import EACCES, EDQUOT, EFBIG, EISDIR, ENAMETOOLONG, ENOSPC, ENOTDIR, EPERM, EROFS
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from bottega import __version__
from bottega.app.judge_command import demo_command, judge_command
from bottega.app.terminal import print_json, say, write_source
from bottega.core.errors import BottegaError, UsageError
from bottega.runtime.export import export_source

GROUPS = {
    "optimize": "bottega.app.optimize_command",
    "capture": "bottega.app.capture_command",
    "check": "bottega.app.check_command",
    "skills": "bottega.app.skills_command",
    "lineage": "bottega.app.lineage_command",
    "tasks": "bottega.app.tasks_command",
    "data": "bottega.app.data_command",
    "sft": "bottega.app.training_command:sft_app",
    "train": "bottega.app.training_command:train_app",
    "model": "bottega.app.model_command",
    "bench": "bottega.app.bench_command",
    "compare": "bottega.app.compare_command",
    "report": "bottega.app.report_command",
    "dashboard": "bottega.app.dashboard_command",
    "serve": "bottega.app.serve_command",
    "mcp": "bottega.app.mcp_command",
    "settings": "bottega.app.settings_command",
}


class LazyCommands(TyperGroup):
    """The commands that the application registers, and these groups beside them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in GROUPS:
            module, _, name = GROUPS[cmd_name].partition(":")
            command = typer.main.get_command(getattr(import_module(module), name or "app"))
            command.name = cmd_name
            return command
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    name="bottega",
    cls=LazyCommands,
    help="Judge, search and learn GPU and CPU kernels: is a kernel right, is it faster, is it honest?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("judge")(judge_command)
app.command("demo")(demo_command)


@app.command("export")
def export_command(
    candidate: Annotated[Path, typer.Argument(help="A candidate file, or the folder of a finished `bottega optimize`.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write it; standard output if left out.")
    ] = None,
    kernel_hub: Annotated[
        Path | None, typer.Option(help="Write a folder in the layout of the Hugging Face Kernel Hub.")
    ] = None,
    repo: Annotated[str, typer.Option(help="The name that it will have on the hub: OWNER/NAME.")] = "",
) -> None:
    """Turn a finished kernel into one file that needs no Bottega, or into a repository for the Hugging Face Kernel Hub.

        bottega export kernel.py -o alone.py
        bottega export bottega-model-1 --kernel-hub my-kernel

    The second folder has the verdict on its card, loads with the `kernels` package as it is, and builds with kernel-builder.
    """
    if kernel_hub is not None:
        from bottega.episodes.delivery.kernel_hub import write_kernel_hub

        say(f"wrote {write_kernel_hub(candidate, kernel_hub, repo)}")
        return
    if candidate.is_dir():  # of a finished search
        candidate = candidate / "optimized.py"
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
