"""Fenced blocks of an answer. Only lines that may be fences are looked at, so that a megabyte of junk costs nothing.

Markdown's own rules are not enough for what models write: an opening with a language inside a block begins a new block, and a block
that is never closed runs to the end.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from itertools import islice

MOST = 1000
"""Fences that are looked at: no answer has as many."""

_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})([^\n`]*)$", re.M)


@dataclass(frozen=True)
class Fence:
    """A line that may open or close a block."""

    start: int
    end: int
    indent: str
    mark: str
    info: str


@dataclass(frozen=True)
class Block:
    info: str
    """The first word behind the opening fence, in lower case: `python`, or nothing."""
    body: str
    start: int
    """Where the opening fence begins in the text."""
    end: int
    """Behind the closing fence, or behind the text."""
    closed: bool


def fences(text: str) -> list[Fence]:
    found = islice(_FENCE.finditer(text), MOST)
    return [Fence(m.start(), m.end(), m.group(1), m.group(2), m.group(3).strip()) for m in found]


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    opening: Fence | None = None
    for fence in fences(text):
        if opening is None:
            opening = fence
        elif fence.mark[0] != opening.mark[0] or len(fence.mark) < len(opening.mark):
            continue
        elif fence.info:
            found.append(between(text, opening, fence, closed=False))
            opening = fence
        else:
            found.append(between(text, opening, fence))
            opening = None
    if opening is not None:
        found.append(between(text, opening, None, closed=False))
    return found


def between(text: str, opening: Fence, closing: Fence | None, closed: bool = True) -> Block:
    """What lies between two fences, or behind the last one."""
    body = text[opening.end + 1 : closing.start if closing else len(text)]
    words = opening.info.lower().split()
    end = len(text) if closing is None else closing.end if closed else closing.start
    return Block(words[0] if words else "", textwrap.dedent(body) if opening.indent else body, opening.start, end, closed)


def outside(text: str, found: list[Block]) -> str:
    """The text without its blocks."""
    pieces, at = [], 0
    for block in found:
        pieces.append(text[at : block.start])
        at = block.end
    return "\n".join([*pieces, text[at:]])


def fenced(source: str, info: str = "") -> str:
    """A block around a source, with a fence that the source does not contain; nothing for nothing."""
    if not source.strip():
        return ""
    longest = max((len(run) for run in re.findall(r"`{3,}", source)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{info}\n{source.strip(chr(10))}\n{mark}"
