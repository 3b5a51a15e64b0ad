"""Tree search (UCT over kernels): the next kernel grows from the one that promises most, by what its descendants reached and how few they are.

The reward of a kernel is the logarithm of its measured speed. Rewards are set to the range of those seen so far, so that the exploration constant
means the same for every task. The kernels of a round are chosen one after the other, each as if those before it had brought nothing yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from bottega.episodes.node import SearchNode
from bottega.episodes.strategies.islands import best_setting, drafts_of
from bottega.episodes.strategies.lanes import grown, schemes_in_use, side_by_side
from bottega.episodes.tuning import KNOB_SEARCH
from bottega.episodes.writing import EpisodeSearch

FAILED = math.log(0.25)
"""The reward of a kernel that cannot be used: that of one four times as slow."""


@dataclass
class TreeNode:
    node: SearchNode | None
    """None for the root, which is the task itself."""
    parent: TreeNode | None = None
    children: list[TreeNode] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0
    """Of the rewards of its kernel and all that grew from it."""
    under_way: int = 0

    @property
    def path(self) -> list[SearchNode]:
        """The kernels from the root to here."""
        before = self.parent.path if self.parent is not None else []
        return [*before, *([self.node] if self.node is not None else [])]

    @property
    def mean(self) -> float:
        return self.total / self.visits if self.visits else 0.0


class SearchTree:
    def __init__(self, baseline: str, exploration: float, branch: int, at_root: int) -> None:
        self.baseline, self.exploration, self.branch, self.at_root = baseline, exploration, branch, at_root
        self.root = TreeNode(None)
        self.rewards: list[float] = []

    def add(self, parent: TreeNode, node: SearchNode) -> TreeNode:
        """A kernel that was judged: its reward counts for all that it grew from."""
        parent.children.append(made := TreeNode(node, parent))
        reward = reward_of(node, self.baseline)
        self.rewards.append(reward)
        at: TreeNode | None = made
        while at is not None:
            at.visits += 1
            at.total += reward
            at = at.parent
        return made

    def select(self) -> TreeNode:
        """The node to build upon: downward by UCT, to the first with room for a child. It counts as being built upon from now."""
        at = self.root
        while at.children and len(at.children) + at.under_way >= (self.at_root if at is self.root else self.branch):
            at = max(at.children, key=lambda child: self.value(child, at))
        at.under_way += 1
        return at

    def value(self, child: TreeNode, parent: TreeNode) -> float:
        """UCT: the mean reward in the range of those seen, and the bonus of what was seldom tried."""
        low, high = min(self.rewards), max(self.rewards)
        pending = _under_way(child)
        visits = child.visits + pending
        mean = (child.total + pending * low) / visits
        gain = (mean - low) / (high - low) if high > low else 0.5
        return gain + self.exploration * math.sqrt(math.log(parent.visits + _under_way(parent) + 1) / visits)


async def tree(search: EpisodeSearch) -> None:
    """`turns` rounds of `samples` kernels. The root has at most as many children as a round has kernels, or `branch`; every other node `branch`."""
    settings, schemes = search.settings, schemes_in_use(search)
    drafts = drafts_of(search.nodes)
    wide = max(settings.branch, settings.samples) + len(drafts)
    grove = SearchTree(settings.baseline, settings.exploration, settings.branch, wide)
    for node in drafts:
        grove.add(grove.root, node)
    for turn in range(settings.turns):
        if search.finished():
            return
        chosen = [grove.select() for _ in range(settings.samples)]
        born: dict[int, SearchNode] = {}

        async def child(number: int, turn: int, place: TreeNode, born: dict[int, SearchNode] = born) -> None:
            if not search.finished():
                scheme = schemes[(turn * settings.samples + number) % len(schemes)]
                born[number] = await grown(search, f"t{turn}n{number}", place.path, scheme)

        await side_by_side(search, (child(number, turn, place) for number, place in enumerate(chosen)))
        for number, place in enumerate(chosen):
            place.under_way -= 1
            if number in born:
                grove.add(place, born[number])


def reward_of(node: SearchNode, baseline: str) -> float:
    score = node.score(baseline)
    return max(FAILED, math.log(score)) if score > 0 else FAILED


def tree_of(nodes: Iterable[SearchNode], baseline: str) -> SearchTree:
    """The tree that a log's kernels make: each grew from its parent. One with tuned knobs stands in the place of the kernel that it was made of."""
    nodes, grove = list(nodes), SearchTree(baseline, 0.0, 1, 1)
    places: dict[str | None, TreeNode] = {None: grove.root}
    for node in nodes:
        if node.author == KNOB_SEARCH:
            places[node.id] = places.get(node.parent, grove.root)
        else:
            places[node.id] = grove.add(places.get(node.parent, grove.root), best_setting(node, nodes, baseline))
    return grove


def _under_way(place: TreeNode) -> int:
    return place.under_way + sum(map(_under_way, place.children))
