"""Plans as C++ with OpenMP, compiled by `bottega.runtime.cpp`."""

from bottega.compiler.backends.cpp.techniques import TECHNIQUES
from bottega.compiler.backends.cpp.writer import write

__all__ = ["TECHNIQUES", "write"]
