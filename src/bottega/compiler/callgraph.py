"""A call graph: the torch calls of a task's `forward`, with names, options, shapes and data types, as typed nodes.

    forward(x)
    x 64x32x32x32
    self.conv.weight 128x32x3x3
    self.conv.bias 128
    t1 = conv2d(x, self.conv.weight, self.conv.bias, padding=1) 64x128x32x32
    t2 = relu(t1) 64x128x32x32
    return t2

That is how prompts print it (`CallGraph.text`). The compiler and the cold-start data read the nodes; it is parsed from text nowhere. It is
recorded in a sandbox that runs the task's own code, so `from_json` takes nothing for granted.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Shape = tuple[int, ...]

LONGEST = 16_384
"""Characters of a printed call graph. A longer one tells a reader less than the module's own text."""
SAME_VALUES = frozenset(
    ("unsqueeze", "squeeze", "view", "reshape", "permute", "transpose", "flatten", "unflatten", "contiguous", "dropout", "t", "T", "mT", "clone")
)  # fmt: skip
"""Operators whose result holds the values of their input in another arrangement."""
SPLITTING = frozenset(("split", "chunk", "unbind", "tensor_split", "split_with_sizes", "unsafe_split", "unsafe_chunk"))
"""They make several results, which the tracer takes one by one."""

_RESULT = re.compile(r"(?<![\w.])t\d+(?:_\d+)?(?!\w)")
_RESULT_NAME = re.compile(r"t\d{1,6}\w{0,40}")
_OPERATOR = re.compile(r"\w{1,100}")
_LARGEST = 10**18


class Malformed(Exception):
    """What a sandbox sent is no call graph."""


@dataclass(frozen=True)
class NamedTensor:
    """A named tensor: an input, a weight or a result."""

    name: str
    """`x`, `masks[0]`, `self.conv.weight`, `t2`, `t3_0`."""
    shape: Shape
    dtype: str = "float32"

    @property
    def type_text(self) -> str:
        """`64x32`, `64 bool`, `scalar`: float32 goes without saying."""
        shape = "x".join(map(str, self.shape)) or "scalar"
        return shape if self.dtype == "float32" else f"{shape} {self.dtype}"


@dataclass(frozen=True)
class Argument:
    text: str
    """The value as Python writes it, tensors by their names."""
    keyword: str = ""
    """Empty for a positional argument."""
    tensors: tuple[str, ...] = ()
    """Names of the tensors in it."""

    def __str__(self) -> str:
        return f"{self.keyword}={self.text}" if self.keyword else self.text


@dataclass(frozen=True)
class Call:
    operator: str
    """torch's name for it, in one spelling. It ends in an underscore where it changes a tensor that is seen again under another name."""
    arguments: tuple[Argument, ...]
    results: tuple[NamedTensor, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(result.name for result in self.results)

    @property
    def shape(self) -> Shape:
        """Of the first result."""
        return self.results[0].shape

    @functools.cached_property
    def argument_text(self) -> str:
        return ", ".join(map(str, self.arguments))

    @property
    def text(self) -> str:
        """`max(t1, dim=1)`."""
        return f"{self.operator}({self.argument_text})"

    @property
    def line(self) -> str:
        """`t2_0, t2_1 = max(t1, dim=1)`: as an answer writes it."""
        return f"{', '.join(self.names)} = {self.text}"

    @property
    def reads(self) -> list[str]:
        """Results of other calls among the arguments, in order."""
        return [name for argument in self.arguments for name in argument.tensors if _RESULT.fullmatch(name)]


@dataclass(frozen=True)
class Input:
    """One parameter of `forward`, with the tensors that it holds."""

    name: str
    tensors: tuple[NamedTensor, ...] = ()
    value: str = ""
    """As Python writes it, where it holds no tensor."""
    variadic: bool = False
    """`*masks`."""


@dataclass(frozen=True)
class CallGraph:
    inputs: tuple[Input, ...]
    weights: tuple[NamedTensor, ...]
    """Parameters, buffers and other tensors of the module or its file, those that are used, in the order of their first use."""
    calls: tuple[Call, ...]
    returned: str
    """As Python writes it: `t3`, `(t1, t2)`, `{'loss': t3}`."""

    @functools.cached_property
    def text(self) -> str:
        """What a prompt shows."""
        lines = [f"forward({', '.join('*' * one.variadic + one.name for one in self.inputs)})"]
        for one in self.inputs:
            lines += [f"{tensor.name} {tensor.type_text}" for tensor in one.tensors] or [f"{one.name} = {one.value}"]
        lines += [f"{weight.name} {weight.type_text}" for weight in self.weights]
        for call in self.calls:
            types = [result.type_text for result in call.results]
            lines.append(f"{call.line} {' '.join(types if len(set(types)) > 1 else types[:1])}")
        return "\n".join([*lines, f"return {self.returned}"])

    @functools.cached_property
    def by_result(self) -> Mapping[str, Call]:
        """Every result with the call that makes it."""
        return {name: call for call in self.calls for name in call.names}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(data: Any) -> CallGraph:
    """Raises `Malformed`. Every name is a name and every text one line, whatever the task's code made of the sandbox."""
    try:
        inputs = tuple(
            Input(_line(one["name"]), _tensors(one["tensors"]), _line(one["value"]), one["variadic"] is True)
            for one in data["inputs"]
        )
        calls = tuple(
            Call(
                _matching(_OPERATOR, call["operator"]),
                tuple(
                    Argument(_line(one["text"]), _line(one["keyword"]), tuple(map(_line, one["tensors"])))
                    for one in call["arguments"]
                ),
                tuple(
                    NamedTensor(_matching(_RESULT_NAME, one.name), one.shape, one.dtype) for one in _tensors(call["results"])
                ),
            )
            for call in data["calls"]
        )
        graph = CallGraph(inputs, _tensors(data["weights"]), calls, _line(data["returned"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from None
    if not all(call.results for call in calls) or len(graph.text) > LONGEST:
        raise Malformed("a call without a result, or a text that is too long")
    return graph


def results_in(text: str) -> list[str]:
    """Names of results in a piece of an answer, `t3` and `t2_0`, in order."""
    return _RESULT.findall(text)


def _tensors(data: Sequence[Mapping[str, Any]]) -> tuple[NamedTensor, ...]:
    return tuple(NamedTensor(_line(one["name"]), _shape(one["shape"]), _line(one["dtype"])) for one in data)


def _shape(sizes: Any) -> Shape:
    if not isinstance(sizes, list | tuple) or not all(type(size) is int and 0 <= size < _LARGEST for size in sizes):
        raise ValueError("a shape is a list of sizes")
    return tuple(sizes)


def _line(text: Any) -> str:
    if not isinstance(text, str) or not text.isprintable():
        raise ValueError("a text of one line was expected")
    return text


def _matching(pattern: re.Pattern[str], text: Any) -> str:
    if not isinstance(text, str) or pattern.fullmatch(text) is None:
        raise ValueError(f"no name: {str(text)[:60]!r}")
    return text
