"""Two runs beside each other: benchmarks by the paired comparison of `bottega compare`, training by its curves, searches by their best kernels."""

from __future__ import annotations

from typing import Any

from bottega.bench.compare import Comparison, compare
from bottega.bench.compare_page import comparison_tables
from bottega.bench.metrics import baselines_of
from bottega.bench.plots import fast_plot
from bottega.bench.run_directory import read_run
from bottega.core.errors import BottegaError
from bottega.service.dashboard.bench_view import figures_of
from bottega.service.dashboard.html import (
    Html,
    badge,
    charts,
    choice,
    el,
    facts,
    joined,
    link,
    moment,
    report_table,
    section,
    speed,
    table,
)
from bottega.service.dashboard.open_run import OpenRun, Runs
from bottega.service.dashboard.page import Asked, Links, tree, warned
from bottega.service.dashboard.reading import object_at, stamp, text_at
from bottega.service.dashboard.search_tree import KernelNode, all_nodes
from bottega.service.dashboard.training_plots import training_plots
from bottega.service.dashboard.training_view import measurements
from bottega.service.dashboard.verdict_view import diff_html

MOST_ATTEMPTS = 20_000
"""Of two runs together: pairing them reads every attempt in full."""
PAIRS = 200


def compare_view(runs: Runs, asked: Asked, links: Links) -> Html:
    picked = [asked.text("a"), asked.text("b")]
    names = [run.id for run in runs.all()]
    form = el(
        "form",
        *(choice(name, "pick a run", names, now) for name, now in zip(("a", "b"), picked)),
        el("button", "Compare"),
        cls="filter",
    )
    one, two = (runs.get(name) for name in picked)
    if one is None or two is None:
        return joined(form, el("p", "Pick two runs."))
    for run in (one, two):
        run.refresh()
    same = one.kind == two.kind or {one.kind, two.kind} <= {"optimize", "log"}
    body = _compared(one, two, links) if same else el("p", "Runs of different kinds have no figures in common.")
    return joined(form, _facts(one, two, links), body, _settings(one, two))


def _facts(one: OpenRun, two: OpenRun, links: Links) -> Html:
    rows: list[tuple[Any, ...]] = []
    for run in (one, two):
        summary = run.summary()
        rows.append(
            (
                link(links.run(run.id), run.id),
                summary.kind,
                badge(summary.state),
                summary.best,
                summary.what,
                moment(summary.changed),
            )
        )
    return table(("run", "kind", "state", "best", "of", "changed"), rows)


def _compared(one: OpenRun, two: OpenRun, links: Links) -> Html:
    if one.bench is not None and two.bench is not None:
        return _benches(one, two)
    if one.kind in ("rl", "sft"):
        return charts(*training_plots(one.kind, {run.id: measurements(run) for run in (one, two)}))
    if one.kind in ("data", "library"):
        return el("p", "Only the facts above and the settings are compared.")
    return _searches(one, two)


def _benches(one: OpenRun, two: OpenRun) -> Html:
    assert one.bench is not None and two.bench is not None
    curves = {}
    for run in (one, two):
        assert run.bench is not None
        found = run.bench.table()
        if found.lines:
            curves[f"{run.id} against {found.baselines[0]}"] = figures_of(run, found, found.baselines[0]).curve
    chart = charts(fast_plot("fast_p of both", curves))
    size = len(one.bench.attempts.lines) + len(two.bench.attempts.lines)
    if size > MOST_ATTEMPTS:
        return joined(
            chart, el("p", f"{size:,} attempts are too many to be paired here; `bottega compare` does it.", cls="note")
        )
    try:
        paired = _comparison(one, two)
        return joined(chart, warned(paired.notes), *map(report_table, comparison_tables(one.id, two.id, paired, PAIRS)))
    except BottegaError as error:  # damaged, or without a task in common: said as it is
        return joined(chart, warned([str(error)]))


def _comparison(one: OpenRun, two: OpenRun) -> Comparison:
    """Kept until either run grows."""
    state = tuple(stamp(path) for run in (one, two) for path in run.files)
    known = one.cache.get(f"compared {two.id}")
    if known is None or known[0] != state:
        base, other = read_run(one.folder), read_run(two.folder)
        known = one.cache[f"compared {two.id}"] = (state, compare(base, other, baselines_of(base)[0]))
    found: Comparison = known[1]
    return found


def _searches(one: OpenRun, two: OpenRun) -> Html:
    best = [_best_kernel(run) for run in (one, two)]
    rows, texts = [], []
    for run, node in zip((one, two), best):
        nodes = all_nodes(run.events.lines)
        span = node.verdict.best() if node is not None and node.verdict is not None else None
        rows.append((run.id, len(nodes), node.name if node else "none", badge(node.outcome) if node else "", speed(span)))
        texts.append(text_at(run.events.body(node.wrote), "turn", "source") if node else "")
    same_task = one.first("episode_started").facts.get("task") == two.first("episode_started").facts.get("task")
    return joined(
        section("Best kernels", table(("run", "kernels", "best", "outcome", "speedup"), rows)),
        warned([] if same_task else ["The two worked on different tasks."]),
        section("From the first one's best to the second one's", diff_html(texts[0], texts[1], one.id, two.id))
        if all(texts)
        else "",
    )


def _best_kernel(run: OpenRun) -> KernelNode | None:
    right = [
        (span[1] or 0.0, -node.number, node)
        for node in all_nodes(run.events.lines)
        if node.verdict and (span := node.verdict.best())
    ]
    return max(right, key=lambda each: each[:2])[2] if right else None


def _settings(one: OpenRun, two: OpenRun) -> Html:
    """Only what differs."""
    first, second = (_flat(object_at(run.settings(), "config") or object_at(run.settings(), "settings")) for run in (one, two))
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)][:200]
    if not names:
        return facts((("settings", "the same"),))
    rows = [(name, tree(first.get(name)), tree(second.get(name))) for name in names]
    return section("Settings that differ", table(("", one.id, two.id), rows))


def _flat(data: dict[str, Any], before: str = "", deepest: int = 6) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in data.items():
        key = f"{before}{name}"
        found |= _flat(value, f"{key}.", deepest - 1) if isinstance(value, dict) and value and deepest else {key: value}
    return found
