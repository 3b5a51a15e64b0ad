"""A backend: writes a plan as source text in one language, and has passes of its own."""

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
