"""Tree search: where the next kernel grows, what it sees, and what the constant of exploration does. The judge is a fake (`decay.py`)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from episodes.decay import answer, asked, episode_context, kernel, search, searched, verdict_of

from bottega.backbone.chat import Message, Sampling
from bottega.core.errors import UsageError
from bottega.core.event import Wrote
from bottega.core.turn import Turn
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.delivery.page import Code, PageSection
from bottega.episodes.delivery.search_report import search_blocks
from bottega.episodes.journal import read_events
from bottega.episodes.node import SearchNode
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies.tree import FAILED, SearchTree, reward_of, tree_of
from bottega.episodes.writing import EpisodeSearch


def node(name: str, speed: float | str, parent: str | None = None) -> SearchNode:
    return SearchNode(name, parent, 0, Turn("write", "", verdict=verdict_of(f"# speed {speed}")))


def planted(exploration: float) -> SearchTree:
    """Two kernels under the root, a fast and a slow one; the fast one was built upon often, and its children are slower."""
    grove = SearchTree("eager", exploration, 4, 2)
    fast, slow = grove.add(grove.root, node("fast", 4.0)), grove.add(grove.root, node("slow", 1.0))
    for number in range(3):
        grove.add(fast, node(f"fast{number}", 2.0))
    assert (fast.visits, slow.visits, grove.root.visits) == (4, 1, 5)
    return grove


def test_the_reward_is_the_logarithm_of_the_sure_speed() -> None:
    assert reward_of(node("a", 2.0), "eager") == pytest.approx(math.log(2.0 * 0.98))
    assert reward_of(node("a", "incorrect"), "eager") == FAILED < reward_of(node("a", 0.5), "eager")


def test_rewards_count_for_all_that_a_kernel_grew_from() -> None:
    grove = planted(1.0)
    fast = grove.root.children[0]
    assert fast.mean == pytest.approx((math.log(4 * 0.98) + 3 * math.log(2 * 0.98)) / 4)


def test_without_exploration_the_fastest_line_is_built_upon_and_with_much_the_seldom_one() -> None:
    for exploration, name in ((0.0, "fast"), (3.0, "slow")):
        chosen = planted(exploration).select().node
        assert chosen is not None and chosen.id == name


def test_kernels_of_one_round_do_not_all_grow_from_one() -> None:
    grove = planted(0.5)
    chosen = [grove.select().node for _ in range(4)]
    assert {found.id for found in chosen if found is not None} >= {"fast", "slow"}


def grown(
    folder: Path, script: object, settings: EpisodeSettings, caps: BudgetCaps | None = None, drafts: Sequence[str] = ()
) -> EpisodeSearch:
    context = episode_context(folder, script, caps)  # type: ignore[arg-type]
    return searched(search(context, settings), drafts)


def climbing(messages: Sequence[Message], sampling: Sampling) -> str:
    shown = [float(speed) for speed in re.findall(r"# speed ([\d.]+)", messages[-1].content)]
    factor = 1.3 if (sampling.seed or 0) % 3 else 0.8
    return answer(kernel(round(max(shown, default=1.0) * factor, 4), f"seed {sampling.seed}"))


SETTINGS = EpisodeSettings(strategy="tree", samples=2, branch=2, turns=6)


def test_a_child_is_shown_the_whole_path_from_the_root(tmp_path: Path) -> None:
    place = grown(tmp_path, climbing, SETTINGS)
    assert len(place.nodes) == 12
    known, prompts = (
        {one.id: one for one in place.nodes},
        {e.node: e.turn.prompt for e in read_events(tmp_path) if isinstance(e, Wrote)},
    )
    deepest = 0
    for one in place.nodes:
        path, at = list[SearchNode](), one.parent
        while at is not None:
            path.append(known[at])
            at = known[at].parent
        deepest = max(deepest, len(path))
        shown = re.findall(r"# (seed \d+)", prompts[one.id])
        assert shown == [re.findall(r"# (seed \d+)", before.turn.source)[0] for before in reversed(path)]
    assert deepest >= 3
    children = [one.parent for one in place.nodes]
    assert all(children.count(name) <= 2 for name in set(children))


def test_drafts_are_children_of_the_root_and_the_best_is_built_upon(tmp_path: Path) -> None:
    one_line = EpisodeSettings(strategy="tree", samples=1, branch=1, turns=3, exploration=0.0)
    place = grown(tmp_path, climbing, one_line, drafts=[kernel(1.5, "seed 1"), kernel(8.0, "seed 2")])
    written = [one for one in place.nodes if not one.author]
    assert [one.parent for one in written][:2] == [None, "draft2"], "the root has room for one more than its drafts"


def test_a_resumed_tree_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole = grown(tmp_path / "whole", climbing, SETTINGS)
    grown(tmp_path / "cut", climbing, SETTINGS, BudgetCaps(kernels=5))
    rest = grown(tmp_path / "cut", climbing, SETTINGS)
    assert asked(rest.context) == 7
    assert {one.id: (one.parent, one.turn.source) for one in rest.nodes} == {
        one.id: (one.parent, one.turn.source) for one in whole.nodes
    }


def test_the_report_shows_the_tree_with_visits(tmp_path: Path) -> None:
    place = grown(tmp_path, climbing, SETTINGS)
    grove = tree_of(place.nodes, "eager")
    assert grove.root.visits == 12
    (section,) = search_blocks(list(read_events(tmp_path)), place.episode, SETTINGS)
    assert isinstance(section, PageSection) and isinstance(section.blocks[1], Code)
    lines = section.blocks[1].text.splitlines()
    assert len(lines) == 12
    assert f"visits {grove.root.children[0].visits}," in lines[0]


def test_a_constant_that_means_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="exploration"):
        EpisodeSettings(exploration=-1.0)
