"""`bottega compare`: benchmark runs against a first one, task by task, with what makes them hard to compare said first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bottega.app.page_display import print_page
from bottega.app.terminal import print_json, say
from bottega.bench.bootstrap import RESAMPLES, SEED
from bottega.bench.compare import compare
from bottega.bench.compare_page import compare_page
from bottega.bench.metrics import baselines_of, summary
from bottega.bench.run_directory import read_run
from bottega.core.errors import UsageError
from bottega.episodes.delivery.page import markdown
from bottega.judge.baselines import BASELINES

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@app.command("compare")
def compare_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN…", help="Folders of benchmark runs; the first is the base.")],
    baseline: Annotated[
        str | None,
        typer.Option(help="What speedups are against: eager, compile, autotune or best; the first run's first if left out."),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="So many of the tasks that moved are listed.")] = 10,
    resamples: Annotated[int, typer.Option(min=100, max=100_000, help="Draws for each interval.")] = RESAMPLES,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = SEED,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output, with every task.")] = False,
    text: Annotated[bool, typer.Option("--markdown", help="Markdown on standard output.")] = False,
) -> None:
    """Compare benchmark runs, paired by task: what differs, how surely, and which tasks moved.

        bottega compare without-skills with-skills

    A win needs intervals that are apart. Runs of another judge, machine, baseline or budget are compared too, and it is said loudly.
    """
    if len(runs) < 2:
        raise UsageError("name at least two runs; the first is the one that the others are compared with")
    if baseline is not None and baseline not in BASELINES:
        raise UsageError(f"unknown baseline {baseline!r}; use one of {', '.join(BASELINES)}")
    if as_json and text:
        raise UsageError("--json and --markdown cannot both be written on standard output")
    read = [read_run(folder) for folder in runs]
    baseline = baseline or baselines_of(read[0])[0]
    found = [compare(read[0], other, baseline, resamples=resamples, seed=seed) for other in read[1:]]
    if as_json:
        print_json({"baseline": baseline, "base": str(runs[0]), "comparisons": [each.to_json() for each in found]})
        return
    summaries = [summary(run, baseline, resamples=resamples, seed=seed) for run in read]
    page = compare_page(short_names(runs), read, summaries, found, most)
    say(markdown(page), nl=False) if text else print_page(page)


def short_names(folders: list[Path]) -> list[str]:
    """The folders' own names, with as much of what stands before as tells them apart; numbered where nothing does."""
    parts = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(set(parts)):
            break
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        names[place] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return names
