"""Which installed packages a module's file imports that take seconds to import: a fork server does it once for all its children."""

from __future__ import annotations

import ast

LIBRARIES = ("transformers", "torchvision", "timm", "diffusers", "einops")
"""Packages of which the fork server imports what a task imports: it takes seconds in each of a verdict's processes."""


def libraries_of(source: str) -> list[str]:
    """The modules of such packages that a task's text imports."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = [alias.name for line in body if isinstance(line, ast.Import) for alias in line.names]
    names += [line.module for line in body if isinstance(line, ast.ImportFrom) and line.module and not line.level]
    return [name for name in dict.fromkeys(names) if name.isascii() and name.partition(".")[0] in LIBRARIES]
