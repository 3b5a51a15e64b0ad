"""A backend: how the compiler writes a plan down in one language, and which techniques are that language's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.module_frame import Frame
from bottega.compiler.plan import KernelPlan

Write = Callable[[KernelPlan, Frame, frozenset[str]], str]


@dataclass(frozen=True)
class Backend:
    write: Write
    passes: tuple[CompilerPass, ...]
    """In the order in which they are applied."""
