"""`bottega check`: a finished result judged again from its files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from bottega.app.device_host import device_host
from bottega.app.judge_command import Server, show
from bottega.app.terminal import Terminal, print_json, say
from bottega.core.errors import UsageError
from bottega.core.foreign_text import printable
from bottega.core.verdict import Outcome
from bottega.episodes.delivery.check import compared, open_result

HOLDS, DOES_NOT, UNUSABLE, NOT_TOLD = 0, 1, 2, 3
WORDS = {True: "HOLDS", False: "DOES NOT HOLD", None: "COULD NOT BE TOLD"}
CODES = {True: HOLDS, False: DOES_NOT, None: NOT_TOLD}

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@app.command("check")
def check_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a finished `bottega optimize`.")],
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N; the one of the claim if left out.")] = None,
    own_code: Annotated[
        bool, typer.Option("--own-code", help="You trust the kernel: widen no interval for what hostile code could hide.")
    ] = False,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Judge a finished result again, from its files alone: does the claim hold?

        bottega check bottega-model-1
        bottega check bottega-model-1 --server https://judge.example.org

    Nothing of the search is believed: `optimized.py` is judged against `original.py` as if it came from a stranger, in full. Files that were
    changed since the claim are named. A kernel of the compiler's was measured as `--own-code` has it, with narrower intervals.

    Exit code 0 when the claim holds: the same files, right, honest, faster, and on the same machine about as much as was claimed.
    1 when it does not. 2 when there is nothing to check, or the module cannot be run here. 3 when it could not be told: the machine is busy.
    """
    if server is not None and own_code:
        raise UsageError("--own-code: a server trusts nobody's code; leave it out with --server")
    opened = open_result(folder)
    result, device = opened.result, device or opened.result.device
    options: dict[str, Any] = {"baselines": tuple(result.baselines), "precision": result.precision, "training": result.training}
    with device_host(server) as host, host.judge(host.chosen(device)[0], **options) as judge:
        console = Terminal(stderr=True)
        with console.status(Text(printable(f"judging {folder} on {device} …"))) if console.is_terminal else console.capture():
            verdict = judge.judge(opened.subject.task, opened.candidate, own_code=own_code)
    finding = compared(opened, verdict, device)
    if as_json:
        told = {
            "holds": finding.holds,
            "words": finding.words,
            "changed": list(opened.changed),
            "claim": result.model_dump()["claim"],
            "verdict": verdict.to_json(),
        }
        print_json(told)
    else:
        show(verdict, str(folder))
        for line in opened.changed:
            say(f"tampered: {line} since the claim was made")
        say(f"{WORDS[finding.holds]}: {finding.words}")
    if verdict.outcome is Outcome.INVALID_TASK:
        raise typer.Exit(UNUSABLE)
    raise typer.Exit(CODES[finding.holds])
