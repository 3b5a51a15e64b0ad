"""`bottega capture`: runs the user's program and records which modules it calls, as tasks that `bottega optimize` takes."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from errno import EACCES
from pathlib import Path
from typing import Annotated

import typer

from bottega.app.terminal import say
from bottega.core.errors import UsageError

SITE = Path(__file__).parent / "capture_site"

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@app.command("capture", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def capture_command(
    program: Annotated[list[str], typer.Argument(metavar="-- PROGRAM…", help="The program and its arguments, as you run it.")],
    out: Annotated[Path, typer.Option(help="The capture's folder. A second capture into it adds to it.")] = Path(
        "bottega-capture"
    ),
) -> None:
    """Run a program and record which modules it calls, with which shapes, data types and strides, and how long they take.

        bottega capture -- python serve.py
        bottega optimize bottega-capture

    Results of the program do not change. Each kind of call is written as a task with its real shapes; weights are drawn anew and inputs are random,
    masks and positions are kept. What was captured is on disk within a second, also if the program is killed. From Python:

        with bottega.capture() as calls:
            model(x)
        print(calls.report)

    Code inside of torch.compile is not seen, nor are programs that run Python with -I or -S. The exit code is the program's.
    """
    words = program[1:] if program[:1] == ["--"] else program
    if not words:
        raise UsageError("name the program to run: bottega capture -- python serve.py")
    try:  # told now, and not when the program has run for nothing
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    except OSError as error:
        raise UsageError(f"{out}: nothing can be captured there: {error.strerror}") from None
    package = Path(__file__).parents[2]
    paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")]), str(package)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "BOTTEGA_CAPTURE": str(out.resolve())}
    asked: list[int] = []
    running: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _: object) -> None:
        """Or the program would go on alone, also where it has only just begun."""
        asked.append(number)
        if running is not None:
            running.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    try:
        running = subprocess.Popen([sys.executable if words[0] == "python" else words[0], *words[1:]], env=environment)
    except OSError as error:
        _remove_if_empty(out)
        raise UsageError(f"{words[0]}: cannot be run: {error.strerror}") from None
    for number in asked:
        running.send_signal(number)
    while True:
        try:
            code = running.wait()
            break
        except KeyboardInterrupt:  # the program has had it too, and ends as it likes
            continue
    from bottega.tasks.capture_calls import read_capture, report

    with contextlib.suppress(UsageError):
        calls = read_capture(out)
        say(
            f"{report(calls)}\n{len(calls)} kinds of calls in {out}; go on with: bottega optimize {shlex.quote(str(out))}",
            err=True,
        )
        raise typer.Exit(code if code >= 0 else 128 - code)
    _remove_if_empty(out)
    say(f"bottega: no module was called in {words[0]}, or torch was not imported", err=True)
    raise typer.Exit(code or 1 if code >= 0 else 128 - code)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
