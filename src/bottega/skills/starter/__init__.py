"""The cards that come with Bottega: one TOML file each, in folders by language, all *proposed* until a machine has proved them."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import replace
from pathlib import Path

from bottega.core.errors import CardError
from bottega.core.skill import Provenance, Skill
from bottega.skills.validation import admit_data

FOLDER = Path(__file__).parent


@functools.cache
def starter_cards() -> tuple[Skill, ...]:
    """Every shipped card, by name."""
    return tuple(sorted((read_card(path) for path in FOLDER.rglob("*.toml")), key=lambda card: card.name))


def read_card(path: Path, origin: str = "starter") -> Skill:
    """A card from one of our TOML files. It must be named like its file, so that a name is found by looking."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CardError(f"{path}: not a TOML card: {error}") from None
    card = admit_data(data, path.name)
    if card.name != path.stem:
        raise CardError(f"{path}: the card is named {card.name}; name the file {card.name}.toml")
    return replace(card, provenance=Provenance(origin=origin, source=path.stem))
