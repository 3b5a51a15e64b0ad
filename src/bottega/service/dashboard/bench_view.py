"""A benchmark run: shares with intervals, fast_p curves, and tasks × attempts with filters; each attempt opens with its kernel and verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from bottega.bench.bootstrap import Estimate
from bottega.bench.figures import share
from bottega.bench.plots import CURVE, draws_of, fast_plot, fast_shares, speed_plot
from bottega.bench.result_arrays import ENDINGS, ResultArrays
from bottega.bench.scaling import THRESHOLDS
from bottega.service.dashboard.bench_rows import AttemptRow, BenchTable, TaskRow, surely
from bottega.service.dashboard.html import (
    KINDS,
    Html,
    badge,
    charts,
    choice,
    el,
    facts,
    folded,
    joined,
    link,
    moment,
    seconds,
    section,
    speed,
    table,
)
from bottega.service.dashboard.line_index import IndexedLine
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links, pages, tree, warned
from bottega.service.dashboard.reading import text_at

TASKS_A_PAGE = 50
CELLS_A_TASK = 64


def bench_overview(run: OpenRun, asked: Asked, links: Links) -> Html:
    assert run.bench is not None
    found = run.bench.table()
    baseline = asked.text("baseline") if asked.text("baseline") in found.baselines else found.baselines[0]
    return joined(
        warned([*run.bench.tasks.warnings(), *run.bench.attempts.warnings()]),
        _facts(run, found),
        _figures(run, found, baseline),
        _grid(run, found, baseline, asked, links),
        folded("Settings and machine", tree(run.bench.head)),
    )


def _facts(run: OpenRun, found: BenchTable) -> Html:
    assert run.bench is not None
    summary = run.summary()
    lines = run.bench.attempts.lines
    counts = Counter(line.row.ending for line in lines)
    endings = [joined(badge(name, f" {counts[name]:,}"), " ") for name in ENDINGS if counts[name]]
    return facts(
        (
            ("state", badge(summary.state)),
            ("attempts", f"{len(lines):,} at {len(found.tasks):,} tasks, {found.samples} × {found.turns} each"),
            ("endings", joined(*endings)),
            ("begun", moment(summary.begun)),
            ("last attempt", moment(summary.changed)),
            ("tokens", f"{sum(line.row.tokens for line in lines):,}"),
            ("writing and judging", seconds(sum(line.row.seconds for line in lines))),
            ("command", el("code", command) if (command := text_at(run.bench.head, "command", longest=2000)) else ""),
        )
    )


@dataclass(frozen=True)
class BenchFigures:
    """Shares of tasks against one baseline, with intervals: at the usual thresholds and along a curve, by the point and surely."""

    arrays: ResultArrays
    point: list[Estimate]
    sure: list[Estimate]
    curve: list[Estimate]
    sure_curve: list[Estimate]


def figures_of(run: OpenRun, found: BenchTable, baseline: str) -> BenchFigures:
    """Kept until the run grows."""
    assert run.bench is not None
    state = len(run.bench.attempts.lines), len(run.bench.tasks.lines)
    known = run.cache.get(f"figures {baseline}")
    if known is None or known[0] != state:
        arrays = found.arrays(baseline)
        draws = draws_of(len(found.tasks))
        parts = [
            fast_shares(arrays, draws, at, sure)
            for at, sure in ((THRESHOLDS, False), (THRESHOLDS, True), (CURVE, False), (CURVE, True))
        ]
        known = run.cache[f"figures {baseline}"] = (state, BenchFigures(arrays, *parts))
    figures: BenchFigures = known[1]
    return figures


def _figures(run: OpenRun, found: BenchTable, baseline: str) -> Html:
    if not found.lines:
        return el("p", "No attempt is finished yet.")
    figures = figures_of(run, found, baseline)
    rows = [
        (f"fast_{p:g}" if p else "right", share(one), share(two) if p else "")
        for p, one, two in zip(THRESHOLDS, figures.point, figures.sure)
    ]
    shares = section(
        f"Shares of tasks, against {baseline}", table(("", "by the point", "surely"), rows),
        el("p", "95 % intervals over tasks. Surely: the judge's whole interval lies above p.", cls="note"),
    )  # fmt: skip
    curves = {"by the point": figures.curve, "surely": figures.sure_curve}
    return joined(charts(fast_plot(f"fast_p against {baseline}", curves), speed_plot(figures.arrays, baseline)), shares)


def _grid(run: OpenRun, found: BenchTable, baseline: str, asked: Asked, links: Links) -> Html:
    kept = [task for task in found.tasks if _wanted(found, task, baseline, asked)]
    order = asked.text("sort")
    if order == "best":
        kept.sort(key=lambda task: -_best(found, task, baseline))
    elif order == "worst":
        kept.sort(key=lambda task: _best(found, task, baseline))

    def target(**query: Any) -> str:
        return links.run(run.id, **query)

    part, others = pages(len(kept), asked, target, TASKS_A_PAGE)
    rows, targets = [], []
    for task in kept[part]:
        lines = found.lines.get(task.id, [])
        where = links.run(run.id, view="task", task=task.id)
        best = max((line.row for line in lines), key=lambda row: surely(row, baseline), default=None)
        span = best.verdict.speedup.get(baseline) if best is not None and best.verdict else None
        cells = [_cell(run, line, baseline, links) for line in lines[:CELLS_A_TASK]]
        more = el("span", f"+{len(lines) - CELLS_A_TASK}", cls="note") if len(lines) > CELLS_A_TASK else ""
        rows.append((link(where, task.name or task.id), task.level, task.family, badge(found.ending(task, baseline)), speed(span),
                     el("span", *cells, more, cls="cells"), el("span", task.trouble, cls="said")))  # fmt: skip
        targets.append(where)
    shown = table(("task", "level", "family", "came to", f"surest against {baseline}", "attempts", ""), rows, "grid", targets)
    return section(f"Tasks × attempts ({len(kept):,})", _form(found, baseline, asked), others, shown, others, id_="tasks")


def _cell(run: OpenRun, line: IndexedLine[AttemptRow], baseline: str, links: Links) -> Html:
    row = line.row
    span = row.verdict.speedup.get(baseline) if row.verdict else None
    told = f"{row.sample}.{row.turn} {row.ending} {speed(span) if span else row.said[:60]}"
    where = links.run(run.id, view="attempt", line=line.number)
    return link(where, title=told, cls=f"cell {KINDS.get(row.ending, 'plain')}")


def _form(found: BenchTable, baseline: str, asked: Asked) -> Html:
    levels = sorted({task.level for task in found.tasks if task.level})
    families = sorted({task.family for task in found.tasks if task.family})
    endings = [name for name in ENDINGS if any(line.row.ending == name for lines in found.lines.values() for line in lines)]
    return el(
        "form",
        choice("outcome", "any outcome", endings, asked.text("outcome")),
        choice("level", "any level", levels, asked.text("level")) if len(levels) > 1 else "",
        choice("family", "any family", families, asked.text("family")) if len(families) > 1 else "",
        choice("baseline", "first baseline", list(found.baselines), baseline) if len(found.baselines) > 1 else "",
        choice("sort", "as they came", ["best", "worst"], asked.text("sort")),
        el("input", type="search", name="q", value=asked.text("q"), placeholder="name or diagnosis", aria_label="Filter"),
        el("button", "Filter"),
        cls="filter",
    )


def _wanted(found: BenchTable, task: TaskRow, baseline: str, asked: Asked) -> bool:
    level, family, outcome, text = asked.text("level"), asked.text("family"), asked.text("outcome"), asked.text("q").lower()
    if (level and task.level != level) or (family and task.family != family):
        return False
    rows = [line.row for line in found.lines.get(task.id, ())]
    if outcome and not any(row.ending == outcome for row in rows):
        return False
    return not text or text in f"{task.name} {task.id} {task.family}".lower() or any(text in row.said.lower() for row in rows)


def _best(found: BenchTable, task: TaskRow, baseline: str) -> float:
    return max((surely(line.row, baseline) for line in found.lines.get(task.id, ())), default=0.0)
