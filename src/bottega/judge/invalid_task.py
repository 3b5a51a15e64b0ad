"""How it is said that a task cannot be judged: an exception, and a report of its fitness."""

from __future__ import annotations

from typing import Any

UNUSABLE = "unusable"
"""The problem of a task that cannot even be run."""


class InvalidTask(Exception):
    """The text says why, and what to do about it."""


_WORDS = (
    "out of memory",
    "out_of_memory",
    "outofmemory",
    "allocate memory",
    "defaultcpuallocator",
    "status_alloc_failed",
    "more memory than",
    "fit the memory",
)


def out_of_memory(text: str) -> bool:
    """Whether an error's text is about want of memory: an allocator's, a library's, or one of the judge's own. torch raises a plain
    RuntimeError for it on a CPU, and libraries say it with codes of their own."""
    lowered = text.lower()
    return any(words in lowered for words in _WORDS)


def unusable(reason: str) -> dict[str, Any]:
    """The report of a task that cannot even be run, in the form that `Judge.fitness` gives for others."""
    return {"fit": False, "problems": [{"name": UNUSABLE, "detail": reason}], "facts": {}}
