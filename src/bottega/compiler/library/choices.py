"""Which keyword arguments of a kernel-library function decide its speed, and which values are sensible for given operands.

Without them a function chooses by its own rule. A search walks these values, a model may write them, a skill card states them. Nothing here says
which is fastest: that is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bottega.compiler.choices import SHARED_BYTES

Shape = tuple[int, ...]
Value = int | bool | tuple[int, ...]
PROCESSORS = 132
HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class CallOperands:
    """What one call works on."""

    shapes: tuple[Shape, ...]
    """Of its tensors, in the order of the signature."""
    dtype: str = "float32"
    options: dict[str, object] = field(default_factory=dict)
    """Of its other arguments those that are known, by name."""

    @property
    def is_half(self) -> bool:
        return self.dtype in HALVES

    @property
    def bytes(self) -> int:
        return 2 if self.is_half else 4


@dataclass(frozen=True)
class Setting:
    """Values of some of a function's choices; the others stay the rule's."""

    values: tuple[tuple[str, Value], ...]

    @property
    def text(self) -> str:
        """As an answer writes it: `tile=(128, 64, 32), warps=4`."""
        return ", ".join(f"{name}={value}" for name, value in self.values)


@dataclass(frozen=True)
class FunctionChoices:
    names: tuple[str, ...]
    """Keyword arguments that the function takes."""
    settings: Callable[[CallOperands], Iterator[Setting]]
    """Sensible ones, the most promising first. `own=False`, which hands the call to torch, is left to the caller: something must stay ours."""


def setting(**values: Value) -> Setting:
    return Setting(tuple(values.items()))


def product_size(function: str, shapes: Sequence[Shape]) -> tuple[int, int, int, int] | None:
    """Rows, columns, depth and batch of a product of matrices; None for one by a vector, or of other operands."""
    if len(shapes) < 2:
        return None
    a, b = shapes[:2]
    if function == "linear":
        return (math.prod(a[:-1]), b[0], a[-1], 1) if a and len(b) == 2 and a[-1] == b[1] else None
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2] or 1 in (a[-2], b[-1]):
        return None
    if len(b) == 2:
        return math.prod(a[:-1]), b[1], a[-1], 1
    return a[-2], b[-1], a[-1], max(math.prod(a[:-2]), math.prod(b[:-2]))


def _products(function: str) -> Callable[[CallOperands], Iterator[Setting]]:
    def found(given: CallOperands) -> Iterator[Setting]:
        size = product_size(function, given.shapes)
        if size is None:
            yield from (setting(warps=4), setting(splits=1), setting(splits=4))
            return
        rows, columns, depth, batch = size
        yield from _tiles(rows, columns, depth, batch, given)

    return found


TILES = (
    (128, 128, 32), (128, 64, 32), (64, 64, 32), (64, 128, 32), (128, 256, 32), (128, 32, 32), (64, 32, 32), (64, 64, 64), (32, 64, 64),
    (128, 16, 32), (64, 16, 32), (256, 16, 16), (32, 32, 64), (16, 64, 64),
)  # fmt: skip
HALF_TILES = (
    (128, 128, 64), (128, 256, 64), (64, 128, 64), (64, 64, 64), (128, 64, 64), (64, 256, 64), (128, 32, 64), (64, 32, 64), (32, 128, 64),
    (128, 16, 64), (64, 16, 64), (32, 32, 64), (16, 64, 128),
)  # fmt: skip


def _tiles(rows: int, columns: int, depth: int, batch: int, given: CallOperands) -> Iterator[Setting]:
    """Tiles no larger than the result; pieces of the depth where there are few tiles."""
    own: dict[str, Value] = {"own": True} if given.is_half else {}
    fitting = [
        tile
        for tile in (HALF_TILES if given.is_half else TILES)
        if tile[0] <= 2 * max(rows, 16) and tile[1] <= 2 * max(columns, 16) and tile[2] <= 2 * max(depth, 16)
        if (tile[1] > 16 or columns <= 32) and (tile[0] > 16 or rows <= 16)
    ]
    few, more = [], []
    for tile in fitting:
        count = -(-rows // tile[0]) * -(-columns // tile[1]) * batch
        if count < PROCESSORS // 4 and depth >= 1024:
            few.append(tile)
            continue
        yield setting(**own, tile=tile)
        if tile[0] * tile[1] == 8192:
            more.append(setting(**own, tile=tile, warps=8))
        if (tile[0] + tile[1]) * tile[2] * given.bytes * 4 <= SHARED_BYTES and depth > 4 * tile[2]:
            more.append(setting(**own, tile=tile, stages=4))
    yield from more
    for tile in sorted(few, key=lambda tile: -tile[0] * tile[1]):
        count = -(-rows // tile[0]) * -(-columns // tile[1]) * batch
        best = min(depth // (4 * tile[2]), max(2, 2 * PROCESSORS // count))
        for splits in dict.fromkeys((_even(best), _even(best // 2), _even(best // 4))):
            yield setting(**own, tile=tile, splits=splits)


def _even(number: int) -> int:
    """The largest power of two that is not above it, at most 32."""
    return 1 << min(5, max(1, number).bit_length() - 1)


def _convolutions(dims: int, transposed: bool = False) -> Callable[[CallOperands], Iterator[Setting]]:
    def found(given: CallOperands) -> Iterator[Setting]:
        if len(given.shapes) < 3 or len(given.shapes[1]) != dims + 2:  # the last is the result's
            return
        weight, result = given.shapes[1], given.shapes[-1]
        grouped = given.options.get("groups", 1) != 1
        if not transposed and weight[1] == 1 and grouped:
            yield from _planes(result[-2] if dims > 1 else 1, result[-1])
            return
        channels = weight[1] if transposed else weight[0]
        pixels = math.prod(result) // max(1, result[1] if len(result) == dims + 2 else result[0])
        if grouped:  # columns are the channels of one group
            groups = given.options.get("groups")
            channels = weight[1] if transposed else channels // groups if isinstance(groups, int) else channels
        depth = (weight[0] if transposed else weight[1]) * math.prod(weight[2:])
        yield from _tiles(pixels, channels, depth, 1, given)

    return found


def _planes(height: int, width: int) -> Iterator[Setting]:
    """Tiles of a depthwise convolution's planes."""
    if height == 1:
        yield from (
            setting(tile=(1, block), warps=warps) for block, warps in ((256, 4), (512, 4), (1024, 8), (2048, 8), (128, 2))
        )
        return
    for tile, warps in (
        ((8, 64), 4),
        ((16, 64), 4),
        ((16, 32), 4),
        ((4, 128), 4),
        ((32, 32), 8),
        ((8, 32), 2),
        ((8, 128), 8),
        ((16, 16), 2),
    ):
        if tile[0] < 2 * max(height, 8) and tile[1] < 2 * max(width, 16):
            yield setting(tile=tile, warps=warps)


