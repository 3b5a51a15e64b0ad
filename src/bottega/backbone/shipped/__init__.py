"""The trained model that comes along, as a delta to the embedded one: `bottega.difference`, and `CARD.md`, which says how it was made.

Both are written by `bottega model pack`. Where they are missing, the embedded model is the plain one.
"""

from __future__ import annotations

from pathlib import Path

FILE, CARD = "bottega.difference", "CARD.md"


def shipped_delta() -> Path | None:
    """Where the delta lies, if this copy of Bottega has one."""
    path = Path(__file__).parent / FILE
    return path if path.is_file() else None
