"""Plans as C++ with OpenMP, compiled by `bottega.runtime.cpp`."""

from bottega.compiler.backend import Backend
from bottega.compiler.backends.cpp.passes import PASSES
from bottega.compiler.backends.cpp.write import write

__all__ = ["BACKEND"]

BACKEND = Backend(write, PASSES)
