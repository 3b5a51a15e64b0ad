"""Source text that a stranger wrote, parsed without being run and without a complaint: what is no Python is None."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable

from bottega.core.task import top_level_names

LONGEST = 100_000
"""Characters of a candidate; KernelGYM has the same limit."""


def defines_model(source: str) -> bool:
    """Whether a text is Python that defines `ModelNew`. Longer texts than a candidate may be are not looked at."""
    tree = parsed(source)
    return tree is not None and "ModelNew" in top_level_names(tree)


def parsed(source: str) -> ast.Module | None:
    if len(source) > LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in C++ strings that are not raw
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def compiles(source: str) -> bool:
    """More than that it parses: an import from the future behind other statements, say, parses and is no Python."""
    if parsed(source) is None:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "answer", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def exchanged(source: str, edits: Iterable[tuple[ast.expr, str]]) -> str:
    """The source with texts in place of expressions, none of which lies in another. As many lines as before."""
    lines = [line.encode() for line in source.split("\n")]  # the parser counts columns in bytes
    for node, text in sorted(edits, key=lambda each: (each[0].lineno, each[0].col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        whole = lines[first][: node.col_offset] + text.encode() + lines[last][node.end_col_offset :]
        lines[first : last + 1] = [whole, *[b""] * (last - first)]
    return b"\n".join(lines).decode()
