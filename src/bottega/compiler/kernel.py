"""The kernels that a plan is made of. Each says what is computed over which loops; the backend chooses how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bottega.compiler.expression import Expression, titled
from bottega.compiler.view import Shape, View

ACCUMULATOR, WINDOW, RUNNING = "accumulator", "window", "running"
"""Names that the bodies below may use: a product's or convolution's sum, a window's or scan's result."""
ReduceOperation = Literal["sum", "prod", "max", "min", "argmax", "argmin", "any", "all"]


@dataclass(frozen=True)
class StoreOp:
    """One element of a result: where it goes, over the kernel's loops, and what it is."""

    view: View
    body: Expression
    """Known by the name of what it is stored in, also where a fused kernel computes it and stores nothing."""
    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", titled(self.body, self.view.buffer))


@dataclass(frozen=True)
class Map:
    """Every element for itself."""

    shape: Shape
    """The loops; every view in the bodies and stores has these dimensions."""
    stores: tuple[StoreOp, ...]
    origin: tuple[str, ...] = ()
    """The operators it came from, for names and comments."""


@dataclass(frozen=True)
class Reduction:
    """One number for each row."""

    name: str
    operation: ReduceOperation
    """max and min pass NaN on; argmax and argmin take the first; sums of narrow floats are kept in fp32."""
    body: Expression
    """Over kept and reduced loops. It may use the names of earlier reductions."""


@dataclass(frozen=True)
class RowProgram:
    """A program for each row: reductions over it, in order, each of which may use the ones before; then what is stored.

    A mean is a reduction and a store; a layer normalisation two reductions and a store for every element; a softmax likewise.
    """

    kept: Shape
    reduced: Shape
    """Views have the dimensions kept + reduced, in this order. Row stores have the dimensions kept alone."""
    reductions: tuple[Reduction, ...]
    row_stores: tuple[StoreOp, ...] = ()
    """Once for each row. Their bodies load views over kept alone."""
    element_stores: tuple[StoreOp, ...] = ()
    """For every element of the row."""
    origin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Product:
    """A matrix product, batched, and what becomes of each of its elements."""

    batch: Shape
    rows: int
    columns: int
    depth: int
    left: View
    """batch + (rows, depth)"""
    right: View
    """batch + (depth, columns)"""
    dtype: str
    """Of the operands."""
    stores: tuple[StoreOp, ...]
    """Over batch + (rows, columns); bodies use ACCUMULATOR. A bias is a part of the body."""
    origin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Convolution:
    source: View
    """(batch, channels, *space)"""
    weight: View
    """(out channels, channels / groups, *window); transposed: (channels, out channels / groups, *window)"""
    shape: Shape
    """(batch, out channels, *out space)"""
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int
    transposed: bool
    output_padding: Shape
    dtype: str
    stores: tuple[StoreOp, ...]
    """Over `shape`; bodies use ACCUMULATOR."""
    origin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pool:
    """A window slid over the last dimensions."""

    operation: Literal["max", "average"]
    """An l-p pool is an average pool of a power with a tail. Padding of max never wins."""
    source: Shape
    """(*kept, *space): what the element's body is loaded over."""
    element: Expression
    """The element that enters the window, over `source`: a plain load, or an operator fused in front."""
    shape: Shape
    """(*kept, *out space)"""
    window: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    count_padding: bool
    """Whether an average divides by the whole window at the border too."""
    divisor: int | None
    stores: tuple[StoreOp, ...]
    """Over `shape`; bodies use WINDOW."""
    dtype: str = "float32"
    origin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scan:
    """Running sums and the like along the last loop."""

    operation: Literal["sum", "prod", "max", "min", "logaddexp"]
    kept: Shape
    length: int
    element: Expression
    """Over kept + (length,)."""
    stores: tuple[StoreOp, ...]
    """Over kept + (length,); bodies use RUNNING."""
    dtype: str = "float32"
    origin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attention:
    """softmax(scale · q kᵀ + mask) v, the softmax over keys."""

    batch: Shape
    queries: int
    keys: int
    width: int
    value_width: int
    query: View
    """batch + (queries, width)"""
    key: View
    """batch + (keys, width)"""
    value: View
    """batch + (keys, value_width)"""
    mask: View | None
    """batch + (queries, keys), added to the scores; a boolean mask keeps where it is true."""
    mask_dtype: str
    causal: bool
    scale: float
    dtype: str
    stores: tuple[StoreOp, ...]
    """Over batch + (queries, value_width); bodies use ACCUMULATOR."""
    origin: tuple[str, ...] = ()
    unseeing: Literal["zero", "nan"] = "zero"
    """What a query is given whose keys are all masked: torch's attention has zeros, a softmax written out has none."""


