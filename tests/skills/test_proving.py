"""Proofs: paired by seed, written down as they go, resumed where they stopped, and concluded once, whoever else is at it.

The attempts are functions of their terms in place of a model and a judge, which take minutes; everything else is as it is in use.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from skill_cards import Child, card, in_children, task, verdict

from bottega.core.errors import BackboneError, LibraryError, UsageError
from bottega.core.skill import Skill, SkillState
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.skills.gate import Decision, Rules
from bottega.skills.library import Library
from bottega.skills.proving import WINNERS, Proof, prove
from bottega.skills.upkeep import restore

Say = Callable[[Any], None]
TASKS = (task("softmax"), task("log_softmax"))
RULES = Rules(most_rounds=12)


class Bench:
    """Attempts with the card are worth `gain` times those without; every call is written down."""

    def __init__(self, gain: float = 2.0, again: float | None = None) -> None:
        self.gain, self.again = gain, again
        self.attempts: list[tuple[str, tuple[str, ...], int]] = []
        self.confirmed: list[str] = []

    def attempt(self, task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
        self.attempts.append((task.name, tuple(skill.name for skill in skills), seed))
        factor = self.gain if any(skill.name == "tile_rows" for skill in skills) else 1.0
        noise = random.Random(f"{seed} {task.id}").uniform(0.95, 1.05)
        return verdict(1.2 * factor * noise, candidate_id=f"{task.name} {seed}", fingerprint={"device": "a cpu", "judge": "7"})

    def confirm(self, task: Task, verdict_: Verdict) -> Verdict:
        self.confirmed.append(verdict_.candidate_id)
        return verdict_ if self.again is None else verdict(self.again)

    def prove(self, library: Library, **terms: Any) -> Decision:
        run = terms.pop("run", map)
        return prove(library, proof(library, **terms), self.attempt, self.confirm, run=run)


def proof(library: Library, **terms: Any) -> Proof:
    return Proof(library.get("tile_rows"), **{"tasks": TASKS, "rules": RULES, **terms})


@pytest.fixture
def library(tmp_path: Path) -> Library:
    made = Library(tmp_path)
    made.add(card())
    return made


def test_a_good_card_is_admitted_with_its_evidence(library: Library) -> None:
    bench = Bench(2.0)
    decision = bench.prove(library)
    assert decision.step == "admit" and decision.rounds < RULES.most_rounds
    found = library.get("tile_rows")
    assert (found.state, found.reason) == (SkillState.ADMITTED, decision.reason)
    trials = library.evidence.trials("tile_rows")
    assert [(trial.task_name, trial.sibling, trial.decision) for trial in trials] == [
        ("softmax", False, "admitted"),
        ("log_softmax", True, "admitted"),
    ]
    for trial in trials:
        assert len(trial.with_skill) == len(trial.without_skill) == decision.rounds
        assert all(a == pytest.approx(2 * b, rel=1e-5) for a, b in zip(trial.with_skill, trial.without_skill))
        assert (trial.device, trial.judge_version, trial.baseline, trial.skill_version) == ("a cpu", "7", "eager", 1)
        assert trial.gain.point == pytest.approx(2.0) and trial.at


def test_arms_differ_by_the_card_alone_and_share_their_seeds(library: Library) -> None:
    beside = library.add(card("beside"))
    bench = Bench(2.0)
    decision = bench.prove(library, beside=(beside,), seed=100)
    seeds = range(100, 100 + decision.rounds)
    arms = {("beside",), ("beside", "tile_rows")}
    assert sorted(bench.attempts) == sorted((task.name, arm, seed) for task in TASKS for arm in arms for seed in seeds)


def test_a_card_without_a_gain_is_refused_with_its_evidence_and_stays_proposed(library: Library) -> None:
    bench = Bench(1.0)
    decision = bench.prove(library)
    assert decision.step == "refuse" and decision.rounds == RULES.least_rounds
    found = library.get("tile_rows")
    assert (found.state, found.reason) == (SkillState.PROPOSED, decision.reason)
    assert [trial.decision for trial in library.evidence.trials("tile_rows")] == ["refused", "refused"]
    assert bench.confirmed == []


def test_winners_are_judged_again_and_must_hold(library: Library) -> None:
    bench = Bench(2.0, again=1.0)
    decision = bench.prove(library)
    assert decision.step == "refuse" and "did not hold their speedup when judged again" in decision.reason
    assert len(bench.confirmed) == WINNERS * len(TASKS) == len(set(bench.confirmed))
    assert library.get("tile_rows").state is SkillState.PROPOSED
    assert min(library.evidence.trials("tile_rows")[0].with_skill) == 1.0, "the worse of both figures is the evidence"
    held = Bench(2.0)
    assert held.prove(library, seed=50).step == "admit" and len(held.confirmed) == WINNERS * len(TASKS)


def test_a_proof_needs_its_own_task_and_siblings_all_different(library: Library) -> None:
    for tasks in ((), TASKS[:1], (TASKS[0], TASKS[0]), (*TASKS, TASKS[1])):
        with pytest.raises(UsageError, match="sibling"):
            proof(library, tasks=tasks)


def test_other_terms_are_another_proof(library: Library) -> None:
    first = proof(library)
    beside = library.add(card("beside"))
    others = [
        proof(library, seed=1),
        proof(library, rules=Rules(most_rounds=11)),
        proof(library, beside=(beside,)),
        proof(library, tasks=(*TASKS, task("relu"))),
        proof(library, tasks=TASKS[::-1]),
        proof(library, setting="cuda"),
        replace(first, skill=replace(first.skill, effect="Another effect.")),
    ]
    assert len({other.id for other in (first, *others)}) == 8
    assert proof(library).id == first.id == replace(first, skill=replace(first.skill, reason="other")).id


def test_a_pool_comes_to_what_one_after_the_other_comes_to(tmp_path: Path) -> None:
    decisions = []
    for number in range(2):
        with Library(tmp_path / str(number)) as library, ThreadPoolExecutor(4) as pool:
            library.add(card())
            decisions.append(Bench(1.9).prove(library, run=pool.map if number else map))
    assert decisions[0] == decisions[1] and decisions[0].step == "admit"


def test_an_attempt_that_fails_stops_the_proof_and_loses_nothing(library: Library) -> None:
    bench, calls = Bench(2.0), 0

    def failing(task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise BackboneError("the writer is gone")
        return bench.attempt(task, skills, seed)

    with pytest.raises(BackboneError):
        prove(library, proof(library), failing, bench.confirm)
    assert library.evidence.trials("tile_rows") == [] and len(library.evidence.attempts(proof(library).id)) == 7
    done = list(bench.attempts)
    decision = bench.prove(library)
    assert decision.step == "admit"
    assert bench.attempts[: len(done)] == done and len(set(bench.attempts)) == len(bench.attempts), "an attempt was made twice"


@pytest.mark.rotates
def test_a_proof_stopped_among_its_second_figures_comes_to_the_same_end(tmp_path: Path) -> None:
    """A figure that did not hold must not make the rounds before it look weaker than they looked at the time."""
    ends = []
    for stop in (None, 1, 3):
        bench = Bench(2.0, again=1.0)
        with Library(tmp_path / str(stop)) as library:
            library.add(card())

            def confirm(task: Task, given: Verdict, bench: Bench = bench, stop: int | None = stop) -> Verdict:
                if len(bench.confirmed) == stop:
                    bench.confirmed.append("stopped")
                    raise BackboneError("stopped")
                return bench.confirm(task, given)

            if stop is not None:
                with pytest.raises(BackboneError):
                    prove(library, proof(library), bench.attempt, confirm)
            ends.append(prove(library, proof(library), bench.attempt, confirm))
            assert len(bench.confirmed) - bool(stop) == WINNERS * len(TASKS)
    assert ends[0] == ends[1] == ends[2] and ends[0].step == "refuse"


def test_a_killed_proof_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card())
        terms = proof(library)
    chance, kills, made = random.Random(6), 0, list[Any]()

    def run(say: Say) -> None:
        bench = Bench(2.0)

        def attempt(task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
            say([task.id, "with" if skills else "without", seed])
            time.sleep(0.004)
            return bench.attempt(task, skills, seed)

        with Library(tmp_path) as library, ThreadPoolExecutor(2) as pool:
            say(prove(library, proof(library), attempt, bench.confirm, run=pool.map).step)

    while True:
        with Library(tmp_path) as library:
            kept = {tuple(key.split("/")) for key in library.evidence.attempts(terms.id)}
        child = Child(run)
        time.sleep(chance.uniform(0.02, 0.12))
        if kills < 8:
            child.kill()
        said = child.said()
        tried = [answer for answer in said if isinstance(answer, list)]
        assert not kept & {(f"{seed:04d}", task_id, arm) for task_id, arm, seed in tried}, "a kept attempt was made again"
        made += tried
        if said and said[-1] == "admit":
            break
        kills += 1
        assert not any(isinstance(answer, dict) for answer in said), said
    with Library(tmp_path) as library:
        assert library.get("tile_rows").state is SkillState.ADMITTED and len(library.evidence.trials("tile_rows")) == 2
        expected = Bench(2.0)
        with Library(tmp_path / "straight") as straight:
            straight.add(card())
            decision = expected.prove(straight)
            assert [replace(t, at="") for t in straight.evidence.trials("tile_rows")] == [
                replace(t, at="") for t in library.evidence.trials("tile_rows")
            ]
        assert len(made) <= len(expected.attempts) + 2 * kills, "at most the attempts that were under way are made again"
        assert decision.step == "admit"


@pytest.mark.rotates
def test_two_processes_that_prove_the_same_card_conclude_it_once(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card())
        terms = proof(library)

    def run(say: Say) -> None:
        bench, luck = Bench(2.0), random.Random(os.getpid())

        def attempt(task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
            time.sleep(luck.uniform(0.0, 0.004))
            found = bench.attempt(task, skills, seed).speedup["eager"].point
            return verdict(found * luck.uniform(0.8, 1.2))

        with Library(tmp_path) as library:
            decision = prove(library, terms, attempt, bench.confirm)
            say([decision.step, decision.reason])

    said = in_children(run, run, run)
    assert said[0] == said[1] == said[2] and said[0][0][0] in ("admit", "refuse"), "each counted its own attempts"
    with Library(tmp_path) as library:
        assert len(library.evidence.trials("tile_rows")) == 2
        moves = [entry.skill.state for entry in library.history("tile_rows")]
        assert len(moves) == 2, "it moved once"


def test_a_card_that_is_revised_meanwhile_stays_as_it_was_revised(library: Library) -> None:
    bench = Bench(2.0)

    def attempt(task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
        if len(bench.attempts) == 6:
            library.revise("tile_rows", card(effect="A new text."))
        return bench.attempt(task, skills, seed)

    terms = proof(library)
    assert prove(library, terms, attempt, bench.confirm).step == "admit"
    found = library.get("tile_rows")
    assert (found.state, found.effect, found.version) == (SkillState.PROPOSED, "A new text.", 2)
    assert [trial.skill_version for trial in library.evidence.trials("tile_rows")] == [1, 1]


def test_a_card_that_is_retired_meanwhile_stays_retired(library: Library) -> None:
    bench = Bench(2.0)

    def attempt(task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
        if len(bench.attempts) == 6:
            library.move("tile_rows", SkillState.RETIRED, "no longer wanted")
        return bench.attempt(task, skills, seed)

    assert prove(library, proof(library), attempt, bench.confirm).step == "admit"
    assert library.get("tile_rows").reason == "no longer wanted"
    assert len(library.evidence.trials("tile_rows")) == 2
    with pytest.raises(UsageError, match="skills restore tile_rows"):
        Bench(2.0).prove(library, seed=9)


def test_a_concluded_proof_is_told_again_and_moves_nothing(library: Library) -> None:
    first = Bench(2.0).prove(library)
    library.move("tile_rows", SkillState.RETIRED, "no uplift in use")
    restore(library, "tile_rows")
    again = Bench(2.0)
    assert again.prove(library) == first and again.attempts == [] == again.confirmed
    assert library.get("tile_rows").state is SkillState.PROPOSED, "what retired it must be disproved by new attempts"
    assert Bench(2.0).prove(library, seed=1000).step == "admit"
    assert library.get("tile_rows").state is SkillState.ADMITTED


def test_a_refused_proof_that_is_told_again_is_refused_again(library: Library) -> None:
    first = Bench(2.0, again=1.0).prove(library)
    version = len(library.history("tile_rows"))
    assert Bench(2.0, again=1.0).prove(library) == first
    assert len(library.history("tile_rows")) == version


def test_an_unknown_card_is_not_proved(library: Library) -> None:
    terms = replace(proof(library), skill=card("nobody"))
    with pytest.raises(LibraryError, match="no card is named 'nobody'"):
        prove(library, terms, Bench().attempt, Bench().confirm)
