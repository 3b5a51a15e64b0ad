"""`bottega report`: a run's events in, one HTML file and one Markdown file out. Each kind of run says itself what there is to tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bottega.app.report_training import training_page
from bottega.app.terminal import say
from bottega.bench.report import bench_page
from bottega.bench.run_directory import BENCH
from bottega.core.errors import UsageError
from bottega.core.files import write
from bottega.episodes.delivery.page import ReportPage, html, markdown
from bottega.lineage.journal import FILE as LINEAGE
from bottega.lineage.page import lineage_page
from bottega.train.run_directory import kind_of

KINDS: dict[str, Callable[[Path], ReportPage]] = {
    "rl": lambda folder: training_page(folder, "rl"),
    "sft": lambda folder: training_page(folder, "sft"),
    "bench": bench_page,
    "lineage": lineage_page,
}

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)


@app.command("report")
def report_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The HTML file; the Markdown file lies beside it. RUN/report.html if left out. A name in .md gives the Markdown alone.",
        ),
    ] = None,
    text: Annotated[bool, typer.Option("--markdown", help="Print the Markdown on standard output and write nothing.")] = False,
) -> None:
    """Draw a run of training, of a benchmark or of a lineage: every figure of it, with the plots of the dashboard, in one HTML file that needs
    nothing else, and as Markdown.

        bottega report run

    May be called while the run goes on. The HTML file can be read on a phone and printed; nothing in it is fetched and nothing runs.
    """
    kind = "bench" if (run / BENCH).exists() else "lineage" if (run / LINEAGE).exists() else kind_of(run)
    if kind == "optimize":
        raise UsageError(f"{run}: a search writes its own report, which is {run / 'report.html'}")
    if kind not in KINDS:
        raise UsageError(f"{run}: is a run of kind {kind!r}, which cannot be drawn; kinds are {', '.join(KINDS)}")
    page = KINDS[kind](run)
    if text:
        say(markdown(page), nl=False)
        return
    place = output or run / "report.html"
    if place.suffix == ".md":
        write(place, markdown(page))
        say(f"wrote {place}")
        return
    write(place, html(page))
    write(place.with_suffix(".md"), markdown(page))
    say(f"wrote {place} and {place.with_suffix('.md')}")
