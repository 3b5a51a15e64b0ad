"""Evolution: archives by what was measured, operators with their yields, instructions with credit. Without any of these a test here fails.

The judge is a fake that reads speed and profile off the text: only the control flow is tested.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import FakeJudge, answer, asked, episode_context, kernel, search, searched, verdict_of

from bottega.backbone.chat import Message, Sampling
from bottega.core.candidate import Candidate
from bottega.core.event import Bred, Reworded, Wrote
from bottega.core.task import Task
from bottega.core.turn import Turn
from bottega.core.verdict import Verdict
from bottega.episodes.attempts import totals_of
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.delivery.page import PageSection, ReportTable
from bottega.episodes.delivery.search_report import search_blocks
from bottega.episodes.journal import read_events
from bottega.episodes.node import SearchNode
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies.behaviour import Behaviour, behaviour_of
from bottega.episodes.strategies.instructions import LIST, Instruction, InstructionPopulation
from bottega.episodes.strategies.islands import Island, evolution_of
from bottega.episodes.strategies.operators import BY_NAME, OPERATORS
from bottega.episodes.writing import EpisodeSearch

GPU = {
    "gbs": 2000.0,
    "peak_gbs": 4000.0,
    "kernels": [{"grid": [600, 1, 1], "launches": 3.0}, {"grid": [1, 1, 1], "launches": 1.0}],
}
CPU = {"gflops": 90.0, "peak_gflops": 100.0, "threads": 7.5, "cores": 8, "vector_bits": 512, "vector_share": 0.6}


class ProfilingJudge(FakeJudge):
    """`# profile memory 2` is a kernel that is bound by memory and takes two launches."""

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        assert options.pop("profile") and set(options) <= {"own_code"}
        verdict = await super().judge_async(task, candidate, **options)
        found = re.search(r"# profile (\w+) (\d+)", candidate.source)
        bound, launches = (found[1], int(found[2])) if found else ("memory", 1)
        profile = {"kernels": [{"grid": [64, 1, 1], "launches": launches}]}
        profile |= {"gbs": 90.0, "peak_gbs": 100.0} if bound == "memory" else {"gflops": 90.0, "peak_gflops": 100.0}
        return Verdict.from_json({**verdict.to_json(), "profile": profile})


def evolved(
    folder: Path,
    script: Callable[[Sequence[Message], Sampling], str],
    settings: EpisodeSettings,
    caps: BudgetCaps | None = None,
    drafts: Sequence[str] = (),
) -> EpisodeSearch:
    context = episode_context(folder, script, caps)
    context.judge = ProfilingJudge()
    place = search(context, settings)
    place.judging["profile"] = bool(drafts)  # which come first
    return searched(place, drafts)


def settings_of(islands: int, generations: int, branch: int = 2, **given: Any) -> EpisodeSettings:
    return EpisodeSettings(strategy="evolve", samples=islands, turns=generations, branch=branch, **given)


def events_of(folder: Path, kind: type[Any]) -> list[Any]:
    return [event for event in read_events(folder) if isinstance(event, kind)]


def test_behaviour_is_what_was_measured() -> None:
    gpu = Verdict.from_json({"outcome": "faster", "profile": GPU, "coverage": {"share": 0.5}})
    assert behaviour_of(gpu) == Behaviour("memory", "3 to 4", "512 to 4095 programs", "1/3 to 2/3")
    cpu = Verdict.from_json({"outcome": "faster", "profile": CPU, "coverage": {"share": 1.0, "own": ["a"]}})
    assert behaviour_of(cpu) == Behaviour("compute", "1", "all threads, 512-bit vectors", "above 2/3")
    slow = Verdict.from_json({"outcome": "faster", "times_ms": {"floor": 0.1, "candidate": 5.0}})
    assert behaviour_of(slow) == Behaviour("latency", "unknown", "unknown", "unknown")


def test_a_slow_kernel_of_a_new_kind_survives_and_words_in_the_text_make_no_kind(tmp_path: Path) -> None:
    texts = [
        "# profile memory 1",
        "# profile compute 1",
        "# profile memory 4",
        "# profile memory 1\n# shared atomic float4 tile",
    ]
    speeds = [3.0, 1.1, 1.2, 2.0]
    answers = iter([answer(kernel(speed, text)) for speed, text in zip(speeds, texts)])
    place = evolved(tmp_path, lambda *_: next(answers), settings_of(1, 1, 4))
    state = evolution_of(list(read_events(tmp_path)), place.episode, "eager", 1)
    assert state is not None
    kept = {(cell.bound, cell.launches): node.id for cell, node in state.islands[0].archive.items()}
    assert kept == {("memory", "1"): "i0g0n0", ("compute", "1"): "i0g0n1", ("memory", "3 to 4"): "i0g0n2"}


def test_parents_are_drawn_with_pressure_and_without_greed() -> None:
    kinds = [Behaviour("memory", "1", "unknown", own) for own in ("below 1/3", "1/3 to 2/3", "above 2/3")]
    nodes = [
        SearchNode(f"n{speed}", None, 0, Turn("write", "", verdict=verdict_of(f"# speed {speed}"))) for speed in (3.0, 2.0, 1.5)
    ]
    island, draw = Island(0, dict(zip(kinds, nodes))), random.Random(0)
    drawn = Counter(parent.id for _ in range(300) if (parent := island.parent(draw, "eager")) is not None)
    assert drawn["n3.0"] > 140 and drawn["n1.5"] > 10, "five of nine draws in the mean, and one of nine"


def test_crossover_shows_both_parents_with_their_verdicts(tmp_path: Path) -> None:
    place = evolved(tmp_path, diverse, settings_of(1, 6, 3))
    prompts = {event.node: event.turn.prompt for event in events_of(tmp_path, Wrote)}
    crossings = [event for event in events_of(tmp_path, Bred) if event.operator == "crossover"]
    assert crossings
    known = {node.id: node for node in place.nodes}
    for event in crossings:
        one, two = (known[name] for name in event.parents)
        assert behaviour_of(one.verdict) != behaviour_of(two.verdict)
        for parent in (one, two):
            assert parent.verdict is not None
            assert parent.turn.source.strip() in prompts[event.node] and parent.verdict.diagnosis in prompts[event.node]
        assert BY_NAME["crossover"].ask in prompts[event.node]


def diverse(messages: Sequence[Message], sampling: Sampling) -> str:
    """Each a little faster than the fastest that it was shown, of one of four kinds, and now and then wrong."""
    shown = [float(speed) for speed in re.findall(r"# speed ([\d.]+)", messages[-1].content)]
    chance = sampling.seed or 0
    if chance % 5 == 0:
        return answer(kernel("incorrect", f"seed {chance}"))
    bound = ("memory", "compute")[chance % 2]
    speed = round(max(shown, default=1.0) * (1.2 if chance % 3 else 0.9), 4)
    return answer(kernel(speed, f"profile {bound} {1 + chance % 4}\n# seed {chance}"))


@pytest.mark.rotates
def test_every_operator_is_named_used_and_has_its_yield(tmp_path: Path) -> None:
    first = iter(range(9))

    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        if next(first, None) is not None:
            return answer(kernel("incorrect", f"seed {sampling.seed}"))
        return diverse(messages, sampling)

    place = evolved(tmp_path, script, settings_of(3, 10, 3))
    bred = events_of(tmp_path, Bred)
    assert {event.operator for event in bred} == {one.name for one in OPERATORS}
    for event in bred:
        prompt = next(wrote.turn.prompt for wrote in events_of(tmp_path, Wrote) if wrote.node == event.node)
        assert BY_NAME[event.operator].ask in prompt
        taught = re.search(r"^- (not right|[\d.]+x as fast as its parent): ", prompt, re.MULTILINE)
        assert (taught is not None) is (event.operator == "insight"), "what earlier children taught, in place of kernels"
        assert len(event.parents) == BY_NAME[event.operator].parents
    state = evolution_of(list(read_events(tmp_path)), place.episode, "eager", 3)
    assert state is not None
    assert sum(found.tried for found in state.yields.values()) == len(bred) == 90
    known, improved = {node.id: node for node in place.nodes}, 0
    for event in bred:
        before = max((known[name].score("eager") for name in event.parents), default=1.0)
        improved += known[event.node].score("eager") > max(before * 1.02, 1e-9)
    assert sum(found.improved for found in state.yields.values()) == improved > 0
    (section,) = search_blocks(list(read_events(tmp_path)), place.episode, settings_of(3, 10, 3))
    assert isinstance(section, PageSection)
    table = section.blocks[0]
    assert isinstance(table, ReportTable) and [row[0] for row in table.rows] == [one.name for one in OPERATORS]


def test_an_operator_that_brings_nothing_is_drawn_less(tmp_path: Path) -> None:
    def only_mutations(messages: Sequence[Message], sampling: Sampling) -> str:
        text = messages[-1].content
        shown = max((float(speed) for speed in re.findall(r"# speed ([\d.]+)", text)), default=1.0)
        good = BY_NAME["mutate"].ask in text or not re.search(r"# speed", text)
        return answer(kernel(round(shown * 1.1, 6) if good else 0.5, f"seed {sampling.seed}"))

    evolved(tmp_path, only_mutations, settings_of(2, 20, 3))
    drawn = [event.operator for event in events_of(tmp_path, Bred) if event.generation >= 8]
    assert drawn.count("mutate") > 2 * max(drawn.count(name) for name in ("tune", "simplify", "redesign"))


def test_the_instruction_whose_children_are_kept_gets_credit_and_more_children(tmp_path: Path) -> None:
    good = LIST[2]

    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        shown = max((float(speed) for speed in re.findall(r"# speed ([\d.]+)", messages[-1].content)), default=1.0)
        fast = good in messages[-1].content
        return answer(kernel(round(shown * 1.1, 4) if fast else 0.5, f"seed {sampling.seed}"))

    place = evolved(tmp_path, script, settings_of(2, 8, 2))
    state = evolution_of(list(read_events(tmp_path)), place.episode, "eager", 2)
    assert state is not None
    by_text = {one.text: one for one in state.instructions.every}
    assert max(state.instructions.every, key=lambda one: one.kept).text == good
    assert by_text[good].tried > max(one.tried for text, one in by_text.items() if text != good)
    assert not by_text[good].retired and any(one.retired for one in by_text.values())
    reworded = events_of(tmp_path, Reworded)
    assert all(event.by == "list" and event.turn is None for event in reworded)
    texts = [event.text for event in reworded if event.text]
    assert texts[0] == LIST[4] and len(set(texts)) == len(texts)
    assert any(texts[0] in event.turn.prompt for event in events_of(tmp_path, Wrote))


def test_the_model_rewords_the_best_and_its_answer_is_used_and_paid_for(tmp_path: Path) -> None:
    asks: list[str] = []

    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        if "improve the instruction" in messages[0].content:
            asks.append(messages[-1].content)
            return "no idea" if len(asks) == 1 else f"instruction: think of {len(asks)} bananas"
        return diverse(messages, sampling)

    settings = settings_of(2, 6, 2, instructions="model")
    place = evolved(tmp_path, script, settings)
    reworded = events_of(tmp_path, Reworded)
    assert [event.by for event in reworded[:2]] == ["list", "model"]
    assert reworded[0].turn.fault and "kernels were written with it" in asks[0]
    assert any("think of 2 bananas" in event.turn.prompt for event in events_of(tmp_path, Wrote))
    turns = [event.turn for event in read_events(tmp_path) if getattr(event, "turn", None) is not None]
    assert totals_of(list(read_events(tmp_path))).tokens == sum(turn.prompt_tokens + turn.output_tokens for turn in turns)
    assert place.context.budget.tokens == totals_of(list(read_events(tmp_path))).tokens


def test_drafts_are_founders(tmp_path: Path) -> None:
    evolved(tmp_path, diverse, settings_of(1, 1, 1), drafts=[kernel(2.0, "a draft")])
    (bred,) = events_of(tmp_path, Bred)
    assert bred.parents == ("draft1",)


def test_islands_exchange_their_best(tmp_path: Path) -> None:
    seen: list[str] = []

    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        seen.append("")
        return answer(kernel(5.0 if len(seen) == 1 else 1.1, f"seed {sampling.seed}"))

    place = evolved(tmp_path, script, settings_of(2, 3, 1))
    state = evolution_of(list(read_events(tmp_path)), place.episode, "eager", 2)
    assert state is not None
    assert [max(node.score("eager") for node in island.archive.values()) > 4 for island in state.islands] == [True, True]


@pytest.mark.parametrize("kernels", [1, 5, 9])
def test_a_resumed_evolution_repeats_nothing_and_goes_the_same_way(tmp_path: Path, kernels: int) -> None:
    settings = settings_of(2, 4, 2)
    whole = evolved(tmp_path / "whole", diverse, settings)
    cut = evolved(tmp_path / "cut", diverse, settings, BudgetCaps(kernels=kernels))
    assert asked(cut.context) == kernels
    rest = evolved(tmp_path / "cut", diverse, settings)
    assert asked(rest.context) == 16 - kernels
    assert {node.id: node.turn.source for node in rest.nodes} == {node.id: node.turn.source for node in whole.nodes}
    one, two = (
        [(e.node, e.operator, e.parents, e.instruction) for e in events_of(tmp_path / n, Bred)] for n in ("whole", "cut")
    )
    assert sorted(one) == sorted(two)


def test_an_instruction_is_replaced_only_after_it_was_tried() -> None:
    population = InstructionPopulation()
    assert population.best_and_worst() is None
    population.every[1].tried = 2
    population.every[0].tried, population.every[0].kept = 2, 2
    pair = population.best_and_worst()
    assert pair is not None and (pair[0].number, pair[1].number) == (0, 1)
    made = population.replace(1, "another", 0, "model")
    assert isinstance(made, Instruction) and [one.number for one in population.active] == [0, 2, 3, 4]
