"""The cards that were mined on a CPU: what their lineages taught of each other is used when they are retrieved, and only where they were measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bottega.core.device import DeviceFacts
from bottega.core.skill import Skill
from bottega.episodes.selecting import retrieve
from bottega.episodes.settings import EpisodeSettings
from bottega.skills.exchange import import_file
from bottega.skills.library import Library
from bottega.skills.relations import feature_name, in_order, missing
from bottega.tasks.load import load_task

FILE = Path(__file__).parents[2] / "examples" / "experts" / "cards_aarch64.jsonl"
ARM = DeviceFacts("cpu", "Neoverse-N1", "aarch64 asimd", 2, 24.0)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with Library(tmp_path_factory.mktemp("library") / "mined") as made:
        assert not import_file(made, FILE).refused
        yield made


def offered(library: Library, task: str, device: DeviceFacts) -> list[Skill]:
    settings = EpisodeSettings(device="cpu", language="cpp", unproved=True, select="bm25", retrieved=20)
    return retrieve(library, load_task(f"builtin:{task}"), settings, device, library.version)


def test_every_mined_card_says_where_it_was_measured_and_has_its_trials(library: Library) -> None:
    cards = library.cards()
    assert len(cards) > 20
    for card in cards:
        assert card.applies_to.devices == ("aarch64",) and card.applies_to.sizes["bytes"]
        assert library.evidence.trials(card.name), card.name


def test_what_the_order_of_steps_taught_is_in_the_cards(library: Library) -> None:
    """A schedule could be put in again after threads only, in every kernel."""
    schedules = [card for card in library.cards() if feature_name(card.relations.provides[0]) == "schedule"]
    assert len(schedules) > 3
    assert all(card.relations.requires == ("threads",) for card in schedules)


@pytest.mark.rotates
def test_a_task_is_offered_its_cards_with_what_they_require_and_in_order(library: Library) -> None:
    found = offered(library, "logsumexp_rows", ARM)
    assert any(card.relations.requires for card in found)
    assert not any(missing(card, found) for card in found)
    ordered = [feature_name(card.relations.provides[0]) for card in in_order(found)]
    assert ordered.index("threads") < ordered.index("schedule")


def test_what_was_measured_elsewhere_is_not_offered(library: Library) -> None:
    assert not offered(library, "logsumexp_rows", replace(ARM, arch="x86_64 avx2"))
    assert not [card for card in offered(library, "strided_conv2d", ARM) if card.applies_to.kinds == ("row",)]
    assert not [card for card in offered(library, "geglu_bf16", ARM) if "bfloat16" not in card.applies_to.dtypes]
