"""All that is printed for people goes through here: text from outside is never taken for markup, and moves no cursor.

Names of tasks, parameters, kernels and cards, notes and diagnoses come from strangers. So markup is off, and what is to have a colour is a
`rich.text.Text`. Control characters are replaced in what is rendered, wherever it came from.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from bottega.core.files import strict
from bottega.core.foreign_text import printable


class Terminal(Console):
    """A console on which a string is what it says. Titles of panels and spinners read markup all the same: give them a `Text`."""

    def __init__(self, stderr: bool = False, **options: Any) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """A line on standard output, or on standard error."""
    typer.echo(printable(text), err=err, nl=nl)


def command_line() -> str:
    """What was typed; nothing where `bottega` is called from another program, whose arguments are no business of a report."""
    program = Path(sys.argv[0])
    own = program.name == "bottega" or program.parts[-2:] == ("bottega", "__main__.py")
    return shlex.join(["bottega", *sys.argv[1:]]) if own else ""


def write_source(text: str) -> None:
    """A file's text as it is where a program reads, and without control characters where a person does."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def print_json(value: Any) -> None:
    """One line of JSON on standard output, without NaN and infinities."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    sys.stdout.write(json_line(strict(value), ascii_only=plain) + "\n")


def json_line(value: Any, ascii_only: bool = False) -> str:
    """One line of JSON, in which what cannot be printed is escaped."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
