"""`bottega data join`: several data folders as one to train on."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from bottega.app.terminal import say
from bottega.core.errors import UsageError
from bottega.data.example import KINDS
from bottega.data.join import joined, write_joined
from bottega.tasks.load import load_tasks

ROLES = ("select", "write", "summarise")


def join_command(
    folders: Annotated[list[Path], typer.Argument(help="Folders that `bottega data build` made, all in one style.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASKS",
            help="Leave out what has the calls of one of these tasks, as its call graph tells them; may be repeated.",
        ),
    ] = None,
    times: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT=N", help="Rows of a role or kind so often, such as select=4; may be repeated."),
    ] = None,
) -> None:
    """Join data folders: every row once, and nothing to train on that one of them holds out.

    Tasks of several kinds, languages or machines are taught in folders of their own, and a model is trained on all of them:

        bottega data join chains single cpp --without benchmarks/third_modules --without builtin --times select=4 --out data
        bottega sft --data data --out run --preset one-gpu
    """
    if out.resolve() in [folder.resolve() for folder in folders]:
        raise UsageError(f"{out}: is one of the folders; give another --out")
    away = load_tasks(without or [])  # built-in ones at their small size: the calls are those of the large
    for problem in away.problems:
        say(f"bottega: not kept away from: {problem.message}", err=True)
    whole = joined(folders, away.tasks, dict(map(_counted, times or [])))
    card = write_joined(whole, folders, out, shlex.join(["bottega", *sys.argv[1:]]))
    told = f"{len(folders)} folder{'s' * (len(folders) != 1)}"
    say(f"{card['examples']} examples of {told}: {card['splits']}, {card['tokens']['total']} tokens")
    for reason, number in card["left_out"].items():
        say(f"left out: {number} {reason}")
    say(f"wrote {out}")


def _counted(text: str) -> tuple[str, int]:
    what, _, number = text.partition("=")
    if what not in (*ROLES, *KINDS) or not number.isdigit() or not 1 <= int(number) <= 100:
        raise UsageError(
            f"--times {text}: say a role ({', '.join(ROLES)}) or a kind of example, and a number from 1 to 100: select=4"
        )
    return what, int(number)
