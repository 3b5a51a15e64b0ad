"""Text that a stranger wrote (candidates, tasks, what their processes and compilers say), read in one pass and made fit to be shown.

Such text is read in trusted processes under no limit of time. So nothing here searches ahead or goes back: each step takes one token,
and the work grows with the length of the text and with nothing else. Every value that is put into words has a length limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

_TOKEN = re.compile(r'[^\W\d]\w*|\d\w*|\\?"C\\?"|\n|\\n|[^\w\s]')
"""Each alternative is a run of one class of characters or of fixed length: whatever the text, no character is looked at more than a few times."""
_ESCAPED = {"\\n": "\n", '\\"C\\"': '"C"', '\\"C"': '"C"', '"C\\"': '"C"'}
_MARKS = re.compile(r"([\\`*{}\[\]<>#|~!&$]|(?<![^\W_])_|_(?![^\W_]))")
"""What Markdown may take for its own; an underscore inside a word is none."""
_VISIBLE = frozenset("\n\t")
REPLACEMENT = "\ufffd"


def tokens(text: str) -> Iterator[str]:
    """Words, numbers, line ends and single signs. What is written inside a string counts like the rest: `"C"` is one token, also with its
    quotation marks escaped, and an escaped line end is a line end."""
    for match in _TOKEN.finditer(text):
        token = match[0]
        yield _ESCAPED.get(token, token)


def is_name(token: str) -> bool:
    return bool(token) and (token[0].isalpha() or token[0] == "_")


def printable(text: str) -> str:
    """Text without what would move a terminal's cursor, reverse its lines or break an encoder."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in _VISIBLE else REPLACEMENT for c in text)


def one_line(text: str, longest: int = 200) -> str:
    """The beginning of a text on one line, for a name, a title or a cell of a table."""
    line = " ".join(printable(text[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def markdown_text(text: str) -> str:
    """A text on one line of Markdown, in a paragraph, a heading or a cell, with nothing in it that would be taken for Markdown or HTML."""
    return _MARKS.sub(r"\\\1", " ".join(printable(text).split()))


def html_text(text: str) -> str:
    """A text in HTML that is what it looks like: no tags, no control or direction marks."""
    return escape(printable(text))


def words_of(value: Any, longest: int) -> str:
    """What another process said where a text was expected, cut; nothing where it said something else. Nests are never printed: they may
    be deeper than this process can recurse."""
    if isinstance(value, str):
        return value[:longest]
    return str(value)[:longest] if isinstance(value, bool | int | float) else ""


def shown(value: Any, longest: int = 100) -> str:
    """A foreign value as Python would write it, cut; of a container only its type."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)[:longest]
    return repr(value[:longest])[:longest] if isinstance(value, str) else f"a {type(value).__name__}"
