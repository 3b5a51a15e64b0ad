"""A run of `optimize`: the tree of kernels, times against the roofline, and each kernel with its verdict and what changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bottega.core.plot import Plot, PlotSeries
from bottega.service.dashboard.event_rows import EventRow
from bottega.service.dashboard.html import (
    KINDS,
    Html,
    badge,
    charts,
    el,
    facts,
    folded,
    joined,
    link,
    moment,
    number,
    seconds,
    section,
    speed,
    table,
    words,
)
from bottega.service.dashboard.line_index import LineIndex
from bottega.service.dashboard.open_run import OpenRun
from bottega.service.dashboard.page import Asked, Links, raw, tree, warned
from bottega.service.dashboard.reading import list_at, number_at, object_at, read_object, text_at
from bottega.service.dashboard.search_tree import KernelNode, all_nodes, in_tree_order, kernel_nodes
from bottega.service.dashboard.verdict_view import kernel_html, verdict_html

DEEPEST = 12
"""Steps by which a child is set in."""
MOST_NODES = 2000
BASELINES = ("eager", "compile", "autotune")


def search_overview(run: OpenRun, asked: Asked, links: Links) -> Html:
    parts: list[Any] = [warned(run.events.warnings()), _facts(run)]
    episodes = list(
        dict.fromkeys(line.row.episode for line in run.events.lines if line.row.type in ("wrote", "episode_started"))
    )
    for episode in episodes[:50]:
        nodes = kernel_nodes(run.events.lines, episode)
        if len(episodes) > 1:
            parts.append(el("h2", f"Episode {episode}"))
        parts.append(charts(roofline_plot(nodes), progress_plot(nodes)) if nodes else el("p", "No kernel was written yet."))
        parts.append(
            section("Kernels", kernel_table(nodes, lambda node: links.run(run.id, view="node", node=node.name)), id_="kernels")
        )
    if len(episodes) > 50:
        parts.append(el("p", f"{len(episodes) - 50} more episodes are in its events.", cls="note"))
    parts.append(_finals(run, links))
    return joined(*parts, _said(run), _settings(run))


def _facts(run: OpenRun) -> Html:
    summary, started, ended = run.summary(), run.first("run_started"), run.last("run_ended")
    result = read_object(run.folder / "result.json")
    claim = [f"{name}: {speed(_span(span))}" for name, span in list(object_at(result, "claim").items())[:6]]
    first, drafted = run.first("episode_started"), run.last("drafted")
    rows = (
        ("state", badge(summary.state)),
        ("result", f"{text_at(result, 'outcome', longest=40)}, {'; '.join(claim)}".rstrip(", ") if result else ""),
        ("missed", text_at(result, "missed", longest=1000)),
        ("task", first.facts.get("task", "")),
        ("device", first.facts.get("device", "")),
        ("written by", text_at(result, "author", longest=200)),
        ("begun", moment(summary.begun)),
        ("last event", moment(summary.changed)),
        (
            "drafts",
            drafted.facts.get("refused") or f"{drafted.facts.get('author')} wrote {drafted.facts.get('drafts')}"
            if drafted
            else "",
        ),
        ("ended", ended.facts.get("ended", "") if ended else ""),
        ("command", el("code", str(started.facts.get("command", ""))) if started.facts.get("command") else ""),
    )
    return facts(rows)


def _span(span: Any) -> tuple[float, float | None, float | None] | None:
    point = number_at(span, "point")
    return (point, number_at(span, "low"), number_at(span, "high")) if point is not None else None


def kernel_table(nodes: Sequence[KernelNode], target: Callable[[KernelNode], str], more: Callable[[KernelNode], Sequence[Any]] | None = None,
                 columns: Sequence[str] = ()) -> Html:  # fmt: skip
    """The tree, each child set in below the kernel it grew from. `more` gives cells of further columns."""
    rows, targets = [], []
    best = max((node for node in nodes if node.outcome == "faster"), key=_low, default=None)
    for node in in_tree_order(nodes)[:MOST_NODES]:
        where, told = target(node), node.judged.row.facts if node.judged else {}
        name = el(
            "span",
            link(where, node.name),
            " ★" if best is not None and node.name == best.name else "",
            cls=f"d{min(node.depth, DEEPEST)}",
        )
        time = node.verdict.times_ms.get("candidate") if node.verdict else None
        spent = (node.wrote.row.facts.get("seconds") or 0.0) + (told.get("seconds") or 0.0)
        same = f"same text as {told['same_as']}" if told.get("same_as") else ""
        said = same or told.get("diagnosis") or node.wrote.row.facts.get("fault") or ""
        cells = [name, node.author, badge(node.outcome), speed(node.verdict.best() if node.verdict else None)]
        cells += [f"{time:.4g} ms" if time is not None else "", *(more(node) if more else ())]
        cells += [seconds(spent), el("span", said, cls="said")]
        rows.append(cells)
        targets.append(where)
    shown = table(("kernel", "by", "outcome", "speedup", "time", *columns, "took", "said"), rows, "kernels", targets)
    left = el("p", f"{len(nodes) - MOST_NODES:,} more are in its events.", cls="note") if len(nodes) > MOST_NODES else ""
    return joined(shown, left)


def _low(node: KernelNode) -> float:
    span = node.verdict.best() if node.verdict else None
    return (span[1] or 0.0) if span else 0.0


def roofline_plot(nodes: Sequence[KernelNode]) -> Plot:
    """Every kernel's time beside the baselines' and the floor below which no kernel can be."""
    timed = [(node, node.verdict.times_ms) for node in nodes if node.verdict and "candidate" in node.verdict.times_ms]
    dots = PlotSeries(
        "kernels", [(node.number, times["candidate"]) for node, times in timed], "dots",
        labels=[f"{node.name}: {node.outcome}, {times['candidate']:.4g} ms" for node, times in timed],
        classes=[KINDS.get(node.outcome, "plain") for node, _ in timed],
    )  # fmt: skip
    levels = []
    for name in (*BASELINES, "floor"):
        values = sorted(times[name] for _, times in timed if name in times)
        if values:
            levels.append(PlotSeries("roofline" if name == "floor" else name, [(0, values[len(values) // 2])], "level"))
    return Plot("Time of each kernel against the roofline, ms", [dots, *levels], x="kernel", y="ms", log_y=True)


def progress_plot(nodes: Sequence[KernelNode]) -> Plot:
    spans = [(node.number, span) for node in nodes if node.verdict and (span := node.verdict.best())]
    best, points = 0.0, []
    for place, span in spans:
        best = max(best, span[0])
        points.append((float(place), best))
    single = PlotSeries(
        "each kernel", [(place, span[0]) for place, span in spans], "dots", labels=[speed(span) for _, span in spans]
    )
    series = [single, PlotSeries("best so far", points, "steps")] if len(spans) > 1 else []
    return Plot("Speedup, and the best so far", series, x="kernel", y="×")


def _finals(run: OpenRun, links: Links) -> Html:
    found = [
        line for line in run.events.lines if line.row.type == "judged" and line.row.facts.get("final") and line.row.verdict
    ]
    if not found:
        return Html("")
    rows = [
        (link(links.run(run.id, view="event", line=line.number), line.row.node or "the file"), badge(line.row.verdict.outcome),
         speed(line.row.verdict.best()), line.row.facts.get("diagnosis", ""))
        for line in found if line.row.verdict
    ]  # fmt: skip
    return section("What was judged again at the end", table(("kernel", "outcome", "speedup", "said"), rows))


def _said(run: OpenRun) -> Html:
    lines = [line for line in run.events.lines if line.row.type == "summarised" and line.row.facts.get("proposals")]
    if not lines:
        return Html("")
    return section("Skills that were proposed", el("ul", *(el("li", line.row.facts["proposals"]) for line in lines)))


def _settings(run: OpenRun) -> Html:
    told = run.settings()
    return folded(
        "Settings and machine", tree({name: told.get(name) for name in ("settings", "fingerprint") if told.get(name)})
    )


def node_view(run: OpenRun, asked: Asked, links: Links) -> Html:
    nodes = [node for node in all_nodes(run.events.lines) if node.name == asked.text("node")]
    if not nodes:
        return el("p", "No kernel of that name is in the log (yet).")
    return node_html(run.events, nodes[0], lambda name: links.run(run.id, view="node", node=name))


def node_html(index: LineIndex[EventRow], node: KernelNode, target: Callable[[str], str]) -> Html:
    """One kernel: who wrote it, what was asked and said, the verdict, the text, and what changed from its parent."""
    wrote = index.body(node.wrote)
    turn = object_at(wrote, "turn")
    verdict = object_at(index.body(node.judged), "verdict") if node.judged is not None else {}
    parent = next((line for line in index.lines if line.row.type == "wrote" and line.row.node == node.parent), None)
    before = text_at(index.body(parent), "turn", "source") if parent is not None and node.parent else None
    told = facts(
        (
            ("by", node.author),
            ("grown from", link(target(node.parent), node.parent) if node.parent else ""),
            ("same text as", str(node.judged.row.facts.get("same_as", "")) if node.judged else ""),
            ("tokens", f"{number(node.wrote.row.facts.get('prompt_tokens'))} asked, {number(node.wrote.row.facts.get('output_tokens'))} answered"
             if node.wrote.row.facts.get("output_tokens") else ""),
            ("repairs", ", ".join(each for each in list_at(turn, "repairs") if isinstance(each, str))),
            ("written", moment(node.wrote.row.at)),
        )
    )  # fmt: skip
    fault, summary = text_at(turn, "fault"), text_at(turn, "summary")
    return joined(
        told,
        el("p", fault, cls="bad") if fault else "",
        words(summary) if summary else "",
        verdict_html(verdict) if verdict else el("p", badge(node.outcome)),
        kernel_html(text_at(turn, "source"), before, node.name, node.parent),
        exchange(turn),
        raw({name: value for name, value in wrote.items() if name != "turn"}, "The rest of the event"),
    )


def exchange(turn: dict[str, Any]) -> Html:
    """What was asked and what was answered."""
    prompt, answer = text_at(turn, "prompt"), text_at(turn, "text")
    return joined(
        folded("Prompt", words(prompt), id_="prompt") if prompt else "",
        folded("Answer as it came", words(answer), id_="answer") if answer else "",
    )
