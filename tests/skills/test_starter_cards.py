"""The starter cards as text: complete, where they belong, and no two the same. Their examples are run beside this file."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter

import pytest
from starter_examples import CARDS, kind, names

from bottega.core.skill import NOTHING_MORE, SkillState
from bottega.skills.starter import FOLDER

pytestmark = pytest.mark.rotates

FAMILIES = {
    "activation", "attention", "conv", "elementwise", "embedding", "indexing", "loss", "matmul", "norm", "pooling", "reduction",
    "rnn", "scan", "softmax",
}  # fmt: skip  # fmt: skip


def test_every_language_has_its_cards() -> None:
    assert len(CARDS) >= 48 and len(CARDS) == len(list(FOLDER.rglob("*.toml")))  # by name, so none is there twice
    count = Counter(language for card in CARDS.values() for language in card.languages)
    assert count["cpp"] >= 18 and count["triton"] >= 15 and count["cuda"] >= 12


def test_cards_are_proposed_and_say_where_they_come_from() -> None:
    for name, card in CARDS.items():
        assert card.state is SkillState.PROPOSED and card.version == 1 and not card.reason
        assert card.provenance.origin == "starter" and card.provenance.source == name


@pytest.mark.parametrize("name", CARDS)
def test_a_card_lies_in_its_folder_and_is_complete(name: str) -> None:
    card = CARDS[name]
    folder = next(FOLDER.rglob(f"{name}.toml")).parent.name
    if folder != "general":
        assert card.languages == (folder,) and card.devices == ("cpu" if folder == "cpp" else "cuda",)
        assert kind(card) == folder
    else:
        assert len(card.languages) > 1 and ("cpu" in card.devices) == ("cpp" in card.languages)
    assert card.scope == "general" or card.scope.removeprefix("family/") in FAMILIES
    assert 3 <= len(card.tags) <= 6 and 3 <= len(card.failures) <= 6
    assert card.intent.endswith(".") and 3 <= card.technique.count("\n- ") + 1 <= 8
    for condition, text in card.conditions.items():
        assert text == NOTHING_MORE or (len(text.split()) >= 5 and text.endswith(".")), condition
    assert not re.search(r"\d(x|\s*%|\s+times)\s+(faster|quicker|slower)|speedup of", card.effect), "a number nobody measured"


def test_no_two_cards_teach_the_same() -> None:
    words = {name: set(re.findall(r"[a-z]{4,}", f"{card.intent} {card.technique}".lower())) for name, card in CARDS.items()}
    alike = {
        (one, other): len(words[one] & words[other]) / len(words[one] | words[other])
        for one, other in itertools.combinations(CARDS, 2)
    }
    closest = max(alike, key=lambda pair: alike[pair])
    assert alike[closest] < 0.4, (closest, alike[closest])


NEEDED = {
    r"\bu?int\d+_t\b|\buintptr_t\b": "cstdint",
    r"std::(min|max|fill|swap|max_element)\b": "algorithm",
    r"std::(exp|sqrt|floor|fabs|copysign|tanh|log|fma)\b|\bINFINITY\b": "cmath",
    r"\bmem(cpy|set)\b": "cstring",
    r"std::vector\b": "vector",
    r"std::pair\b": "utility",
    r"\bomp_get_": "omp.h",
    r"\b_mm": "immintrin.h",
}


@pytest.mark.parametrize("name", names("cpp"))
def test_a_cpp_example_includes_what_it_uses(name: str) -> None:
    """Built together below, one example could live on another's headers."""
    text = CARDS[name].example
    for use, header in NEEDED.items():
        assert bool(re.search(use, text)) == (f"#include <{header}>" in text), header


@pytest.mark.parametrize("name", names("triton", "module"))
def test_a_python_example_parses(name: str) -> None:
    tree = ast.parse(CARDS[name].example)
    jitted = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    assert bool(jitted) == (kind(CARDS[name]) == "triton")
