"""Loops over one row that sum or compare. Their texts are those of the kernel library."""

from __future__ import annotations

from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.library.cpp import sweeps


def sweep(function: FunctionWriter, operation: str, kind: str, split: bool) -> str:
    """Have the loop for a reduction defined, and return its name. `split`: its iterations are shared among threads."""
    texts = sweeps.sweep(operation, kind, split)
    for name, text in texts:
        function.prelude.add(name, text)
    return texts[-1][0]


def first_of(function: FunctionWriter, kind: str) -> str:
    """The search for a value that is already known, as after a maximum over the same elements."""
    name, text = sweeps.first_of(kind)
    function.prelude.add(name, text)
    return name
