"""Plans as CUDA, compiled by `bottega.runtime.cuda`: maps, rows, pools and scans. Products and convolutions stay with torch."""

from bottega.compiler.backend import Backend
from bottega.compiler.backends.cuda.passes import PASSES
from bottega.compiler.backends.cuda.write import write

__all__ = ["BACKEND"]

BACKEND = Backend(write, PASSES)
