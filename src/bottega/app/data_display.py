"""How a cold start shows that it is alive: one line on standard error that is redrawn, or a line now and then where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from bottega.app.terminal import Terminal, say
from bottega.data.audit import Audit
from bottega.data.judge_stage import Progress

OFTEN_S = 0.2
SELDOM_S = 30.0
"""In the log of a batch system."""


@contextmanager
def watching(progress: Progress, *, quiet: bool = False) -> Iterator[None]:
    console = Terminal(stderr=True)
    columns = (
        TextColumn("tasks"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        line = bar.add_task("", total=None)
        told = 0.0 if console.is_terminal else time.monotonic()

        def tell() -> None:
            nonlocal told
            if quiet or time.monotonic() - told < (OFTEN_S if console.is_terminal else SELDOM_S):
                return
            told = time.monotonic()
            if console.is_terminal:
                bar.update(line, total=progress.tasks or None, completed=progress.tasks_done, description=words(progress))
            else:
                say(f"[{progress.tasks_done}/{progress.tasks} tasks] {words(progress)}", err=True)

        progress.changed = tell
        try:
            yield
        finally:
            progress.changed = lambda: None


def words(progress: Progress) -> str:
    parts = [f"{progress.judged} judged", f"{progress.outcomes['faster']} faster"]
    parts += [f"{progress.known} known"] if progress.known else []
    parts += [f"{progress.refused} refused"] if progress.refused else []
    parts += [f"{len(progress.troubles)} troubles"] if progress.troubles else []
    parts += [f"proof {progress.proofs + 1} of {progress.proofs_planned}"] if progress.proofs_planned else []
    parts += [f"{progress.audit['audited']} audited"] if progress.audit else []
    return ", ".join(parts)


def trusted_words(progress: Progress) -> list[str]:
    """What the trusted judge did with its time, and how the judge's audit ended; nothing where it was not used."""
    lines = []
    total = sum(progress.spent.values())
    if total:
        parts = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in progress.spent.most_common() if seconds > 0)
        lines.append(f"trusted judge, {total:.0f} s of its workers: {parts}")
    if progress.replaced:
        lines.append("workers replaced: " + ", ".join(f"{number} {what}" for what, number in progress.replaced.most_common()))
    if progress.audit:
        known = {name: value for name, value in progress.audit.items() if name != "bench"}
        lines.append(Audit(**known).words())
    return lines
