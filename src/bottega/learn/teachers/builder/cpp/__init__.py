"""Plans as C++ with OpenMP, compiled by `bottega.runtime.cpp`."""

from bottega.learn.teachers.builder.cpp.techniques import TECHNIQUES
from bottega.learn.teachers.builder.cpp.writer import write

__all__ = ["TECHNIQUES", "write"]