GROUPED_PARTS = (ACCUMULATOR, "second accumulator")
"""Names in the bodies of a grouped product: the sum over the first columns of its matrices, and over as many behind them."""


@dataclass(frozen=True)
class GroupedProduct:
    """Rows in groups that follow each other, each group times a matrix of its own, and what becomes of each element."""

    groups: int
    rows: int
    columns: int
    """Of the result; the matrices have `parts` times as many."""
    depth: int
    parts: int
    element: Expression
    """The left operand over (rows, depth): a plain load, or a gather of rows."""
    right: View
    """(groups, depth, parts · columns)"""
    ends: View
    """(groups), where the rows of each group end."""
    dtype: str
    stores: tuple[StoreOp, ...]
    """Over (rows, columns); bodies use GROUPED_PARTS."""
    origin: tuple[str, ...] = ()


RECURRENT_CELLS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Recurrent cells, each with the number of its gates."""


@dataclass(frozen=True)
class Recurrence:
    """One layer and direction of a recurrent network: step by step, the cell of what came in and of the state before."""

    cell: Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]
    steps: int
    batch: int
    width: int
    gates: View
    """(steps, batch, gates · width): the product of every step's input, with its bias."""
    weight: View
    """(gates · width, width)"""
    bias: View | None
    """(gates · width), of the recurrent product."""
    begins: tuple[View, ...]
    """(batch, width): the first state and, of an LSTM, the first cell. None means zeros."""
    backward: bool
    """Whether the last step comes first."""
    stores: tuple[StoreOp, ...]
    """The state after every step over (steps, batch, width), then the last state and, of an LSTM, the last cell over (batch, width)."""
    origin: tuple[str, ...] = ()


@dataclass(frozen=True)
class FunctionCall:
    """A call of torch or of the kernel library: `results = function(arguments)`."""

    function: str
    """As it is written: `F.conv2d`, `torch.matmul`."""
    arguments: tuple[Any, ...]
    """Views, literals, tuples of them, or `PythonText` Python text."""
    keywords: tuple[tuple[str, Any], ...]
    results: tuple[str, ...]
    """Buffers it fills, one for each output; an empty name is an output that nobody uses."""
    origin: tuple[str, ...] = ()
    paired: bool = False
    """Whether all results but the first come as one tuple, as an LSTM's two states do."""
    library_call: bool = False
    """Whether the function is one of the kernel library."""
    text: str = ""
    """The call as it is written, where that is settled; the arguments then say only what is read."""
    looks: tuple[tuple[str, str], ...] = ()
    """Views of tensors that the text names, each with the Python that gives it."""
    then: str = ""
    """Python behind the call: the layout that is wanted of its one result."""

    @property
    def targets(self) -> str:
        """The results as the left side of an assignment."""
        names = [name or "_" for name in self.results]
        if not self.paired:
            return ", ".join(names)
        return f"{names[0]}, ({', '.join(names[1:])})" if any(self.results[1:]) else f"{names[0]}, _"


@dataclass(frozen=True)
class PythonText:
    """Python text that is written verbatim."""

    text: str


Kernel = Map | RowProgram | Product | Convolution | Pool | Scan | Attention | GroupedProduct | Recurrence | FunctionCall
