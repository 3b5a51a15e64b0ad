"""Knobs tuned apart from structure: what is measured, what is remembered, and that only the judge's verdict makes a kernel count.

The measuring mode of most tests is a fake that reads times off the text; the last one measures real C++.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from episodes.decay import DEVICE, KERNEL, TASK, FakeJudge, answer, asked, episode_context, search, verdict_of
from module_task import module_task

from bottega.core.candidate import Candidate
from bottega.core.draft import Draft, Drafts
from bottega.core.errors import SandboxError
from bottega.core.event import Judged, Tuned, Wrote
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.attempts import attempts_of
from bottega.episodes.backbone_defaults import KNOBS, knob_count
from bottega.episodes.budget import BudgetCaps
from bottega.episodes.episode import run_episode
from bottega.episodes.journal import read_events
from bottega.episodes.knob_memory import KnobMemory
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.strategies import STRATEGIES
from bottega.episodes.strategies.islands import evolution_of
from bottega.episodes.tuning import KNOB_SEARCH, tune_best, tuned
from bottega.episodes.writing import EpisodeSearch
from bottega.judge.trusted.judge import TrustedJudge

TIMES = {32: 2.0, 64: 1.0, 128: 0.5}
"""Milliseconds by tile; another one is wrong."""


def template(tile: int = 64, note: str = "") -> str:
    return f"TILE = {tile}  # knobs: 32 64 128 256\n# {note}\nclass ModelNew:\n    pass\n"


def tile_of(source: str) -> int:
    found = re.search(r"TILE = (\d+)", source)
    assert found is not None
    return int(found[1])


class Measure:
    """Stands for the measuring mode: a tile's time, and 256 is not right."""

    def __init__(self) -> None:
        self.measured: list[list[int]] = []

    def judge_many(
        self, task: Task, candidates: Sequence[Candidate], *, rounds: int = 0, profiled: bool = True
    ) -> list[Verdict | None]:
        tiles = [tile_of(one.source) for one in candidates]
        self.measured.append(tiles)
        assert rounds and not profiled
        right = [Verdict(Outcome.SAME, True, times_ms={"candidate": TIMES[tile]}) if tile in TIMES else None for tile in tiles]
        return [found or Verdict(Outcome.INCORRECT) for found in right]


class TileJudge(FakeJudge):
    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        self.judged.append(candidate.name)
        return verdict_of(f"# speed {1.5 / TIMES[tile_of(candidate.source)]}")


def grown(
    folder: Path, answers: object, settings: EpisodeSettings, memory: Path | None = None, caps: BudgetCaps | None = None
) -> tuple[EpisodeSearch, Measure]:
    context = episode_context(folder, answers, caps)  # type: ignore[arg-type]
    measure = Measure()
    context.judge, context.measuring = TileJudge(), measure
    context.knob_memory = KnobMemory(memory)
    context.knob_memory.read(context.journal.events)
    place = search(context, settings)

    with context.journal:
        asyncio.run(searched(place))
    return place, measure


async def searched(place: EpisodeSearch) -> None:
    """As an episode does."""
    await STRATEGIES.load(place.settings.strategy)(place)
    await tune_best(place)


ONE = EpisodeSettings(samples=1, turns=1, knobs=4)


@pytest.mark.rotates
@pytest.mark.parametrize("strategy", ["serial", "parallel", "beam", "critic", "evolve", "tree", "scientist"])
def test_the_best_kernel_is_tuned_in_every_strategy(tmp_path: Path, strategy: str) -> None:
    settings = EpisodeSettings(samples=1, branch=1, turns=1, knobs=4, strategy=strategy)
    place, measure = grown(tmp_path, [answer(template())], settings)
    assert measure.measured == [[64, 32, 128, 256], [64, 128]]
    written, tuned = place.nodes
    assert (tuned.author, tuned.parent, tile_of(tuned.turn.source)) == (KNOB_SEARCH, written.id, 128)
    assert place.best is tuned and not tuned.by_rule
    (event,) = [event for event in read_events(tmp_path) if isinstance(event, Tuned)]
    assert [(row["label"], row["ms"]) for row in event.tried] == [("TILE=32", 2.0), ("TILE=128", 0.5), ("TILE=256", None)]
    assert event.gain == 2.0 and event.chosen == ("TILE=128",) and event.device == DEVICE.name


def test_without_the_setting_nothing_is_measured(tmp_path: Path) -> None:
    place, measure = grown(tmp_path, [answer(template())], EpisodeSettings(samples=1, turns=1))
    assert not measure.measured and len(place.nodes) == 1
    assert "knobs:" not in place.context.client.backbone.asked[0].messages[-1].content  # type: ignore[attr-defined]


