"""Cards that were proved: where the shipped model was trained, and of lineages by a writer that follows cards to the letter. JSON lines, as
`bottega skills export --state admitted` writes them.

A new library begins with them, beside the starter set. They stay *admitted* and keep their evidence, whose trials name the device they were
made on; each card's reason says that this was elsewhere. Where no file is here, a library begins with the starter set alone.
"""

from __future__ import annotations

from pathlib import Path

from bottega.skills.exchange import Imported, import_file
from bottega.skills.library import Added, Library, OnConflict
from bottega.skills.starter import starter_cards

ELSEWHERE = "proved elsewhere"


def shipped_files() -> list[Path]:
    return sorted(Path(__file__).parent.glob("*.jsonl"))


def add_shipped(library: Library, on_conflict: OnConflict = "skip") -> Imported:
    """Everything that ships, with its evidence."""
    whole = Imported()
    for path in shipped_files():
        found = import_file(library, path, on_conflict, trust=True, mark=ELSEWHERE)
        for name in ("added", "already_there", "skipped", "names"):
            getattr(whole.cards, name).extend(getattr(found.cards, name))
        whole.cards.renamed |= found.cards.renamed
        whole.trials += found.trials
        whole.refused += found.refused
    return whole


def add_starter(library: Library, on_conflict: OnConflict = "skip") -> Added:
    return library.add_many(starter_cards(), on_conflict, note="starter set")


def begin_library(library: Library) -> None:
    """Shipped cards first: one that was proved stands for the starter card of the same name, which was not."""
    add_shipped(library)
    add_starter(library)
