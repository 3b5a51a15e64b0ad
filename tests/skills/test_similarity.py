"""How alike cards are: what is reworded or renumbered stays alike, and the sweep finds planted pairs among many."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from skill_cards import PLAIN, card

from bottega.core.skill import AppliesTo, Skill
from bottega.skills.similarity import ALIKE, PERMUTATIONS, likely_pairs, signature, similarity
from bottega.skills.starter import starter_cards

CODE = """for (int64_t row = 0; row < rows; ++row) {
  float best = -INFINITY;
  for (int64_t i = 0; i < 256; ++i) best = std::max(best, x[row * 256 + i]);
  y[row] = best;
}"""


def signed(*skills: Skill) -> np.ndarray:
    return np.stack([np.frombuffer(signature(skill), dtype=np.uint32) for skill in skills])


def estimate(one: Skill, other: Skill) -> float:
    return float((signed(one)[0] == signed(other)[0]).mean())


def test_a_card_is_like_itself_and_unlike_another() -> None:
    cards = starter_cards()
    assert similarity(cards[0], cards[0]) == 1.0 == estimate(cards[0], cards[0])
    assert similarity(cards[0], cards[1]) < 0.2
    assert similarity(cards[0], cards[1]) == similarity(cards[1], cards[0])


def test_numbers_and_comments_do_not_make_a_new_skill() -> None:
    one = card(example=CODE)
    changed = CODE.replace("256", "1024").replace("y[row] = best;", "y[row] = best;  // the largest of the row")
    assert similarity(one, card(example=changed)) == 1.0
    assert similarity(one, card(example=f"/* by blocks\n of 64 */ {CODE}")) == 1.0
    assert similarity(one, card(example=CODE.replace("std::max", "combine"))) < 1.0


def test_numbers_make_a_new_card_where_conditions_are_typed() -> None:
    """Which number is best for which sizes is all that such a card says."""

    def choice(block: int, columns: int) -> Skill:
        technique = (
            f"Launch kernels that hold several rows with height = max(1, {block} // width) and num_warps={block // 512}."
        )
        return card(
            f"rows_of_{block}_warps_{block // 512}",
            intent=f"float32 rows, {columns} to {2 * columns - 1} columns: rows_of={block}, warps={block // 512}.",
            technique=technique,
            example=technique,
            applies_to=AppliesTo(dtypes=("float32",), kinds=("row",), sizes={"columns": (columns, 2 * columns - 1)}),
        )

    assert similarity(choice(2048, 256), choice(1024, 256)) == 0.0 == similarity(choice(2048, 256), choice(2048, 512))
    assert similarity(choice(2048, 256), choice(2048, 257)) >= ALIKE, "ranges that meet"
    assert similarity(choice(2048, 256), choice(2048, 256)) == 1.0
    plain = [replace(choice(block, 256), applies_to=AppliesTo()) for block in (2048, 1024)]
    assert similarity(*plain) >= ALIKE


def test_the_same_code_under_other_words_is_half_alike() -> None:
    words = "Nothing that stands here was ever said by the card beside which it is now to be held and weighed."
    other = card("elsewhere", intent=words, anchor=words, technique=words, example=CODE)
    assert 0.45 <= similarity(card(example=CODE), other) <= 0.65


@pytest.mark.parametrize("example", ["// a comment only", "+", "..........", "読む読む読む読む読む"])
def test_code_without_words_has_a_similarity_too(example: str) -> None:
    odd = card(example=example)
    assert similarity(odd, odd) == 1.0
    assert 0.0 <= similarity(odd, PLAIN) <= 1.0
    assert len(signature(odd)) == 4 * 2 * PERMUTATIONS


def test_signatures_estimate_the_similarity() -> None:
    chance = random.Random(1)
    words = [f"w{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(300)]
    errors = []
    for share in (0.0, 0.2, 0.5, 0.8, 1.0):
        base = chance.choices(words, k=120)
        other = [word if chance.random() < share else chance.choice(words) for word in base]
        one, two = (card(technique=" ".join(part), example=" ".join(part)) for part in (base, other))
        errors.append(estimate(one, two) - similarity(one, two))
    assert max(map(abs, errors)) < 0.15 and abs(sum(errors) / len(errors)) < 0.08


def test_planted_pairs_are_found_among_many() -> None:
    chance = np.random.default_rng(4)
    signatures = chance.integers(0, 2**32, (3000, 2 * PERMUTATIONS), dtype=np.uint32)
    planted = [(10, 2500), (77, 78), (5, 2999)]
    for one, other in planted:
        keep = chance.random(2 * PERMUTATIONS) < 0.85
        signatures[other, keep] = signatures[one, keep]
    found = likely_pairs(signatures)
    assert sorted((one, other) for one, other, _ in found) == sorted(planted)
    assert all(abs(alike - 0.85) < 0.12 for _, _, alike in found)


def test_a_crowd_of_equals_is_found_by_its_first() -> None:
    signatures = np.random.default_rng(5).integers(0, 2**32, (50, 2 * PERMUTATIONS), dtype=np.uint32)
    signatures[10:40] = signatures[10]
    found = likely_pairs(signatures, ALIKE)
    assert {(one, other) for one, other, _ in found} == {(10, other) for other in range(11, 40)}


def test_no_cards_and_one_card_have_no_pairs() -> None:
    assert likely_pairs(signed(PLAIN)) == [] == likely_pairs(signed(PLAIN)[:0])