def _rows(length: int) -> Iterator[Setting]:
    """Of kernels that hold rows, or sweep them where a block is shorter than a row."""
    wide = 1 << (length - 1).bit_length()
    if wide <= 16384:
        for elements, warps in ((1024, 4), (2048, 8), (4096, 8), (4096, 16), (1024, 1), (2048, 2), (8192, 16), (512, 1)):
            if elements >= wide:
                yield setting(rows=elements // wide, warps=warps)
        if wide >= 1024:
            yield from (setting(rows=1, warps=warps) for warps in (2, 4, 8, 16, 32) if wide // warps <= 2048)
            yield from (setting(rows=rows, warps=16) for rows in (2, 4) if wide <= 4096)
    if length > 1024:
        yield from (
            setting(block=block, warps=warps)
            for block, warps in ((1024, 4), (2048, 8), (4096, 16), (8192, 16))
            if block < length
        )


def _of_last_axes(given: CallOperands) -> Iterator[Setting]:
    """A layer norm's rows: as long as its weights, or as the last axis."""
    length = math.prod(given.shapes[1]) if len(given.shapes) > 2 else given.shapes[0][-1]
    yield from _rows(length)


def _of_groups(given: CallOperands) -> Iterator[Setting]:
    shape, groups = given.shapes[0], given.options.get("num_groups", 1)
    if isinstance(groups, int) and len(shape) > 1:
        yield from _rows(math.prod(shape[1:]) // max(1, groups))


def _of_planes(given: CallOperands) -> Iterator[Setting]:
    if len(given.shapes[0]) > 2:
        yield from _rows(math.prod(given.shapes[0][2:]))


def _of_batches(given: CallOperands) -> Iterator[Setting]:
    if len(given.shapes[0]) > 2:
        yield from (
            setting(block=block, warps=warps)
            for block, warps in ((1024, 4), (2048, 4), (2048, 8), (8192, 16), (8192, 8), (512, 2), (4096, 4))
        )
    else:
        yield from (
            setting(rows=rows, block=block, warps=warps)
            for rows, block, warps in ((128, 16, 4), (64, 16, 4), (32, 64, 4), (64, 64, 8), (128, 32, 8))
        )


def _of_axis(given: CallOperands) -> Iterator[Setting]:
    """Along the last axis rows, along another one columns."""
    shape, dim = given.shapes[0], given.options.get("dim", -1)
    if not isinstance(dim, int) or not shape or not -len(shape) <= dim < len(shape):
        return
    if dim % len(shape) == len(shape) - 1:
        yield from _rows(shape[-1])
        return
    for block, warps in ((2048, 4), (8192, 8), (4096, 4), (8192, 16), (1024, 4), (1024, 2), (16384, 16)):
        yield setting(block=block, warps=warps)


def _of_classes(given: CallOperands) -> Iterator[Setting]:
    yield from _of_axis(CallOperands(given.shapes, given.dtype, {"dim": min(1, len(given.shapes[0]) - 1)}))


def _of_scans(given: CallOperands) -> Iterator[Setting]:
    shape, dim = given.shapes[0], given.options.get("dim", -1)
    if not isinstance(dim, int) or not shape or not -len(shape) <= dim < len(shape):
        return
    if dim % len(shape) == len(shape) - 1:
        for rows, block, warps in (
            (1, 1024, 4),
            (1, 2048, 8),
            (1, 4096, 8),
            (1, 4096, 16),
            (2, 1024, 8),
            (4, 512, 4),
            (4, 256, 4),
            (8, 128, 4),
            (1, 512, 2),
            (16, 64, 4),
        ):
            if block < 2 * shape[-1]:
                yield setting(rows=rows, block=block, warps=warps)
        return
    yield from (
        setting(block=block, warps=warps)
        for block, warps in ((64, 4), (256, 8), (128, 8), (32, 2), (32, 4), (256, 4))
        if block < 2 * shape[dim]
    )


def _of_elements(given: CallOperands) -> Iterator[Setting]:
    yield from BLOCKS


BLOCKS = (
    setting(block=2048, warps=8), setting(block=2048, warps=4), setting(block=512, warps=4), setting(block=512, warps=2),
    setting(block=4096, warps=8), setting(block=1024, warps=8), setting(block=256, warps=2), setting(block=4096, warps=16),
)  # fmt: skip


def _of_windows(given: CallOperands) -> Iterator[Setting]:
    yield from (
        setting(block=block, warps=warps)
        for block, warps in ((256, 4), (512, 4), (512, 8), (1024, 8), (128, 4), (1024, 4), (128, 2), (256, 2))
    )


def _of_extremes(given: CallOperands) -> Iterator[Setting]:
    shape, dim = given.shapes[0], given.options.get("dim")
    if isinstance(dim, int) and shape and dim % len(shape) != len(shape) - 1:
        yield from (
            setting(rows=rows, block=block, warps=warps)
            for rows, block, warps in ((8, 128, 4), (16, 128, 8), (32, 64, 8), (16, 256, 8), (4, 256, 4), (32, 32, 4))
        )
        return
    length = shape[-1] if isinstance(dim, int) and shape else math.prod(shape)
    for rows, block, warps in (
        (1, 2048, 8),
        (1, 1024, 8),
        (1, 4096, 8),
        (2, 1024, 8),
        (4, 512, 4),
        (1, 512, 2),
        (8, 256, 4),
        (16, 128, 4),
    ):
        if block < 2 * length:
            yield setting(rows=rows, block=block, warps=warps)


def _of_attention(given: CallOperands) -> Iterator[Setting]:
    own: dict[str, Value] = {"own": True} if given.is_half else {}
    width = max(shape[-1] for shape in given.shapes[:3])
    for tile, warps in (
        ((64, 64), 4),
        ((128, 64), 8),
        ((64, 32), 4),
        ((128, 32), 4),
        ((128, 64), 4),
        ((128, 128), 8),
        ((32, 64), 4),
        ((64, 128), 4),
    ):
        if (
            tile[0] < 2 * max(16, given.shapes[0][-2])
            and (tile[0] + 2 * tile[1]) * max(16, width) * given.bytes * 2 <= SHARED_BYTES
        ):
            yield setting(**own, tile=tile, warps=warps)
            if tile == (64, 64):
                yield setting(**own, tile=tile, warps=warps, stages=3)


_TILED, _SWEPT = ("own", "tile", "warps", "stages", "splits"), ("own", "rows", "block", "warps")
_BLOCKED = ("own", "block", "warps")
FUNCTIONS: dict[str, FunctionChoices] = {
    **{name: FunctionChoices(_TILED, _products(name)) for name in ("linear", "matmul", "mm", "bmm")},
    **{f"conv{dims}d": FunctionChoices(_TILED, _convolutions(dims)) for dims in (1, 2, 3)},
    **{f"conv_transpose{dims}d": FunctionChoices(_TILED, _convolutions(dims, True)) for dims in (1, 2, 3)},
    "scaled_dot_product_attention": FunctionChoices(("own", "tile", "warps", "stages"), _of_attention),
    "layer_norm": FunctionChoices(_SWEPT, _of_last_axes),
    "group_norm": FunctionChoices(_SWEPT, _of_groups),
    "instance_norm": FunctionChoices(_SWEPT, _of_planes),
    "batch_norm": FunctionChoices(_SWEPT, _of_batches),
    **{name: FunctionChoices(_SWEPT, _of_axis) for name in ("softmax", "log_softmax")},
    "cross_entropy": FunctionChoices(_SWEPT, _of_classes),
    **{name: FunctionChoices(_SWEPT, _of_scans) for name in ("cumsum", "cumprod")},
    **{name: FunctionChoices(_SWEPT, _of_extremes) for name in ("argmax", "argmin")},
    **{f"{kind}_pool{dims}d": FunctionChoices(_BLOCKED, _of_windows) for kind in ("max", "avg") for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": FunctionChoices(_SWEPT, _of_planes) for dims in (1, 2, 3)},
    **{
        name: FunctionChoices(_BLOCKED, _of_elements)
        for name in (
            "relu", "leaky_relu", "elu", "selu", "silu", "mish", "softsign", "hardsigmoid", "hardswish", "sigmoid", "tanh", "softplus",
            "hardtanh", "relu6", "gelu",
        )
    },
}  # fmt: skip
"""By the name of the function. `einsum` passes its choices on to `matmul`."""
