"""Knobs apart from structure: the values of a right kernel's knobs are searched in the cheap measuring mode, those first that gained at like places.
An evolution, which compares structures, has every kernel tuned before it is compared; every other search the best one when it ends.

The measuring mode does not withstand a kernel that cheats (`judge/trusted`). It runs only what the judge has accepted already, with other numbers,
and decides only which text the judge is given next: the kernel with the best setting gets a verdict like any other, and counts as a kernel.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bottega.compiler.answer_choices import AnswerChange, changed
from bottega.compiler.callgraph import CallGraph
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.compiler.choice_places import ChoicePlace, places_of
from bottega.compiler.knobs import Knobs, knobs_of
from bottega.compiler.link import linked
from bottega.compiler.strip import stripped
from bottega.compiler.workload import workload_of
from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError, BudgetError, NoJudgeError, SandboxError
from bottega.core.event import Tuned
from bottega.core.turn import Turn
from bottega.core.verdict import Verdict
from bottega.episodes.node import SearchNode
from bottega.episodes.writing import EpisodeSearch
from bottega.languages import candidate_from, language_named

KNOB_SEARCH = "knob search"
"""The author of a kernel whose knobs were tuned."""
ROUNDS, AGAIN = 12, 24
"""Of all settings together, and of those that looked best against the kernel as it was written."""
LOOKS_BETTER, SURE = 1.01, 1.02
FINALISTS = 2
TEMPLATE = (
    "Name each number that is worth tuning, on a line of its own with the values to try: "
    "`TILE = 64  # knobs: 32 64 128`, or in C++ `constexpr int TILE = 64;  // knobs: 32 64 128`."
)
"""What a writer is told where its knobs will be tuned."""


def tuned_name(name: str) -> str:
    return f"{name}k"


async def tune_best(search: EpisodeSearch) -> None:
    """The best kernel of a search, when it ends. Where there is no measuring mode it stays as it was written: a verdict for each setting is dear."""
    best = search.best
    if best is not None and best.author != KNOB_SEARCH and search.context.measuring is not None:
        await tuned(search, best, by_judge=False)


async def tuned(search: EpisodeSearch, node: SearchNode, by_judge: bool = True) -> SearchNode:
    """The same kernel with better knobs where that is surely faster; else the node itself. `by_judge`: where there is no measuring mode the judge
    measures, which takes longer."""
    baseline = search.settings.baseline
    if not search.settings.knobs or node.score(baseline) <= 0 or search.context.budget.reached(("tokens", "money", "seconds")):
        return node
    key = f"{search.episode}/tune/{node.id}"
    found = search.context.journal.done(key, Tuned)
    if found is None:
        found = await search.context.journal.once(key, Tuned, lambda: _tuned(search, node, key, by_judge))
        search.context.knob_memory.remember(found)
    if not found.source:
        return node
    turn = Turn("write", "", source=found.source, summary=f"{node.id} with {', '.join(found.chosen)}")
    try:
        better = await search.submit(tuned_name(node.id), turn, node.id, node.scheme, author=KNOB_SEARCH)
    except BudgetError as error:
        search.ended = search.ended or str(error)
        return node
    return better if better.score(baseline) > node.score(baseline) else node


async def _tuned(search: EpisodeSearch, node: SearchNode, key: str, by_judge: bool) -> Tuned:
    begun = time.monotonic()
    graph = await asyncio.to_thread(shared_tracer().trace, search.task)
    library = language_named(search.settings.language).kernel_library
    knobs, places = _read(stripped(node.turn.source, search.task.source), graph if library else None)
    place = (search.episode, node.id, search.context.device.name, _shape(graph), knobs.structure)
    earlier = _alike(search, node, place[2:])
    if earlier is not None:
        return Tuned(key, *place, chosen=earlier.chosen, gain=earlier.gain, source=earlier.source)
    tuner = _Tuner(search, node, knobs, place[2:], places, _dtype(graph), by_judge)
    if not knobs.places:
        return Tuned(key, *place)
    try:
        chosen, gain = await tuner.best()
    except (BudgetError, NoJudgeError):
        raise
    except BottegaError:  # of the measuring mode: the kernel stays as it was written
        chosen, gain = [], 1.0
    source = tuner.candidate(chosen).source if chosen else ""
    labels = tuple(change.label for change in chosen)
    seconds = round(time.monotonic() - begun, 3)
    return Tuned(key, *place, tuple(tuner.tried), tuner.dtype, tuner.base_ms, labels, round(gain, 4), source, seconds)


def _read(answer: str, graph: CallGraph | None) -> tuple[Knobs, dict[str, ChoicePlace]]:
    """The knobs and where they are; none of a text that is nested so deep that nobody can read it."""
    try:
        knobs = knobs_of(answer, graph)
        return knobs, places_of(answer, knobs.places, graph) if graph is not None else {}
    except RecursionError:
        return Knobs(answer, {}), {}


def _alike(search: EpisodeSearch, node: SearchNode, where: tuple[str, ...]) -> Tuned | None:
    """What was found for a kernel of the same structure in this episode: only the values differed, and they were tried. A value is any expression,
    so that a draft, which is trusted, takes nothing from what a model wrote."""
    barred = {one.id for one in search.nodes if node.by_rule and not one.by_rule}
    events = (event for event in search.context.journal.events if isinstance(event, Tuned))
    return next(
        (
            one
            for one in events
            if one.episode == search.episode
            and one.tried
            and one.node not in barred
            and (one.device, one.shape, one.structure) == where
        ),
        None,
    )


@dataclass
class _Tuner:
    search: EpisodeSearch
    node: SearchNode
    knobs: Knobs
    where: tuple[str, ...]
    """Device, shapes and structure."""
    places: dict[str, ChoicePlace]
    dtype: str
    by_judge: bool

    def __post_init__(self) -> None:
        self.tried: list[dict[str, object]] = []
        self.base_ms: float | None = None

    def candidate(self, changes: Sequence[AnswerChange]) -> Candidate:
        if not changes:
            return self.node.candidate
        library = self.search.settings.answers.library
        source = linked(changed(self.knobs.answer, changes), self.search.task.source, library)
        return candidate_from(source, name=tuned_name(self.node.id), parent=self.node.id)

    async def best(self) -> tuple[list[AnswerChange], float]:
        """The setting that was surely best, and its gain; nothing where the kernel's own is."""
        singles = self.knobs.settings(self.search.settings.knobs, self._promise)
        times: dict[str, float | None] = {}
        fresh: list[AnswerChange] = []
        for one in singles:
            known, milliseconds = self.search.context.knob_memory.known((*self.where, one.place, one.label))  # type: ignore[arg-type]
            times[one.label] = milliseconds
            fresh += [] if known else [one]
        measured = await self._times([[], *([one] for one in fresh)], ROUNDS)
        self.base_ms = measured[0]
        times |= {one.label: milliseconds for one, milliseconds in zip(fresh, measured[1:])}
        self.tried = [
            {"place": one.place, "label": one.label, "ms": times[one.label], "remembered": one not in fresh, **self._where(one)}
            for one in singles
        ]
        if self.base_ms is None:
            return [], 1.0
        gains = [(self.base_ms / ms, one) for one in singles if (ms := times[one.label])]
        better = sorted((row for row in gains if row[0] > LOOKS_BETTER), key=lambda row: -row[0])
        return await self._sure([one for _, one in better])

    def _promise(self, change: AnswerChange) -> float:
        """What it gained at like places of this device; 1 where nothing is known."""
        place = self.places.get(change.place)
        if place is None:
            return 1.0
        return self.search.context.knob_memory.gains.expected(self.search.context.device.name, self.dtype, place, change.label)

    def _where(self, change: AnswerChange) -> dict[str, object]:
        place = self.places.get(change.place)
        return {} if place is None else {"function": place.function, "sizes": place.sizes}

    async def _sure(self, better: Sequence[AnswerChange]) -> tuple[list[AnswerChange], float]:
        """Those that looked best, and the best of each place together, against the kernel again: the first times were picked by their noise."""
        finalists = [[one] for one in better[:FINALISTS]]
        by_place: dict[str, AnswerChange] = {}
        for one in better:
            by_place.setdefault(one.place, one)
        finalists += [list(by_place.values())] if len(by_place) > 1 else []
        if not finalists:
            return [], 1.0
        base, *times = await self._times([[], *finalists], AGAIN)
        right = [(ms, place) for place, ms in enumerate(times) if ms]
        if not base or not right or base / min(right)[0] < SURE:
            return [], 1.0
        fastest, place = min(right)
        return finalists[place], base / fastest

    async def _times(self, settings: Sequence[Sequence[AnswerChange]], rounds: int) -> list[float | None]:
        """Milliseconds of each setting, None where it is not right."""
        context, task = self.search.context, self.search.task
        candidates = [self.candidate(changes) for changes in settings]
        async with context.phases.judging(self.search.settings.device):
            verdicts = await self._measured(candidates, rounds)
            if verdicts is None:  # there is no such mode here
                if not self.by_judge:
                    raise SandboxError("nothing measures knobs here")
                verdicts = await asyncio.gather(*(context.judge.judge_async(task, one) for one in candidates))
        return [one.times_ms.get("candidate") if one is not None and one.outcome.accepted else None for one in verdicts]

    async def _measured(self, candidates: Sequence[Candidate], rounds: int) -> Sequence[Verdict | None] | None:
        """By the measuring mode; None without one, also where this machine cannot give it the whole sandbox."""
        context = self.search.context
        if context.measuring is None:
            return None
        try:
            return await asyncio.to_thread(
                context.measuring.judge_many, self.search.task, candidates, rounds=rounds, profiled=False
            )
        except SandboxError:
            context.measuring = None
            return None


def _dtype(graph: CallGraph | None) -> str:
    """Of the operation that moves most bytes."""
    operations = workload_of(graph).operations
    return max(operations, key=lambda one: one.sizes.get("bytes", 0)).dtype if operations else ""


def _shape(graph: CallGraph | None) -> str:
    tensors = [one for given in graph.inputs for one in given.tensors] if graph is not None else []
    return ", ".join(one.type_text for one in tensors)
