"""The Triton writer: a plan in, a whole candidate out. One file for each kind of kernel, one list of techniques."""

from bottega.compiler.backends.triton.techniques import TECHNIQUES
from bottega.compiler.backends.triton.write import write

__all__ = ["TECHNIQUES", "write"]
