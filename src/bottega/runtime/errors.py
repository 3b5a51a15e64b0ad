"""Errors between a kernel's text and its result, one type each, whose message says what to do.

The runtime imports nothing else of Bottega, so that an exported kernel can carry it along: these errors stand alone.
"""

from __future__ import annotations


class CompileError(RuntimeError):
    """The compiler refused the source. The message holds its first errors; `log` everything it said."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class ArgumentError(TypeError):
    """A call does not fit the function's declaration; nothing was run."""


class LaunchError(RuntimeError):
    """The CUDA driver refused to load or to launch a kernel, or reported the failure of an earlier one."""


class UnavailableError(RuntimeError):
    """This machine lacks what is needed: a compiler, NVRTC, a GPU, a folder to build in."""
