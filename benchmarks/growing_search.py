"""A library that grows by search, in place of RL (`growing_library.py`): it begins empty, the cheap measuring mode finds what is faster on one task,
and the gate tries it there and on tasks that were drawn, by verdicts, before the card is admitted. Nothing is trained.

Cards are the compiler's techniques (the starter card that teaches one, on the kernel with and without it) and, in Triton, the choices of the sweep's
tasks (none of its times). The writer at the gate does what a card says and nothing else, so it always writes the same two texts: the gate's bound is
about measuring, not about writers. A verdict serves `SERVED` attempts. Each admitted card is in the library at once; the same call goes on after a
kill, and what was measured or judged is not measured or judged again.

    python benchmarks/growing_search.py grown_search --seconds 400 --device cuda
    python benchmarks/growing_search.py grown_search --seconds 200 --device cpu --workers 1 --limit 8
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from batching_judge import BatchingJudge
from choice_card_rows import sizes_told
from choice_distil import is_held_out
from choice_places import places_of
from choice_sweep import RESULTS, rows_of, tasks_of
from choice_tasks import SweepTask
from figure import Device, Workers, where
from growing_library import card_table
from growing_rows import told_card

from bottega.compiler.library_compiler import LibraryCompiler
from bottega.compiler.step_compiler import passes_of
from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError
from bottega.core.skill import Skill, SkillState
from bottega.core.task import Task
from bottega.core.trial import GainInterval
from bottega.core.verdict import Verdict
from bottega.judge.trusted.judge import TrustedJudge
from bottega.skills.conditions import around
from bottega.skills.gate import Decision, Rules
from bottega.skills.library import Library
from bottega.skills.proving import Proof, prove
from bottega.skills.starter import starter_cards
from bottega.tasks.load import load_tasks

SWEEP = Path(__file__).parent / "choice_sweep_h200"
LIBRARY, MEASURED = "library", "measured.jsonl"
RULES = Rules(threshold=1.02, cap=6.0, least_rounds=8, most_rounds=24)
SERVED = 4
MEASURED_ROUNDS, LEAST_GAIN, SIBLINGS, SIDE_BY_SIDE = 12, 1.05, 6, 4
LONGEST_MS = 2.0
MEASURING = 0.5
"""Share of the time."""


class OutOfTimeError(BottegaError):
    """The proof goes on in the next call."""


@dataclass(frozen=True)
class Follower:
    """What a writer writes for a task who follows a card, and who does not."""

    key: str
    """The same advice has the same one on all tasks; for which sizes, its card says."""
    place: str
    """Where in the task's kernel; of several choices for one place the best is proposed."""
    task: Task
    followed: Candidate
    other: Candidate
    skill: Skill
    """As it would be written after this task."""
    sizes: Mapping[str, int]

    def fits(self, skill: Skill) -> bool:
        return all(low <= self.sizes.get(name, -1) <= high for name, (low, high) in skill.applies_to.sizes.items())


def techniques(language: str) -> dict[str, tuple[Skill, frozenset[str]]]:
    """Cards of the starter set with the passes that they teach; of several cards for one pass the first, since the gate could not tell them apart."""
    cards, taught = {card.name: card for card in starter_cards()}, dict[str, set[str]]()
    for each in passes_of(language):
        name = next((name for name in each.cards if name in cards and language in cards[name].languages), None)
        if name is not None:
            taught.setdefault(name, set()).add(each.name)
    return {name: (replace(cards[name], state=SkillState.PROPOSED), frozenset(passes)) for name, passes in taught.items()}


def by_technique(task: Task, language: str) -> list[Follower]:
    """Those that change the compiler's kernel."""
    found, compiler = list[Follower](), LibraryCompiler()
    for name, (skill, passes) in techniques(language).items():
        try:
            whole = found[0].followed if found else compiler.build(task, language).steps[-1].candidate
            less = compiler.build(task, language, passes).steps[-1].candidate
        except BottegaError:
            continue
        if whole.source != less.source:
            found.append(Follower(name, name, task, whole, less, skill, {}))
    return found


