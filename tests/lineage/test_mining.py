"""The mechanism of a lineage: the walk back, the round trip, and what the order of steps teaches. Taking out any of them fails here."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from lineage.toy import SIBLING, TASK, ScriptedJudge, doubling, kernel, toy_rule, toy_workload, words_of

from bottega.core.errors import UsageError
from bottega.core.skill import AppliesTo
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.lineage.journal import LineageJournal, read_records
from bottega.lineage.mine import CARDS, Expert, Mined, MiningLimits, mine
from bottega.lineage.page import lineage_page
from bottega.lineage.relations import learned
from bottega.lineage.round_trip import RoundTrip, Sibling, by_rules_or_example
from bottega.lineage.rule import Edit, FunctionRule, Rule
from bottega.lineage.step import Attempt, Effect, Step, effect_between
from bottega.lineage.tree import recorded, tree_lines
from bottega.lineage.walk import by_rules
from bottega.skills.conditions import holds
from bottega.skills.exchange import import_file
from bottega.skills.library import Library
from bottega.skills.validation import admit_data


def mined(
    folder: Path,
    judge: ScriptedJudge,
    words: Sequence[str],
    rules: Sequence[Rule] | None = None,
    sibling: bool = False,
    limits: MiningLimits | None = None,
) -> Mined:
    chosen = rules or [toy_rule(word) for word in words]
    expert = Expert("toy_kernel", kernel(*words), "cpp", TASK)
    beside = Sibling(SIBLING, kernel("sibling")) if sibling else None
    with LineageJournal(folder) as journal:
        journal.begin({"kernel": "toy_kernel"})
        propose, redo = by_rules(chosen), by_rules_or_example(chosen)
        return mine(journal, judge, expert, chosen, propose, redo, beside, limits or MiningLimits(), toy_workload)


def test_every_step_takes_one_optimisation_out_of_what_the_judge_accepted(tmp_path: Path) -> None:
    found = mined(tmp_path, ScriptedJudge(doubling), ["alpha", "beta", "gamma"]).lineage
    assert [step.feature for step in found.steps] == ["alpha", "beta", "gamma"]
    for step in found.steps:
        assert set(words_of(step.before)) - set(words_of(step.plain)) == {step.feature}
        effect = step.attempt.effect
        assert effect is not None
        assert effect.point == pytest.approx(2)
        assert effect.low < 2 < effect.high
    assert not words_of(found.plain)
    assert found.ended.startswith("it is plain")


def test_a_refused_step_is_kept_as_risk_and_what_opened_it_requires_it(tmp_path: Path) -> None:
    """beta stands on alpha: without alpha, a kernel with beta is wrong."""
    judge = ScriptedJudge(doubling, right=lambda words: "beta" not in words or "alpha" in words)
    found = mined(tmp_path, judge, ["alpha", "beta", "gamma"])
    assert [step.feature for step in found.lineage.steps] == ["beta", "alpha", "gamma"]
    assert [(after, attempt.feature, attempt.outcome) for after, attempt in found.lineage.refused] == [
        (0, "alpha", "incorrect")
    ]
    cards = {card.tags[0]: card for card in found.cards}
    assert cards["beta"].relations.requires == ("alpha=1",)
    assert cards["alpha"].relations.requires == ()
    assert any("came out incorrect: element 0 is wrong" in text for text in cards["alpha"].failures)
    assert cards["gamma"].relations.requires == ()


def test_a_step_that_works_only_after_another_says_so_in_its_card(tmp_path: Path) -> None:
    judge = ScriptedJudge(doubling, right=lambda words: "beta" not in words or "alpha" in words)
    found = mined(tmp_path, judge, ["alpha", "beta"])
    trips = {trip.number: trip for trip in found.trips}
    assert trips[1].needed == ("alpha=1",)
    assert trips[1].verified
    assert trips[2].needed == ()


def test_a_step_that_pays_only_after_others_requires_them(tmp_path: Path) -> None:
    """As more warps do: with both tiles a gain, with one or none a loss."""

    def speed(words: Sequence[str]) -> float:
        tiles = len({"rows", "columns"} & set(words))
        return 2.0**tiles * (1.0 if "warps" not in words else 1.5 if tiles == 2 else 0.5)

    found = mined(tmp_path, ScriptedJudge(speed), ["warps", "rows", "columns"], sibling=True)
    (trip,) = [trip for trip in found.trips if trip.number == 1]
    assert sorted(trip.needed) == ["columns=1", "rows=1"]
    assert trip.own is not None
    assert trip.own.effect is not None
    assert trip.own.effect.point == pytest.approx(1.5)
    assert trip.verified, "on the sibling too, with both put in first"
    (card,) = [card for card in found.cards if card.tags[0] == "warps"]
    assert sorted(card.relations.requires) == ["columns=1", "rows=1"]


def test_a_step_that_gains_only_behind_others_requires_them_though_alone_it_loses_nothing(tmp_path: Path) -> None:
    """As more stages do; the tile is taken out first, so that it is put in last."""

    def speed(words: Sequence[str]) -> float:
        return 2.0 ** ("tile" in words) * (1.4 if {"tile", "stages"} <= set(words) else 1.0)

    found = mined(tmp_path, ScriptedJudge(speed), ["stages", "tile"])
    (trip,) = [trip for trip in found.trips if trip.number == 1]
    assert trip.needed == ("tile=1",)
    assert trip.own is not None
    assert trip.own.effect is not None
    assert trip.own.effect.point == pytest.approx(1.4)


def test_only_what_was_needed_is_put_into_the_sibling_first(tmp_path: Path) -> None:
    """Two tiles are one feature: of both, the one that is wrong on the sibling is not asked for."""
    tiles = {"rows": 4.0, "depth": 1.1}

    def speed(words: Sequence[str]) -> float:
        product = 1.0
        for word in words:
            product *= tiles.get(word, 1.0)
        return product * (1.0 if "warps" not in words else 1.5 if "rows" in words else 0.5)

    def tile(word: str) -> Rule:
        rule = toy_rule(word)
        assert isinstance(rule, FunctionRule)
        named = replace(rule.technique, name="tile")

        def put_in(source: str, value: str) -> Iterator[Edit]:
            if value == word:
                yield from rule.put_in(source, value)

        def take_out(source: str) -> Iterator[Edit]:
            for edit in rule.take_out(source):
                yield replace(edit, value=word)

        return FunctionRule(named, take_out, put_in)

    class BothTiles:
        technique = replace(toy_rule("rows").technique, name="tile")

        def undo(self, source: str) -> Iterator[Edit]:
            for word in tiles:
                yield from tile(word).undo(source)

        def redo(self, source: str, value: str) -> Iterator[Edit]:
            yield from tile(value).redo(source, value)

    judge = ScriptedJudge(speed, right=lambda words: not {"sibling", "depth"} <= set(words))
    found = mined(tmp_path, judge, ["warps", "rows", "depth"], [toy_rule("warps"), BothTiles()], sibling=True)
    (trip,) = [trip for trip in found.trips if trip.number == 1]
    assert trip.needed == ("tile=rows",)
    assert trip.verified


def test_a_step_that_lost_at_its_place_is_tried_in_the_whole_kernel(tmp_path: Path) -> None:
    """More stages lose where the warps that they go with were taken out before them, and pay in the whole kernel."""

    def speed(words: Sequence[str]) -> float:
        return (2.0 if "warps" in words else 1.0) * (1.0 if "stages" not in words else 1.3 if "warps" in words else 0.7)

    found = mined(tmp_path, ScriptedJudge(speed), ["warps", "stages"])
    stages = found.lineage.steps[1]
    assert stages.attempt.effect is not None
    assert stages.whole is not None
    assert stages.attempt.effect.kind == "loss"
    assert stages.whole.point == pytest.approx(1.3)
    (card,) = [card for card in found.cards if card.tags[0] == "stages"]
    assert card.relations.requires == ("warps=1",)
    assert "1.30x (1.28 to 1.32) in the whole kernel" in card.effect
    assert recorded(read_records(tmp_path)).steps == found.lineage.steps
    assert [
        step.whole
        for step in mined(tmp_path / "b", ScriptedJudge(lambda words: 0.5 ** ("bad" in words)), ["bad"]).lineage.steps
    ]


def test_what_newer_rules_conclude_from_old_verdicts_replaces_what_was_told(tmp_path: Path) -> None:
    mined(tmp_path, ScriptedJudge(doubling), ["alpha", "beta"])
    with LineageJournal(tmp_path) as journal:
        journal.renew("trip/1", {"trip": RoundTrip(1, None).to_json()})
        lines = len((tmp_path / "lineage.jsonl").read_text().splitlines())
        journal.renew("trip/1", {"trip": RoundTrip(1, None).to_json()})
    assert len((tmp_path / "lineage.jsonl").read_text().splitlines()) == lines, "the same again is no news"
    judge = ScriptedJudge(doubling)
    found = mined(tmp_path, judge, ["alpha", "beta"])
    assert not judge.asked
    assert recorded(read_records(tmp_path)).trips[1].verified
    assert found.cards


def test_a_card_that_alone_is_not_enough_is_not_verified(tmp_path: Path) -> None:
    """Its rule has no forward direction, and its example does not fit the plain kernel of the sibling."""
    found = mined(
        tmp_path, ScriptedJudge(doubling), ["alpha", "beta"], [toy_rule("alpha"), toy_rule("beta", forward=False)], sibling=True
    )
    trips = {trip.number: trip for trip in found.trips}
    assert trips[1].verified
    assert trips[1].sibling is not None
    assert not trips[2].verified
    assert trips[2].sibling is None
    reasons = {card.tags[0]: card.reason for card in found.cards}
    assert reasons["alpha"].startswith("verified")
    assert reasons["beta"].startswith("not verified")


def attempt(feature: str, correct: bool = True, point: float = 2.0) -> Attempt:
    return Attempt(feature, "1", "loop", kernel(feature), "faster", correct, Effect(point, point * 0.9, point * 1.1))


def test_what_opened_a_step_and_what_it_needed_are_each_enough_to_require_it() -> None:
    alone, opening = Step(1, attempt("beta"), ""), Step(1, attempt("beta"), "", opened=("alpha",))
    assert learned([opening], {}, [])[1].requires == ("alpha",)
    assert learned([alone], {1: ("alpha",)}, [])[1].requires == ("alpha",)
    assert learned([alone], {}, [])[1].requires == ()


def test_a_step_that_is_not_redone_right_and_no_slower_on_its_own_kernel_is_not_verified() -> None:
    good, wrong, slower = attempt("beta"), attempt("beta", correct=False), attempt("beta", point=0.5)
    assert RoundTrip(1, good).verified
    assert not any(RoundTrip(1, own).verified for own in (None, wrong, slower))
    assert RoundTrip(1, good, sibling=good, asked_sibling=True).verified
    assert not any(RoundTrip(1, good, sibling=there, asked_sibling=True).verified for there in (None, wrong, slower))
    assert not RoundTrip(1, wrong, sibling=good, asked_sibling=True).verified


def test_an_example_is_enough_where_the_plain_kernel_has_its_lines(tmp_path: Path) -> None:
    found = mined(tmp_path, ScriptedJudge(doubling), ["beta"], [toy_rule("beta", forward=False)])
    (trip,) = found.trips
    assert trip.verified
    assert trip.own is not None
    assert words_of(trip.own.source) == ["beta"]


def test_a_step_that_is_wrong_on_the_sibling_is_not_verified(tmp_path: Path) -> None:
    judge = ScriptedJudge(doubling, right=lambda words: not {"sibling", "beta"} <= set(words))
    trips = {trip.number: trip.verified for trip in mined(tmp_path, judge, ["alpha", "beta"], sibling=True).trips}
    assert trips == {1: True, 2: False}
    told = "\n".join(tree_lines(recorded(read_records(tmp_path))))
    assert "✗ not redone on the sibling: incorrect" in told


def test_two_that_are_slower_together_conflict(tmp_path: Path) -> None:
    """Backward, each removal helps or hardly hurts; only putting both into the plain kernel shows it."""

    def speed(words: Sequence[str]) -> float:
        return 1.5 if {"alpha", "beta"} <= set(words) else 2.0 if words else 1.0

    found = mined(tmp_path, ScriptedJudge(speed), ["alpha", "beta"])
    (pair,) = found.pairs
    assert pair.conflict
    (card,) = found.cards
    assert (card.tags[0], card.relations.conflicts) == ("beta", ("alpha",))
    assert (
        mined(tmp_path / "none", ScriptedJudge(speed), ["alpha", "beta"], limits=MiningLimits(pairs=0))
        .cards[0]
        .relations.conflicts
        == ()
    )


def test_what_the_expert_is_faster_without_becomes_no_card(tmp_path: Path) -> None:
    found = mined(tmp_path, ScriptedJudge(lambda words: 0.5 if "bad" in words else 2.0), ["bad", "beta"])
    assert [card.tags[0] for card in found.cards] == ["beta"]
    assert "faster without it" in str(lineage_page(tmp_path).tables[0].rows[0])


def test_a_wrong_expert_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="itself is incorrect"):
        mined(tmp_path, ScriptedJudge(doubling, right=lambda words: False), ["alpha"])


def test_an_interrupted_run_goes_on_and_judges_nothing_twice(tmp_path: Path) -> None:
    words = ["alpha", "beta", "gamma"]
    whole = ScriptedJudge(doubling)
    wanted = mined(tmp_path / "whole", whole, words, sibling=True)
    asked: list[tuple[str, tuple[str, ...]]] = []
    sessions = 0
    while sessions < 60:
        sessions += 1
        judge = ScriptedJudge(doubling, most=1)
        try:
            found = mined(tmp_path / "cut", judge, words, sibling=True)
        except KeyboardInterrupt:
            asked += judge.asked
            continue
        asked += judge.asked
        break
    assert 5 < sessions < 60
    assert found.cards == wanted.cards
    assert sorted(asked) == sorted(set(asked)) == sorted(whole.asked)
    assert (tmp_path / "cut" / CARDS).read_text() == (tmp_path / "whole" / CARDS).read_text()


def test_a_killed_run_goes_on_by_the_same_command(tmp_path: Path) -> None:
    """SIGKILL in the middle of a line: the cut line was never reported, and is done again."""
    program = textwrap.dedent(f"""
        import os, signal, sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from pathlib import Path
        from lineage.toy import ScriptedJudge, doubling
        from lineage.test_mining import mined

        class Dying(ScriptedJudge):
            def judge(self, task, candidate):
                if len(self.asked) == 4:
                    with open(Path(sys.argv[1]) / "lineage.jsonl", "a") as file:
                        file.write('{{"key": "verdict/cut')
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().judge(task, candidate)

        mined(Path(sys.argv[1]), Dying(doubling), ["alpha", "beta", "gamma"])
    """)
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = read_records_until_cut(tmp_path)
    judge = ScriptedJudge(doubling)
    found = mined(tmp_path, judge, ["alpha", "beta", "gamma"])
    assert len(found.lineage.steps) == 3
    assert len(before) == 4
    assert not before & set(judge_keys(tmp_path, judge))


def read_records_until_cut(folder: Path) -> set[str]:
    lines = (folder / "lineage.jsonl").read_text().splitlines()
    assert not lines[-1].endswith("}")
    return {json.loads(line)["key"] for line in lines[:-1] if "verdict/" in line}


def judge_keys(folder: Path, judge: ScriptedJudge) -> list[str]:
    """Keys of what this judge was asked."""
    asked = {words for _, words in judge.asked}
    return [
        key for key, record in read_records(folder).items() if "source" in record and tuple(words_of(record["source"])) in asked
    ]


def test_another_kernel_is_not_written_into_a_run(tmp_path: Path) -> None:
    mined(tmp_path, ScriptedJudge(doubling), ["alpha"])
    with LineageJournal(tmp_path) as journal, pytest.raises(UsageError, match="another kernel"):
        journal.begin({"kernel": "other"})


def test_a_sibling_may_join_a_run_that_had_none_and_the_walk_stays(tmp_path: Path) -> None:
    mined(tmp_path, ScriptedJudge(doubling), ["alpha", "beta"])
    with LineageJournal(tmp_path) as journal:
        journal.begin({"sibling": ""})
    assert read_records(tmp_path)["started"].get("sibling") is None, "an older run is what it was"
    judge = ScriptedJudge(doubling)
    found = mined(tmp_path, judge, ["alpha", "beta"], sibling=True)
    assert {task for task, _ in judge.asked} == {"sibling"}
    assert all(trip.asked_sibling and trip.verified for trip in found.trips)
    for before, after, refused in (("", "other.py", False), ("other.py", "third.py", True), ("other.py", "", True)):
        folder = tmp_path / f"{before}{after}"
        with LineageJournal(folder) as journal:
            journal.begin({"kernel": "k", "sibling": before})
            if refused:
                with pytest.raises(UsageError, match="another sibling"):
                    journal.begin({"kernel": "k", "sibling": after})
            else:
                journal.begin({"kernel": "k", "sibling": after})
        assert read_records(folder)["started"]["sibling"] == (before if refused else after)


def test_a_task_that_was_changed_under_its_name_is_another_one(tmp_path: Path) -> None:
    with LineageJournal(tmp_path) as journal:
        journal.begin({"task": "task.py", "text_of_the_task": "1"})
        with pytest.raises(UsageError, match="another text of the task"):
            journal.begin({"task": "task.py", "text_of_the_task": "2"})


def test_a_run_tells_what_is_judged_and_how_many_effects_are_sure(tmp_path: Path) -> None:
    with LineageJournal(tmp_path) as journal:
        chosen = [toy_rule("alpha")]
        told: list[str] = []
        journal.listeners.append(lambda key, record: told.append(record.get("told", "")))
        expert = Expert("toy_kernel", kernel("alpha"), "cpp", TASK)
        mine(
            journal,
            ScriptedJudge(doubling),
            expert,
            chosen,
            by_rules(chosen),
            by_rules_or_example(chosen),
            None,
            MiningLimits(),
            toy_workload,
        )
    assert [each for each in told if each] == ["the expert kernel", "without alpha"]
    assert recorded(read_records(tmp_path)).surely == "1 of 1 effects sure"
    unclear = mined(tmp_path / "unclear", ScriptedJudge(lambda words: 1.0), ["alpha"])
    assert unclear.cards
    assert recorded(read_records(tmp_path / "unclear")).surely.startswith("none of 1 effects sure: the machine was busy")


def test_the_tree_shows_steps_refusals_and_round_trips(tmp_path: Path) -> None:
    judge = ScriptedJudge(doubling, right=lambda words: "beta" not in words or "alpha" in words)
    mined(tmp_path, judge, ["alpha", "beta"])
    lines = list(tree_lines(recorded(read_records(tmp_path))))
    assert lines[0] == "toy_kernel: the expert kernel"
    assert lines[1] == "├─ × alpha in loop: incorrect"
    assert lines[2].startswith("└─ without beta (1): it was worth 2.00x")
    assert lines[2].endswith("✓ redone")
    assert lines[3].startswith("   └─ without alpha")


def test_cards_enter_a_library_with_their_evidence_and_relations(tmp_path: Path) -> None:
    judge = ScriptedJudge(doubling, right=lambda words: "beta" not in words or "alpha" in words)
    found = mined(tmp_path / "run", judge, ["alpha", "beta"], sibling=True)
    with Library(tmp_path / "library") as library:
        report = import_file(library, tmp_path / "run" / CARDS)
        assert not report.refused
        names = {card.name for card in found.cards}
        assert set(report.cards.added) == names
        card = library.get("toy_kernel_beta")
        assert card.relations.requires == ("alpha=1",)
        assert card.relations.provides == ("beta=1",)
        assert {trial.kind for trial in library.evidence.trials(card.name)} == {"round trip"}


def test_a_card_applies_where_its_step_was_measured_and_nowhere_else(tmp_path: Path) -> None:
    def only_at_home(words: Sequence[str]) -> bool:
        return not {"beta", "sibling"} <= {*words}

    found = mined(tmp_path / "run", ScriptedJudge(doubling, right=only_at_home), ["alpha", "beta"], sibling=True)
    both, own = (next(card for card in found.cards if card.name == f"toy_kernel_{word}") for word in ("alpha", "beta"))
    eighth, eightfold = (1 << 14) // 8, (1 << 14) * 8
    assert own.applies_to == AppliesTo(("aarch64",), ("float32",), kinds=("row",), sizes={"bytes": (eighth, eightfold)})
    assert both.applies_to.kinds == ("row", "product")
    assert both.applies_to.dtypes == ("float32", "bfloat16")
    assert both.applies_to.sizes == {"bytes": (eighth, 16 * eightfold)}
    assert holds(both.applies_to, toy_workload(SIBLING))
    assert not holds(own.applies_to, toy_workload(SIBLING))
    for card in (own, both):
        assert holds(card.applies_to, toy_workload(TASK))
        assert admit_data(card.to_json()).applies_to == card.applies_to, "a library takes it"


def test_an_effect_has_the_error_of_both_verdicts() -> None:
    def verdict(point: float, spread: float) -> Verdict:
        return Verdict(Outcome.FASTER, True, {"eager": Speedup(point, point / spread, point * spread)})

    effect = effect_between(verdict(1.0, 1.1), verdict(3.0, 1.1))
    assert effect is not None
    assert effect.point == pytest.approx(3)
    assert 3 / 1.21 < effect.low < 3 / 1.1
    assert 3 * 1.1 < effect.high < 3 * 1.21
    assert effect.kind == "gain"
    assert effect_between(verdict(1.0, 1.1), Verdict(Outcome.AMBIGUOUS)) is None
    unbounded = effect_between(verdict(1.0, 1.1), Verdict(Outcome.FASTER, True, {"eager": Speedup(2.0, 1.5, float("inf"))}))
    assert unbounded is not None
    assert unbounded.kind == "gain"
