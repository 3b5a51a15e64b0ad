"""A sketch, read: which tensors are given, the calls in order, what is returned. `compiler/callgraph.py` writes it.

Whoever compares an answer with its sketch, or makes one from it, reads it here, so that all see the same calls. A line that is none of these is
passed over: a sketch comes out of a cell that ran the task's own code, and may be any text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Shape = tuple[int, ...]

SAME_VALUES = frozenset(
    ("unsqueeze", "squeeze", "view", "reshape", "permute", "transpose", "flatten", "unflatten", "contiguous", "dropout", "t", "T", "mT", "clone")
)  # fmt: skip
"""Operators that give the values that they are given, from another side."""

_NAME = r"t\d\w*"
_SIZE = r"(?:scalar|\d{1,18}(?:x\d{1,18})*)"
_GIVEN = re.compile(rf"^([A-Za-z_][\w.\[\]]*) ({_SIZE})(?: \w+)?$")
_CALL = re.compile(rf"^({_NAME}(?:, {_NAME})*) = (\w+)\((.*)\)(?: ((?:\d|scalar).*))?$")
_TENSOR = re.compile(rf"(?<!\S)({_SIZE})(?: (?!scalar)([a-z]\w*))?(?!\S)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_RESULT = re.compile(r"(?<![\w.])t\d+(?:_\d+)?(?!\w)")


@dataclass(frozen=True)
class Call:
    names: tuple[str, ...]
    """Of its results."""
    operator: str
    arguments: str
    sizes: tuple[Shape, ...] = ()
    """Of the results in order; one where they are all alike, none where the line tells none."""
    dtypes: tuple[str, ...] = ()
    """Beside `sizes`."""

    @property
    def text(self) -> str:
        """`max(t1, dim=1)`."""
        return f"{self.operator}({self.arguments})"

    @property
    def line(self) -> str:
        """`t2_0, t2_1 = max(t1, dim=1)`: as an answer tells it."""
        return f"{', '.join(self.names)} = {self.text}"

    @property
    def size(self) -> Shape | None:
        """Of the first result, where it is told."""
        return self.sizes[0] if self.sizes else None

    @property
    def words(self) -> list[str]:
        """Every word of the arguments: results, inputs, options, the parts of a weight's place."""
        return _WORD.findall(self.arguments)

    @property
    def reads(self) -> list[str]:
        """Results of other calls among the arguments."""
        return results_in(self.arguments)


@dataclass(frozen=True)
class Sketch:
    given: Mapping[str, Shape]
    """Inputs and weights by their places, `x` and `self.conv.weight`; not those whose place has a quoted key."""
    calls: tuple[Call, ...]
    returned: str
    """As Python writes it: `t3`, `(t1, t2)`, `{'loss': t3}`."""

    def by_name(self) -> dict[str, Call]:
        """Every result with the call that makes it."""
        return {name: call for call in self.calls for name in call.names}


def shapes_of(sketch: Sketch) -> dict[str, Shape]:
    """Of inputs, weights and results, by their places, where they are told."""
    results = {name: size for call in sketch.calls for name, size in zip(call.names, call.sizes * len(call.names))}
    return {**sketch.given, **results}


def read_sketch(text: str) -> Sketch:
    given: dict[str, Shape] = {}
    calls: list[Call] = []
    returned = ""
    for line in text.splitlines():
        if match := _CALL.match(line):
            tensors = _TENSOR.findall(match[4] or "")
            sizes, dtypes = tuple(_shape(size) for size, _ in tensors), tuple(dtype or "float32" for _, dtype in tensors)
            calls.append(Call(tuple(match[1].split(", ")), match[2], match[3], sizes, dtypes))
        elif line.startswith("return "):
            returned = line.removeprefix("return ")
        elif match := _GIVEN.match(line):
            given[match[1]] = _shape(match[2])
    return Sketch(given, tuple(calls), returned)


def results_in(text: str) -> list[str]:
    """The names of results in a text, `t3` and `t2_0`, in order."""
    return _RESULT.findall(text)


def is_result(name: str) -> bool:
    return _RESULT.fullmatch(name) is not None


def _shape(size: str) -> Shape:
    return () if size == "scalar" else tuple(map(int, size.split("x")))
