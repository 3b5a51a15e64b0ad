"""What a search strategy did beside writing kernels, for the report: an evolution, knobs, a tree, a notebook, a critic's advice, an agent's calls.

Each part is a function of the events, and is left out where the run has none of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from bottega.core.event import AgentStepped, Criticised, Event, Tuned
from bottega.core.foreign_text import one_line
from bottega.core.verdict import Verdict
from bottega.episodes.attempts import attempts_of, spread
from bottega.episodes.delivery.page import Block, Code, PageSection, Paragraph, ReportTable
from bottega.episodes.node import SearchNode
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies.islands import EvolutionState, evolution_of
from bottega.episodes.strategies.notebook import notebook_of, prediction_error
from bottega.episodes.strategies.operators import OPERATORS
from bottega.episodes.strategies.tree import TreeNode, tree_of

LONGEST_ADVICE = 600


def search_blocks(events: Sequence[Event], episode: str, settings: EpisodeSettings) -> list[Block]:
    nodes = [attempt.node for attempt in attempts_of(events, episode)]
    baseline, blocks = settings.baseline, list[Block]()
    evolution = evolution_of(events, episode, baseline, settings.samples)
    if evolution is not None:
        blocks.append(PageSection("The evolution", _evolution(evolution)))
    if settings.strategy == "tree" and nodes:
        blocks.append(PageSection("The tree", _tree(nodes, settings)))
    if entries := notebook_of(events, episode, nodes, baseline):
        rows = [(one.node, one.base, one.change, _times(one.predicted), _times(one.measured), one.finding) for one in entries]
        error = prediction_error(entries)
        caption = f"Predictions were off by a factor of {error:.2f} (geometric mean)." if error is not None else ""
        columns = ("kernel", "from", "change", "predicted", "measured", "finding")
        blocks.append(ReportTable("The notebook", columns, rows, caption))
    return [*blocks, *_advice(events, episode, nodes, baseline), *_knobs(events, episode), *_agent_calls(events, episode)]


def _evolution(state: EvolutionState) -> list[Block]:
    rows = [
        (one.name, str(found.tried), str(found.right), str(found.improved))
        for one in OPERATORS
        if (found := state.yields.get(one.name)) is not None
    ]
    instructions = [
        (
            str(one.number),
            one.text or "(none)",
            "" if one.mutated_from is None else f"{one.mutated_from}, by {one.by}",
            str(one.tried),
            str(one.right),
            str(one.kept),
            "replaced" if one.retired else "in use",
        )
        for one in state.instructions.every
    ]
    cells = [
        (str(island.number), *_cell(node, state.baseline), cell.bound, cell.launches, cell.tile, cell.own)
        for island in state.islands
        for cell, node in sorted(island.archive.items())
    ]
    return [
        ReportTable(
            "Operators",
            ("operator", "tried", "right", "improved"),
            rows,
            "Improved: surely faster than the best parent; without parents, than the baseline.",
        ),
        ReportTable(
            "Instructions",
            ("#", "instruction", "from", "tried", "right", "kept", ""),
            instructions,
            "Kept: the best of its kind when it came. The one with the least credit makes room for a variation of the best.",
        ),
        ReportTable(
            "Archives",
            ("island", "kernel", "speedup", "bound by", "launches", "tiles", "own share"),
            cells,
            "The fastest kernel of each kind that was measured.",
        ),
    ]


def _cell(node: SearchNode, baseline: str) -> tuple[str, str]:
    return node.id, spread(node.verdict, baseline)


def _tree(nodes: Sequence[SearchNode], settings: EpisodeSettings) -> list[Block]:
    """With the visits of each kernel and the mean speed that it and what grew from it reached."""
    lines: list[str] = []

    def show(place: TreeNode, depth: int) -> None:
        if place.node is not None:
            told = spread(place.node.verdict, settings.baseline) or _outcome(place.node.verdict)
            lines.append(
                f"{'  ' * (depth - 1)}{place.node.id}  {told}  visits {place.visits}, mean {math.exp(place.mean):.2f}×"
            )
        for child in place.children:
            show(child, depth + 1)

    show(tree_of(nodes, settings.baseline).root, 0)
    told = (
        f"UCT with exploration {settings.exploration:g}. The mean is geometric, over a kernel and all that grew from it; a kernel "
        "that cannot be used counts as four times slower than the baseline."
    )
    return [Paragraph(told), Code("\n".join(lines))]


def _advice(events: Sequence[Event], episode: str, nodes: Sequence[SearchNode], baseline: str) -> list[Block]:
    """What the critic said of a kernel, and what became of the one that was written with it."""
    came = {node.id: spread(node.verdict, baseline) or _outcome(node.verdict) for node in nodes}
    rows = []
    for event in events:
        if isinstance(event, Criticised) and event.episode == episode:
            written = event.key.rpartition("/")[2]
            said = event.advice or f"(not used: {event.turn.fault})"
            rows.append((event.node, event.mode, one_line(said, LONGEST_ADVICE), written, came.get(written, "none")))
    columns = ("kernel", "to", "advice", "written with it", "came out")
    return [ReportTable("The critic's advice", columns, rows)] if rows else []


def _knobs(events: Sequence[Event], episode: str) -> list[Block]:
    rows = []
    for event in events:
        if isinstance(event, Tuned) and event.episode == episode and event.tried:
            known = sum(bool(row["remembered"]) for row in event.tried)
            tried = ", ".join(f"{row['label']} {_milliseconds(row['ms'])}" for row in event.tried)
            chosen = f"{', '.join(event.chosen)}: {event.gain:.2f}×" if event.chosen else "its own"
            rows.append((event.node, _milliseconds(event.base_ms), tried, str(known), chosen))
    columns = ("kernel", "as written", "settings", "remembered", "best")
    return [ReportTable("Knobs", columns, rows, "Measured side by side, before the verdict that counts.")] if rows else []


def _agent_calls(events: Sequence[Event], episode: str) -> list[Block]:
    """An agent's answers by the tools that they called."""
    steps = [event for event in events if isinstance(event, AgentStepped) and event.episode == episode]
    called = Counter(name for event in steps for name in event.turn.tools or ())
    idle = sum(not event.turn.tools for event in steps)
    rows = [(name, str(count)) for name, count in called.most_common()] + ([("no tool", str(idle))] if idle else [])
    faults, lines = sum(bool(event.turn.fault) for event in steps), len({event.line for event in steps})
    told = f"{len(steps)} answers, {lines} {'line' if lines == 1 else 'lines'}; {faults} could not be carried out as they were."
    return [ReportTable("The agent's calls", ("tool", "calls"), rows, told)] if steps else []


def _milliseconds(value: float | None) -> str:
    return f"{value:.4g} ms" if value is not None else "not right"


def _times(value: float | None) -> str:
    return f"{value:.2f}×" if value is not None else "none"


def _outcome(verdict: Verdict | None) -> str:
    return verdict.outcome.value if verdict is not None else "no kernel"
