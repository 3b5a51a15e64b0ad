"""Where a syntax tree's nodes lie in a text: Python counts columns in bytes, and a kernel's comments may be in any alphabet."""

from __future__ import annotations

from itertools import accumulate


class TextPlaces:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self.starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        """Of each line, and behind the last."""

    def at(self, line: int, column: int) -> int:
        """The character at a node's line and column."""
        return self.starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode(errors="replace"))