def test_a_writer_whose_knobs_are_tuned_is_told_how_to_mark_them(tmp_path: Path) -> None:
    place, _ = grown(tmp_path, [answer(template())], ONE)
    assert "# knobs: 32 64 128" in place.context.client.backbone.asked[0].messages[-1].content  # type: ignore[attr-defined]


def test_the_budget_of_settings_holds(tmp_path: Path) -> None:
    _, measure = grown(tmp_path, [answer(template())], EpisodeSettings(samples=1, turns=1, knobs=1))
    assert measure.measured == [[64, 32]]


class Scripted(Measure):
    """Times by what a text holds, other ones the second time."""

    def __init__(self, *looks: dict[str, float]) -> None:
        super().__init__()
        self.looks = list(looks)

    def judge_many(
        self, task: Task, candidates: Sequence[Candidate], *, rounds: int = 0, profiled: bool = True
    ) -> list[Verdict | None]:
        times = self.looks.pop(0)
        found = []
        for one in candidates:
            factors = [factor for text, factor in times.items() if text in one.source]
            found.append(Verdict(Outcome.SAME, True, times_ms={"candidate": math.prod(factors)}))
        return list(found)


def tuned_by(folder: Path, source: str, measure: Measure) -> EpisodeSearch:
    context = episode_context(folder, [answer(source)])
    context.judge, context.measuring = TileJudge(), measure
    place = search(context, ONE)
    with context.journal:
        asyncio.run(searched(place))
    return place


def test_the_best_value_of_each_knob_is_tried_together(tmp_path: Path) -> None:
    source = template().replace("# \n", "UNROLL = 1  # knobs: 1 4\n")
    times = {"TILE = 128": 0.5, "UNROLL = 4": 0.8}
    place = tuned_by(tmp_path, source, Scripted(times, times))
    assert "TILE = 128" in place.nodes[-1].turn.source and "UNROLL = 4" in place.nodes[-1].turn.source


def test_a_setting_that_looked_better_once_is_not_taken(tmp_path: Path) -> None:
    place = tuned_by(tmp_path, template(), Scripted({"TILE = 128": 0.9}, {"TILE = 128": 0.99}))
    (event,) = [event for event in read_events(tmp_path) if isinstance(event, Tuned)]
    assert not event.chosen and len(place.nodes) == 1


def test_only_the_best_kernel_is_tuned_and_only_at_the_end(tmp_path: Path) -> None:
    place, measure = grown(
        tmp_path, [answer(template(32)), answer(template(note="x"))], EpisodeSettings(samples=1, turns=2, knobs=4)
    )
    assert [tile_of(node.turn.source) for node in place.nodes] == [32, 64, 128]
    assert measure.measured == [[64, 32, 128, 256], [64, 128]]


def test_an_evolution_does_not_measure_a_kernel_of_the_same_structure_again(tmp_path: Path) -> None:
    settings = EpisodeSettings(strategy="evolve", samples=1, branch=1, turns=2, knobs=4, instructions="list")
    place, measure = grown(tmp_path, [answer(template()), answer(template(32))], settings)
    assert len(measure.measured) == 2
    assert [tile_of(node.turn.source) for node in place.nodes] == [64, 128, 32, 128]


def test_a_draft_takes_no_text_from_what_a_model_wrote(tmp_path: Path) -> None:
    """The value of a knob is any expression: alike in structure, the model's may hold what the judge would then trust."""
    context = episode_context(tmp_path, [answer(template(32)), answer(template(32))])
    context.judge, context.measuring = TileJudge(), (measure := Measure())
    place = search(context, replace(ONE, strategy="evolve", branch=1))

    async def run() -> None:
        await tuned(place, await place.grow("t0n0", [], 0))
        await tuned(place, await place.adopt("draft1", Draft(template()), "a compiler"))
        await tuned(place, await place.grow("t0n1", [], 0))

    with context.journal:
        asyncio.run(run())
    assert len(measure.measured) == 4, "the draft is measured for itself, and a model's kernel may take from anybody"
    assert [node.by_rule for node in place.nodes] == [False, False, True, True, False, False]


