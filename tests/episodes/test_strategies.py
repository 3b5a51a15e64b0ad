"""Search strategies: what each kernel sees, how budgets and errors end them, and that the same seed walks the same way.

The judge here is a fake that reads speeds off the text (see `decay.py`): only the control flow is tested.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from episodes.decay import FakeJudge, answer, asked, episode_context, kernel, search, searched

from bottega.backbone.chat import Message, Sampling, Usage
from bottega.backbone.client import Generation
from bottega.core.errors import BackboneError, UsageError
from bottega.core.event import Criticised, Planned
from bottega.core.turn import Turn
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.journal import read_events
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping
from bottega.episodes.strategies import STRATEGIES
from bottega.episodes.writing import EpisodeSearch


def grow(
    folder: Path, answers: object, settings: EpisodeSettings, caps: BudgetCaps | None = None, schemes: int = 1
) -> EpisodeSearch:
    context = episode_context(folder, answers, caps)  # type: ignore[arg-type]
    return searched(search(context, settings, [()] * schemes))


def climbing(messages: object, sampling: Sampling) -> str:
    """Each kernel a little faster than the fastest that it was shown."""
    text = messages[-1].content  # type: ignore[index]
    shown = [float(speed) for speed in re.findall(r"# speed ([\d.]+)", text)]
    return answer(kernel(round(max(shown, default=1.0) * 1.25, 4), f"seed {sampling.seed}"))


def test_each_turn_of_a_line_sees_the_ones_before_it(tmp_path: Path) -> None:
    answers = [answer(kernel("compile_error")), "nothing", answer(kernel(1.5, "third"))]
    place = grow(tmp_path, answers, EpisodeSettings(samples=1, turns=3))
    assert [node.id for node in place.nodes] == ["s0r0t0", "s0r0t1", "s0r0t2"]
    assert [node.parent for node in place.nodes] == [None, "s0r0t0", "s0r0t1"]
    last = place.context.client.backbone.asked[-1].messages[-1].content  # type: ignore[attr-defined]
    assert "It is compile_error." in last and "unusable_answer" in last
    assert place.best is not None and place.best.id == "s0r0t2"


@pytest.mark.parametrize(("stop", "told"), [("length", True), ("stop", False)])
def test_an_answer_that_was_cut_off_is_told_so_and_not_that_a_class_is_missing(tmp_path: Path, stop: str, told: bool) -> None:
    context = episode_context(tmp_path, ["unused"])

    async def drawn(*given: object, **options: object) -> Generation:
        return Generation("import torch", Usage(9, 3), stop)  # type: ignore[arg-type]

    async def turn() -> Turn:
        return await context.generate(
            "write", [Message("user", "")], EpisodeSettings(), "k", lambda text: {"fault": "no_model: none"}
        )

    with context.journal:
        context.client.generate = drawn  # type: ignore[method-assign]
        fault = asyncio.run(turn()).fault
    assert fault == ("The answer was cut off after 3 tokens, so write a shorter one. " * told + "no_model: none")


def test_of_a_long_line_the_last_and_the_best_are_seen(tmp_path: Path) -> None:
    speeds = (1.1, 1.9, 1.3, 1.7, 1.2, 1.4)
    answers = [answer(kernel(speed, f"turn {turn}")) for turn, speed in enumerate(speeds)]
    place = grow(tmp_path, answers, EpisodeSettings(samples=1, turns=6, kept=3))
    shown = [question.messages[-1].content for question in place.context.client.backbone.asked]  # type: ignore[attr-defined]
    seen = [[turn for turn, speed in enumerate(speeds) if f"# speed {speed}" in text] for text in shown]
    assert seen == [[], [0], [0, 1], [0, 1, 2], [1, 2, 3], [1, 3, 4]]
    assert [node.parent for node in place.nodes[1:]] == [node.id for node in place.nodes[:-1]], "one line all the same"
    with pytest.raises(UsageError, match="kept is for lines of strategy=serial"):
        EpisodeSettings(strategy="tree", kept=3)
    assert "kept" not in EpisodeSettings().to_json() and EpisodeSettings(kept=3).to_json()["kept"] == 3


def test_parallel_kernels_see_nothing(tmp_path: Path) -> None:
    place = grow(tmp_path, climbing, EpisodeSettings(strategy="parallel", samples=2, turns=3))
    assert len(place.nodes) == 6
    assert {node.parent for node in place.nodes} == {None}
    assert {node.speedup("eager").point for node in place.nodes} == {1.25}  # type: ignore[union-attr]


def test_a_beam_keeps_the_best_and_drops_copies(tmp_path: Path) -> None:
    place = grow(tmp_path, climbing, EpisodeSettings(strategy="beam", samples=2, branch=2, turns=3))
    assert len(place.nodes) == 4 + 4 + 4
    by_id = {node.id: node for node in place.nodes}
    for node in place.nodes:
        if node.parent:
            assert node.score("eager") > by_id[node.parent].score("eager")
    assert place.best is not None and place.best.id.startswith("g2")


def test_islands_breed_from_their_archives(tmp_path: Path) -> None:
    place = grow(tmp_path, climbing, EpisodeSettings(strategy="evolve", samples=2, branch=2, turns=4))
    assert len(place.nodes) == 2 * 2 * 4
    assert place.best is not None and place.best.speedup("eager").point > 2  # type: ignore[union-attr]


@pytest.mark.parametrize("strategy", STRATEGIES.names)
def test_the_same_seed_walks_the_same_way(tmp_path: Path, strategy: str) -> None:
    settings = EpisodeSettings(strategy=strategy, samples=2, turns=3, seed=5)  # type: ignore[arg-type]
    one, two = (grow(tmp_path / name, climbing, settings) for name in ("one", "two"))
    assert {node.id: node.turn.source for node in one.nodes} == {node.id: node.turn.source for node in two.nodes}


@pytest.mark.parametrize("strategy", STRATEGIES.names)
def test_a_budget_of_kernels_holds_also_side_by_side(tmp_path: Path, strategy: str) -> None:
    settings = EpisodeSettings(strategy=strategy, samples=3, turns=4)  # type: ignore[arg-type]
    place = grow(tmp_path, climbing, settings, BudgetCaps(kernels=5), schemes=2)
    others = sum(isinstance(event, Criticised | Planned) for event in read_events(tmp_path))
    assert len(place.nodes) == 5 == asked(place.context) - others
    assert place.ended is not None and "5 kernels" in place.ended


def test_the_target_ends_all_lanes(tmp_path: Path) -> None:
    settings = EpisodeSettings(samples=1, turns=9, stopping=Stopping(target=1.8))
    place = grow(tmp_path, climbing, settings)
    assert place.ended is not None and place.ended.startswith("target")
    assert len(place.nodes) == 3


def test_an_error_ends_the_search_and_keeps_what_is_judged(tmp_path: Path) -> None:
    answers = [answer(kernel(2.0)), BackboneError("the server died")]
    context = episode_context(tmp_path, answers)
    place = search(context, EpisodeSettings(samples=1, turns=3))
    with pytest.raises(BackboneError, match="died"):
        searched(place)
    assert [node.id for node in place.nodes] == ["s0r0t0"]


def test_the_same_text_is_judged_once_also_after_a_resumption(tmp_path: Path) -> None:
    settings = EpisodeSettings(samples=1, turns=2)
    same = answer(kernel(1.5))
    first = grow(tmp_path, [same, same], settings)
    assert isinstance(first.context.judge, FakeJudge) and first.context.judge.judged == ["s0r0t0"]
    again = grow(tmp_path, [same], EpisodeSettings(samples=1, turns=3))
    assert isinstance(again.context.judge, FakeJudge) and again.context.judge.judged == []
    assert len(again.nodes) == 3 and asked(again.context) == 1
    assert again.context.budget.kernels == 3


def test_answers_see_their_messages_and_seeds_differ_by_place(tmp_path: Path) -> None:
    seeds: list[int | None] = []

    def script(messages: list[Message], sampling: Sampling) -> str:
        seeds.append(sampling.seed)
        return answer(kernel(1.5, str(len(seeds))))

    grow(tmp_path, script, EpisodeSettings(samples=2, turns=2))
    assert len(set(seeds)) == 4


def test_a_model_that_repeats_itself_is_not_asked_to_the_end(tmp_path: Path) -> None:
    same = lambda messages, sampling: answer(kernel("1.5"))  # noqa: E731
    settings = EpisodeSettings(strategy="parallel", turns=4, samples=2, stopping=Stopping(roofline=0.0, repeats=3))
    place = grow(tmp_path, same, settings)
    assert len(place.nodes) == 4 and place.ended == "the last 3 answers repeat earlier ones"
