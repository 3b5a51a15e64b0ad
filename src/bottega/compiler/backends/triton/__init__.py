"""The Triton writer: a plan in, a whole candidate out. One file for each kind of kernel, one list of techniques."""

from bottega.compiler.backend import Backend
from bottega.compiler.backends.triton.passes import PASSES
from bottega.compiler.backends.triton.write import write

__all__ = ["BACKEND"]

BACKEND = Backend(write, PASSES)
