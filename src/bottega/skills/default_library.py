"""The default library of a user: its folder, and its first cards, which are the starter set (*proposed*) and the shipped cards."""

from __future__ import annotations

import os
from pathlib import Path

from bottega.core.errors import UsageError
from bottega.skills.library import Library
from bottega.skills.shipped import begin_library


def default_folder() -> Path:
    """`BOTTEGA_LIBRARY`, or a folder in the user's data directory."""
    named = os.environ.get("BOTTEGA_LIBRARY")
    if named:
        return Path(named)
    try:
        data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    except RuntimeError:
        raise UsageError(
            "no home directory is known, so no place for a library: give --library, or set BOTTEGA_LIBRARY"
        ) from None
    return data / "bottega" / "skills"


def open_library(folder: Path | None = None, *, create: bool = False) -> Library:
    """A named library must exist unless it may be made. The default one is made on first use, with the cards that come along."""
    if folder is not None:
        return Library(folder, create=create)
    library = Library(default_folder())
    if library.version == 0:
        begin_library(library)
    return library
