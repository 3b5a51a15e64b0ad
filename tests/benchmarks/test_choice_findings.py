"""A statement that one half of the tasks chooses is kept where the other half bears it out; what holds by chance on one half is not."""

from __future__ import annotations

import json
import random
from pathlib import Path

import choice_findings
from choice_findings import CHOOSING, CONFIRMING, SET_ASIDE, Measured, card_line, findings

from bottega.compiler.choice_places import ChoicePlace
from bottega.skills.exchange import import_file, read_foreign
from bottega.skills.library import Library

DEVICE = "NVIDIA H200"


def measured(gain_of: dict[str, float], columns: tuple[int, ...], seed: int = 0) -> list[Measured]:
    """Of `warps=2`, which is so much faster where rows are short, by the part a task belongs to."""
    chance, found = random.Random(seed), []
    for part, gain in gain_of.items():
        for number, length in enumerate(columns):
            short = gain if length < 1024 else 0.8
            over = short * chance.uniform(0.97, 1.03)
            place = ChoicePlace("row", "row", {"rows": 4096, "columns": length})
            found.append(
                Measured(f"{part} {number}", part, place, "float32", "warps=2", "name", (2.0, 2.0 * over), (0.98, 1.02))
            )
    return found


COLUMNS = tuple(range(100, 3000, 100))


def test_the_range_is_found_and_kept_where_the_other_half_agrees() -> None:
    found = findings(measured({CHOOSING: 1.3, CONFIRMING: 1.3, SET_ASIDE: 1.3}, COLUMNS), DEVICE)
    kept = [one for one in found if one.survives]
    assert kept and all((one.size, one.high, one.choice) == ("columns", 1023, "warps=2") for one in kept)
    assert all(1.25 < one.interval(SET_ASIDE)[0] < 1.35 for one in kept)


def test_what_only_one_half_shows_is_chosen_and_not_kept() -> None:
    found = findings(measured({CHOOSING: 1.3, CONFIRMING: 1.0, SET_ASIDE: 1.0}, COLUMNS), DEVICE)
    assert found and not any(one.survives for one in found)


def test_too_few_tasks_bear_nothing_out() -> None:
    some = [*measured({CHOOSING: 1.3}, COLUMNS), *measured({CONFIRMING: 1.3}, (100, 200, 300, 400))]
    found = findings(some, DEVICE)
    assert found and not any(one.survives for one in found)


def test_a_finding_is_a_card_that_a_library_takes_with_trials_of_tasks_that_did_not_choose_it() -> None:
    some = measured({CHOOSING: 1.3, CONFIRMING: 1.3}, COLUMNS)
    one = next(one for one in findings(some, DEVICE) if one.survives)
    data = json.loads(card_line(one, some))
    assert {trial["task_id"] for trial in data["evidence"]} == one.gains[CONFIRMING].keys()
    assert all(trial["decision"] == "unfinished" for trial in data["evidence"])
    skill = read_foreign(data, "line 1", "cards.jsonl")
    assert (
        skill.state == "proposed" and skill.conditions.hardware == "NVIDIA H200." and "1023 columns" in skill.conditions.layout
    )


def test_the_cards_that_are_kept_with_the_sweep_come_into_a_library_as_proposed(tmp_path: Path) -> None:
    library = Library(tmp_path / "library")
    done = import_file(library, Path(choice_findings.__file__).parent / "choice_sweep_h200" / "cards.jsonl")
    assert not done.refused and len(done.cards.names) == 6 and done.trials == 57
    cards = [library.get(name) for name in done.cards.names]
    assert all(card.state == "proposed" and card.applies_to.devices == (DEVICE,) for card in cards)
