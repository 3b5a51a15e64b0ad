"""Kernels of one episode as a tree: which grew from which, joined from what was written and what was judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bottega.service.dashboard.event_rows import NO_KERNEL, EventRow, VerdictRow
from bottega.service.dashboard.line_index import IndexedLine

NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class KernelNode:
    name: str
    parent: str
    wrote: IndexedLine[EventRow]
    judged: IndexedLine[EventRow] | None
    number: int
    """In the order in which they came, from 1."""
    depth: int = 0

    @property
    def verdict(self) -> VerdictRow | None:
        return self.judged.row.verdict if self.judged is not None else None

    @property
    def outcome(self) -> str:
        if self.verdict is not None:
            return self.verdict.outcome
        return NO_KERNEL if self.wrote.row.facts.get("fault") else NOT_JUDGED

    @property
    def author(self) -> str:
        return str(self.wrote.row.facts.get("author") or "the model")


def kernel_nodes(lines: Iterable[IndexedLine[EventRow]], episode: str) -> list[KernelNode]:
    """In the order in which they came."""
    judged: dict[str, IndexedLine[EventRow]] = {}
    wrote: dict[str, IndexedLine[EventRow]] = {}
    for line in lines:
        if line.row.episode != episode:
            continue
        if line.row.type == "wrote":
            wrote[line.row.node] = line
        elif line.row.type == "judged" and not line.row.facts.get("final"):
            judged[line.row.node] = line
    return [
        KernelNode(name, line.row.parent, line, judged.get(name), number)
        for number, (name, line) in enumerate(wrote.items(), 1)
    ]


def all_nodes(lines: Sequence[IndexedLine[EventRow]]) -> list[KernelNode]:
    """Of all episodes."""
    episodes = dict.fromkeys(line.row.episode for line in lines if line.row.type == "wrote")
    return [node for episode in episodes for node in kernel_nodes(lines, episode)]


def in_tree_order(nodes: Sequence[KernelNode]) -> list[KernelNode]:
    """Each under the one that it grew from. A parent that is not there, or that comes round in a circle, makes a root."""
    known = {node.name for node in nodes}
    below: dict[str, list[KernelNode]] = {}
    for node in nodes:
        below.setdefault(node.parent if node.parent in known and node.parent != node.name else "", []).append(node)
    found: dict[str, KernelNode] = {}
    for root in [*below.get("", []), *nodes]:  # what is left after the roots lies in circles
        pending = [(root, 0)]
        while pending:
            node, depth = pending.pop()
            if node.name in found:
                continue
            found[node.name] = KernelNode(node.name, node.parent, node.wrote, node.judged, node.number, depth)
            pending += [(child, depth + 1) for child in reversed(below.get(node.name, []))]
    return list(found.values())


def line_to(nodes: Sequence[KernelNode], last: str) -> list[str]:
    """Names from a first kernel to this one."""
    parents = {node.name: node.parent for node in nodes}
    found: list[str] = []
    while last in parents and last not in found:
        found.append(last)
        last = parents[last]
    return found[::-1]
