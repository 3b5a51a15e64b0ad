"""How wide a kernel's indices are: 64 bits where an offset passes 32, and else 32, which take fewer registers.

All indices are made of program ids and lanes, so a kernel over large tensors is the usual text with these cast.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bottega.compiler.view import Buffer

INT32 = 1 << 31
BEYOND = 1 << 24
"""How far an index may run past a tensor's end, in lanes that are masked and in the step behind a loop's last."""
WIDEST_GRID = 65535
"""Programs along any axis of a grid but the first."""
_SOURCE = re.compile(r"tl\.(?:program_id\(\d\)|arange\(0, \w+\))")


def is_large(buffers: Iterable[Buffer]) -> bool:
    """Whether offsets into one of them pass what 32 bits hold."""
    return any(buffer.size >= INT32 - BEYOND for buffer in buffers)


def in_64_bits(line: str) -> str:
    """A kernel's line with the indices that begin in it cast."""
    return _SOURCE.sub(r"\g<0>.to(tl.int64)", line)
