"""Plans as CUDA, compiled by `bottega.runtime.cuda`: maps, rows, pools and scans. Products and convolutions stay with torch."""

from bottega.learn.teachers.builder.cuda.techniques import TECHNIQUES
from bottega.learn.teachers.builder.cuda.writer import write

__all__ = ["TECHNIQUES", "write"]
