"""A card's example of a step: the lines that change, before and after. It is what a reader sees, and it can be applied to another text.

Applying finds the lines of `before` in the text, white space aside, and puts those of `after` in their place: where a text has no such lines,
the card alone is not enough for it.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator

BEFORE, AFTER = "before:", "after:"
LONGEST = 3000
CONTEXT = 1


def example_of(plain: str, optimised: str, comment: str) -> str:
    """Hunks of plain and optimised lines, with a line of context around each; the longest leave where there are too many."""
    hunks = []
    one, other = plain.splitlines(), optimised.splitlines()
    for group in difflib.SequenceMatcher(None, one, other, autojunk=False).get_grouped_opcodes(CONTEXT):
        before = one[group[0][1] : group[-1][2]]
        after = other[group[0][3] : group[-1][4]]
        hunks.append(f"{comment} {BEFORE}\n" + _lines(before) + f"\n{comment} {AFTER}\n" + _lines(after))
    text = "\n".join(hunks)
    while len(text) > LONGEST and len(hunks) > 1:
        hunks.remove(max(hunks, key=len))
        text = "\n".join(hunks)
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def _lines(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines)).rstrip() or " "


def hunks_of(example: str) -> list[tuple[list[str], list[str]]]:
    """Of each hunk the lines before and after."""
    found: list[tuple[list[str], list[str]]] = []
    side = -1
    for line in example.splitlines():
        word = re.sub(r"^\s*(?://|#)\s*", "", line).strip()
        if word == BEFORE:
            found.append(([], []))
            side = 0
        elif word == AFTER and found:
            side = 1
        elif found:
            found[-1][side].append(line)
    return found


def applied(source: str, example: str) -> Iterator[str]:
    """The source with every hunk of an example done to it; nothing where a hunk has no place."""
    lines = source.splitlines()
    for before, after in hunks_of(example):
        wanted = [" ".join(line.split()) for line in before if line.strip()]
        place = _place(lines, wanted)
        if place is None or not wanted:
            return
        start, end = place
        indent = re.match(r"\s*", lines[start])
        lead = indent[0] if indent else ""
        lines[start:end] = [f"{lead}{line}" if line.strip() else "" for line in after if line.strip()]
    result = "\n".join(lines) + ("\n" if source.endswith("\n") else "")
    if result != source:
        yield result


def _place(lines: list[str], wanted: list[str]) -> tuple[int, int] | None:
    """Where these lines stand, one behind the other, empty lines aside."""
    plain = [(number, " ".join(line.split())) for number, line in enumerate(lines) if line.strip()]
    for first in range(len(plain) - len(wanted) + 1):
        if [text for _, text in plain[first : first + len(wanted)]] == wanted:
            return plain[first][0], plain[first + len(wanted) - 1][0] + 1
    return None
