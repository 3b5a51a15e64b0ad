"""The Triton writer: a plan in, a whole candidate out. One file for each kind of kernel, one list of techniques."""

from bottega.learn.teachers.builder.triton.techniques import TECHNIQUES
from bottega.learn.teachers.builder.triton.write import write

__all__ = ["TECHNIQUES", "write"]