def by_choice(one: SweepTask, functions: Sequence[str] = ()) -> list[Follower]:
    """Of places whose function's name has one of these words in it; of all if there are none."""
    places, found = places_of(one), []
    for change in one.variants:
        place = places.get(change.place)
        if place is not None and (not functions or any(word in place.function for word in functions)):
            size = sizes_told(place)[0]
            card = told_card(place, one.dtype, change.label, {size: around(place.sizes[size])})
            digits = hashlib.sha256(repr((card.technique, card.applies_to)).encode()).hexdigest()[:6]
            card = replace(card, name=f"{card.name[:57].rstrip('_')}_{digits}")
            key = f"{place.function} {one.dtype} {change.label}"
            found.append(Follower(key, change.place, one.task, one.candidate([change]), one.candidate(), card, place.sizes))
    return found


def followers(device: str, limit: int, processes: int, functions: Sequence[str] = ()) -> list[Follower]:
    """Of the built-in tasks, and on a GPU of the sweep's that are not set aside."""
    language = "cpp" if device == "cpu" else "triton"
    tasks = sorted(load_tasks(["builtin"], size="cpu" if device == "cpu" else "gpu").tasks, key=lambda task: len(task.source))
    swept: list[SweepTask] = []
    if device != "cpu":
        rows = {row["task"]: row for row in rows_of(SWEEP / RESULTS) if not is_held_out(row)}
        swept = [one for one in tasks_of(SWEEP) if one.id in rows and 0 < (rows[one.id].get("rule_ms") or 0) <= LONGEST_MS]
    random.Random(0).shuffle(swept)
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        chosen = pool.map(partial(by_choice, functions=functions), swept[: limit or None], chunksize=4)
        known = pool.map(partial(by_technique, language=language), tasks[: limit or None])
        return [one for some in (*known, *chosen) for one in some]