def test_settings_are_remembered_between_runs_by_device_shape_and_structure(tmp_path: Path) -> None:
    memory = tmp_path / "knobs.jsonl"
    grown(tmp_path / "one", [answer(template())], ONE, memory)
    assert len(memory.read_text().splitlines()) == 3
    memory.write_text(memory.read_text() + '["cut o')
    _, measure = grown(tmp_path / "two", [answer(template())], ONE, memory)
    assert measure.measured == [[64], [64, 128]]  # what looks best is measured again, against the kernel itself
    _, measure = grown(tmp_path / "three", [answer(template(note="another"))], ONE, memory)
    assert measure.measured[0] == [64, 32, 128, 256]
    (event,) = [event for event in read_events(tmp_path / "two") if isinstance(event, Tuned)]
    assert all(row["remembered"] for row in event.tried)


def test_a_resumed_run_measures_and_judges_nothing_twice(tmp_path: Path) -> None:
    grown(tmp_path, [answer(template())], ONE)
    place, measure = grown(tmp_path, [], ONE)
    assert not measure.measured and not asked(place.context)
    assert isinstance(place.context.judge, FakeJudge) and not place.context.judge.judged
    assert len(place.nodes) == 2 == place.context.budget.kernels


def test_a_tuned_kernel_counts_and_a_spent_budget_leaves_the_one_as_written(tmp_path: Path) -> None:
    place, _ = grown(tmp_path, [answer(template())], ONE, caps=BudgetCaps(kernels=1))
    assert [node.author for node in place.nodes] == [""]
    assert place.ended is not None and "1 kernels" in place.ended


def test_an_evolution_tunes_its_founders(tmp_path: Path) -> None:
    context = episode_context(tmp_path, [answer(template(note="child"))])
    context.judge, context.measuring = TileJudge(), Measure()
    place = search(context, EpisodeSettings(strategy="evolve", samples=1, branch=1, turns=1, knobs=4))

    async def run() -> None:
        await place.adopt("draft1", Draft(template(), ""), "a compiler")
        await STRATEGIES.load("evolve")(place)

    with context.journal:
        asyncio.run(run())
    assert [node.parent for node in place.nodes] == [None, "draft1", "draft1k", "i0g0n0"]
    state = evolution_of(list(read_events(tmp_path)), place.episode, "eager", 1)
    assert state is not None and [node.id for node in state.islands[0].archive.values()] == ["draft1k"]


@pytest.mark.parametrize("strategy, tiles", [("evolve", [64, 128]), ("serial", [64])])
def test_where_the_sandbox_is_not_whole_the_judge_measures_for_an_evolution_alone(
    tmp_path: Path, strategy: str, tiles: list[int]
) -> None:
    class Unsafe(Measure):
        def judge_many(self, *_: Any, **__: Any) -> list[Verdict | None]:
            self.measured.append([])
            raise SandboxError("this machine cannot give the whole sandbox")

    class Timing(TileJudge):
        async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
            tile = tile_of(candidate.source)
            if tile not in TIMES:
                return Verdict(Outcome.INCORRECT)
            return replace(await super().judge_async(task, candidate), times_ms={"candidate": TIMES[tile]})

    context = episode_context(tmp_path, [answer(template())])
    measure = Unsafe()
    context.judge, context.measuring = Timing(), measure
    place = search(context, replace(ONE, strategy=strategy, branch=1))
    with context.journal:
        asyncio.run(searched(place))
    assert len(measure.measured) == 1, "asked once, and not again"
    assert [tile_of(node.turn.source) for node in place.nodes] == tiles


def test_a_kernel_that_is_not_right_is_not_tuned(tmp_path: Path) -> None:
    class Refusing(TileJudge):
        async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
            return Verdict(Outcome.REJECTED)

    context = episode_context(tmp_path, [answer(template())])
    measure = Measure()
    context.judge, context.measuring = Refusing(), measure
    with context.journal:
        asyncio.run(searched(search(context, ONE)))
    assert not measure.measured


@pytest.mark.rotates
@pytest.mark.parametrize("values, wrong", [("1 8", ()), ("3 8", ("WIDTH=3",))])
def test_the_real_measuring_mode_times_settings_and_finds_wrong_ones(
    tmp_path: Path, values: str, wrong: tuple[str, ...]
) -> None:
    source = KERNEL.replace("#include <cstdint>", f"#include <cstdint>\nconstexpr int64_t WIDTH = 2;  // knobs: {values}")
    source = source.replace("c < width; ++c) {", "c < width / WIDTH * WIDTH; ++c) {")
    context = episode_context(tmp_path, [answer(source)])

    class Right(FakeJudge):
        async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
            return verdict_of("# speed 2.0")

    with context.journal, TrustedJudge("cpu", workers=1, timeout=60) as measuring:
        context.judge, context.measuring = Right(), measuring
        asyncio.run(searched(search(context, ONE)))
    (event,) = [event for event in read_events(tmp_path) if isinstance(event, Tuned)]
    assert {row["label"]: row["ms"] is None for row in event.tried} == {
        f"WIDTH={value}": f"WIDTH={value}" in wrong for value in values.split()
    }
    assert event.base_ms
    events = list(read_events(tmp_path))
    made = [event for event in events if isinstance(event, Wrote) and event.author == KNOB_SEARCH]
    assert len(made) == bool(event.chosen)
    assert len([event for event in events if isinstance(event, Judged)]) == 1 + len(made)


