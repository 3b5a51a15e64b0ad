"""Keys for deduplication: by operators, parameters and class of shapes, and by normalised syntax tree."""

from __future__ import annotations

import ast
import hashlib
import math
import re
from typing import Any

from bottega.core.task import parsed
from bottega.tasks.synth.compose import ModuleDraft


def draft_key(draft: ModuleDraft) -> str:
    """However its operators are written."""
    state = draft.state
    text = "\n".join((*state.lines, *state.made.values(), *state.inputs.values()))
    numbers = re.findall(r"(?<!\w)\d[\d.]*(?:e-\d+)?", text)
    return _digest((draft.operators, draft.start, [bucket(float(number)) for number in numbers]))


def tree_key(source: str) -> str:
    """Of the whole file: names are numbered, numbers are classes of size, so that only what computes is left."""
    tree = parsed(source, "task")
    names: dict[str, str] = {}
    words: list[str] = []
    for node in ast.walk(tree):
        words.append(type(node).__name__)
        for field in ("id", "arg", "attr", "name"):
            text = getattr(node, field, None)
            if isinstance(text, str):
                own = field in ("id", "arg") and text not in ("torch", "nn", "F")
                words.append(names.setdefault(text, f"v{len(names)}") if own else text)
        if isinstance(node, ast.Constant) and not isinstance(node.value, str):
            words.append(bucket(node.value) if isinstance(node.value, int | float) else repr(node.value))
    return _digest(words)


def bucket(number: float) -> str:
    """Sizes within a factor of the square root of two are one class."""
    if isinstance(number, bool) or number <= 8 or math.isinf(number):
        return repr(number)
    return f"2^{round(2 * math.log2(number)) / 2:g}"


def _digest(thing: Any) -> str:
    return hashlib.sha256(repr(thing).encode()).hexdigest()[:16]