class Growth:
    """The library, and what was measured so far."""

    def __init__(self, folder: Path, every: Sequence[Follower], judge: TrustedJudge, end: float) -> None:
        self.judge, self.gate, self.end, self.path = judge, BatchingJudge(judge, served=SERVED), end, folder / MEASURED
        self.library = Library(folder / LIBRARY)
        self.by_key: dict[str, dict[str, Follower]] = {}
        self.by_task: dict[str, list[Follower]] = {}
        for one in every:
            self.by_key.setdefault(one.key, {}).setdefault(one.task.id, one)
            self.by_task.setdefault(one.task.id, []).append(one)
        self.texts = {text.id: text for one in every for text in (one.followed, one.other)}
        self.times: dict[str, dict[str, float | None]] = {row["task"]: row["ms"] for row in rows_of(self.path)}
        self.lock = threading.Lock()

    @property
    def admitted(self) -> list[Skill]:
        return self.library.cards(SkillState.ADMITTED)

    def grow(self, wanted: int, measuring_until: float) -> None:
        """All tasks are measured first, as far as their time goes, so that the gate's goes to the most promising cards."""
        tasks = list(self.by_task)
        with ThreadPoolExecutor(self.judge.workers) as pool, open(self.path, "a", encoding="utf-8") as file:
            for task, ms in zip(tasks, pool.map(partial(self.measured, until=measuring_until), tasks)):
                if task not in self.times and ms:
                    self.times[task] = ms
                    file.write(json.dumps({"task": task, "ms": ms}) + "\n")
                    file.flush()
        proposals = self.proposals()
        print(f"{len(self.times)} of {len(tasks)} tasks measured, {len(proposals)} cards for the gate", flush=True)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            list(pool.map(partial(self.tried, wanted=wanted), proposals))

    def measured(self, task: str, until: float) -> dict[str, float | None]:
        """Milliseconds of a task's texts, side by side in the cheap mode; none of a wrong one. This decides only what the gate is given."""
        if task in self.times or time.monotonic() > until:
            return self.times.get(task, {})
        texts = {text.id: text for one in self.by_task[task] for text in (one.other, one.followed)}
        try:
            found = self.judge.judge_many(
                self.by_task[task][0].task, list(texts.values()), rounds=MEASURED_ROUNDS, profiled=False
            )
        except BottegaError:
            return {}
        right = [verdict is not None and verdict.outcome.accepted for verdict in found]
        return {
            name: verdict.times_ms.get("candidate") if ok and verdict else None
            for name, verdict, ok in zip(texts, found, right)
        }

    def gain(self, one: Follower) -> float:
        ms = self.times.get(one.task.id, {})
        followed, other = ms.get(one.followed.id), ms.get(one.other.id)
        return other / followed if followed and other else 0.0

    def proposals(self) -> list[Follower]:
        """Of each place of a task what gained most, if it is no loss on the siblings either; the most promising first, and none that says what one
        before it says. That a card pays on tasks where it was measured is what the gate has to find again, by verdicts of its own."""
        best: dict[tuple[str, str], Follower] = {}
        for one in (one for some in self.by_task.values() for one in some if self.gain(one) >= LEAST_GAIN):
            place = (one.task.id, one.place)
            best[place] = max(best.get(place, one), one, key=self.gain)
        found: list[Follower] = []
        for one in sorted(best.values(), key=self.promise, reverse=True):
            said = any(one.fits(other.skill) for other in found if other.key == one.key)
            if not said and self.siblings(one) and self.promise(one) > 0:
                found.append(one)
        return found

    def promise(self, one: Follower) -> float:
        """The mean logarithm of what it gained where the gate will try it, beyond the gate's threshold; unmeasured tasks count as no gain."""
        tasks = [one.task.id, *(task.id for task in self.siblings(one))]
        gains = [math.log(self.gain(self.by_key[one.key][task]) or 1.0) for task in tasks]
        return sum(gains) / len(gains) - math.log(RULES.threshold)

    def siblings(self, one: Follower) -> list[Task]:
        """Drawn, and not by what they gain."""
        others = [other for other in self.by_key[one.key].values() if other.task.id != one.task.id and other.fits(one.skill)]
        drawn = random.Random(one.skill.name).sample(sorted(others, key=lambda each: each.task.id), min(SIBLINGS, len(others)))
        return [each.task for each in drawn]

    def tried(self, one: Follower, wanted: int) -> None:
        with self.lock:
            if one.skill.name not in self.library:
                self.library.add(one.skill)
        skill, siblings = self.library.get(one.skill.name), self.siblings(one)
        if skill.state is not SkillState.PROPOSED or time.monotonic() > self.end or len(self.admitted) >= wanted:
            return

        def attempt(task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
            if time.monotonic() > self.end:
                raise OutOfTimeError("the time is over")
            follower = self.by_key[one.key][task.id]
            return self.gate.judge(task, follower.followed if skills else follower.other)

        def confirm(task: Task, verdict: Verdict) -> Verdict:
            return self.gate.judge(task, self.texts[verdict.candidate_id], quick=False)

        begun, proof = time.monotonic(), Proof(replace(skill, reason=""), (one.task, *siblings), RULES, setting="follows cards")
        try:
            with ThreadPoolExecutor(2 * len(proof.tasks)) as attempts:
                decision = prove(self.library, proof, attempt, confirm, run=attempts.map)
        except BottegaError as error:
            decision = Decision("go on", f"{type(error).__name__}: {error}", GainInterval(1.0, 1.0, 1.0))
        told = f"{decision.step} {skill.name}, measured {self.gain(one):.2f}x on its own task, {len(siblings)} siblings"
        print(f"{told}: {decision.reason} ({time.monotonic() - begun:.0f} s)", flush=True)


def main(
    folder: Annotated[Path, typer.Argument(help="Where the library and what was measured are kept.")],
    seconds: Annotated[float, typer.Option(min=1, help="Begin nothing new after so long; the same call goes on.")] = 400.0,
    device: Device = "cuda",
    workers: Workers = 14,
    wanted: Annotated[int, typer.Option(min=1, help="End when so many cards are admitted.")] = 30,
    limit: Annotated[int, typer.Option(min=0, help="So many tasks of each kind; 0 for all.")] = 0,
    processes: Annotated[int, typer.Option(min=1)] = 12,
    functions: Annotated[str, typer.Option(help="Choices of places with these words in their function's name, by comma.")] = "",
) -> None:
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    every = followers(device, limit, processes, tuple(filter(None, functions.split(","))))
    print(
        f"{len(every)} kernels that follow {len({one.key for one in every})} pieces of advice, {time.monotonic() - begun:.0f} s"
    )
    with TrustedJudge(device, workers=workers) as judge:
        growth = Growth(folder, every, judge, begun + seconds)
        growth.grow(wanted, time.monotonic() + MEASURING * (growth.end - time.monotonic()))
        print("\n".join([f"{time.monotonic() - begun:.0f} s in this call", *card_table(growth.library), where(device)]))
        growth.library.close()


if __name__ == "__main__":
    typer.run(main)