def test_an_episode_without_a_model_tunes_its_best_draft(tmp_path: Path) -> None:
    class Rule:
        async def drafts(self, task: Task, language: str, count: int) -> Drafts:
            return Drafts("rule", tuple(Draft(template(tile, "d"), "", "By rule.") for tile in (32, 64)))

    context = episode_context(tmp_path, [])
    context.draft_source, context.judge, context.measuring = Rule(), TileJudge(), Measure()
    with context.journal:
        asyncio.run(run_episode(context, TASK, EpisodeSettings(drafts=2, knobs=4, schemes=0, select="none"), model=False))
    judged = {event.node: event.verdict for event in read_events(tmp_path) if isinstance(event, Judged)}
    assert list(judged) == ["draft1", "draft2", "draft2k"]
    assert all(attempt.node.by_rule for attempt in attempts_of(context.journal.events, TASK.id))


@pytest.mark.parametrize(
    "strategy, device, measured, chosen, count",
    [
        ("serial", "cuda", True, None, KNOBS), ("serial", "cuda:1", False, None, 0), ("serial", "cpu", True, None, 0),
        ("evolve", "cpu", False, None, KNOBS), ("serial", "cuda", True, 0, 0), ("parallel", "cpu", False, 3, 3),
    ],
)  # fmt: skip
def test_knobs_are_tuned_by_default_where_a_gpu_of_this_machine_measures_them(
    strategy: str, device: str, measured: bool, chosen: int | None, count: int
) -> None:
    assert knob_count(strategy, device, measured, chosen) == count


HALVED = module_task("x * 0.5", "torch.randn(64, 512)")
KERNEL_OF_ELEMENTS = """
class ModelNew(Model):
    def forward(self, x):
        t1 = torch.empty_like(x)
        n = t1.numel()
        halved[(triton.cdiv(n, 1024),)](x, t1, n, BLOCK=1024, num_warps=4)
        return t1
"""


def of_elements(folder: Path, memory: Path) -> tuple[tuple[dict[str, Any], ...], EpisodeSearch]:
    """One search in Triton whose blocks of 512 alone are faster."""
    context = episode_context(folder, [answer(KERNEL_OF_ELEMENTS)])
    context.judge, context.knob_memory = AnyJudge(), KnobMemory(memory)
    context.measuring = Scripted(*[{"BLOCK=512": 0.5}] * 2)
    place = search(context, replace(ONE, language="triton"))
    place.task = Task(HALVED, "halved")
    with context.journal:
        asyncio.run(searched(place))
    (event,) = [event for event in read_events(folder) if isinstance(event, Tuned)]
    return event.tried, place


class AnyJudge(FakeJudge):
    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        return verdict_of(f"# speed {2.0 if 'BLOCK=512' in candidate.source else 1.0}")


def test_what_gained_at_a_like_place_is_measured_first_in_the_next_search(tmp_path: Path) -> None:
    tried, _ = of_elements(tmp_path / "one", tmp_path / "knobs.jsonl")
    first = [row["label"] for row in tried]
    assert not first[0].startswith("block=512") and any(label.startswith("block=512") for label in first)
    assert all(row["function"] == "elements" and row["sizes"]["elements"] > 0 for row in tried)
    lines = [json.loads(line) for line in (tmp_path / "knobs.jsonl").read_text().splitlines()]
    other = [{**line, "structure": "of another kernel", "sizes": {"elements": 2 * line["sizes"]["elements"]}} for line in lines]
    (tmp_path / "known.jsonl").write_text("".join(json.dumps(line) + "\n" for line in other))
    tried, place = of_elements(tmp_path / "two", tmp_path / "known.jsonl")
    assert tried[0]["label"].startswith("block=512") and not any(row["remembered"] for row in tried)
    assert place.nodes[-1].author == KNOB_SEARCH and "BLOCK=512" in place.nodes[-1].turn.source
