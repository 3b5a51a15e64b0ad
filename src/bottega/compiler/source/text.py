"""Source text that a stranger wrote, parsed without being run and without a complaint: what is no Python is None."""

from __future__ import annotations

import ast
import warnings
from symtable import symtable

from bottega.core.task import top_level_names

LONGEST = 100_000
"""Characters of a candidate; KernelGYM has the same limit."""


def defines_model(source: str) -> bool:
    """Whether a text is Python that defines `ModelNew`. Longer texts than a candidate may be are not looked at."""
    tree = parsed(source)
    return tree is not None and "ModelNew" in top_level_names(tree)


def model_class(tree: ast.Module | None, name: str = "ModelNew") -> ast.ClassDef | None:
    """The one top-level class of this name; None where there is none, or more than one."""
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name] if tree else []
    return found[0] if len(found) == 1 else None


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
    if len(source) > LONGEST:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "answer", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def names_are_sound(source: str) -> bool:
    """What `compiles` would find of where names stand, at a third of its cost: no code is made. Where imports from the future may stand needs it."""
    if len(source) > LONGEST or "__future__" in source:
        return compiles(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable(source, "answer", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
