"""Plans as C++ with OpenMP, compiled by `bottega.runtime.cpp`."""

from bottega.compiler.backend import Backend
from bottega.compiler.backends.cpp.passes import PASSES
from bottega.compiler.backends.cpp.write import write
from bottega.compiler.planner_passes import OWN_ATTENTION, OWN_CONVOLUTION, OWN_PRODUCT

__all__ = ["BACKEND"]

BACKEND = Backend(write, PASSES, (OWN_PRODUCT, OWN_CONVOLUTION, OWN_ATTENTION))
