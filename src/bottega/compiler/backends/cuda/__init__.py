"""Plans as CUDA, compiled by `bottega.runtime.cuda`: maps, rows, pools and scans. Products and convolutions stay with torch."""

from bottega.compiler.backends.cuda.techniques import TECHNIQUES
from bottega.compiler.backends.cuda.writer import write

__all__ = ["TECHNIQUES", "write"]
