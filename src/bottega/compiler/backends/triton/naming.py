"""One hand writes one file: the names that are a matter of taste, drawn once from the style and then kept to."""

from __future__ import annotations

from dataclasses import dataclass

from bottega.compiler.style import Style


@dataclass(frozen=True)
class Hand:
    pointer: str
    """Pattern of a pointer's name, `{}` for the tensor's."""
    value: str
    """Pattern of what is loaded from it."""
    flat: str
    """The index of a flat block."""
    size: str
    """How many elements a flat block's kernel has."""
    mask: str
    block: str
    row: str
    column: str
    rows: str
    columns: str
    temporary: str
    """Prefix of numbered intermediate values."""
    accumulator: str
    tile: tuple[str, str, str]
    """Names of a product's tile sizes."""
    extent: tuple[str, str, str]
    """Names of a product's sizes: rows, columns, depth."""
    kernel: str
    """Pattern of a kernel's name."""
    comments: bool
    start: str
    """The variable of a loop over blocks."""


def hand_of(style: Style) -> Hand:
    pointer, value = style.pick(
        "pointers", [("{}_ptr", "{}"), ("{}_ptr", "{}_val"), ("{}", "{}_val"), ("{}_ptr", "{}"), ("{}", "v_{}")]
    )
    row, column, rows, columns = style.pick(
        "row and column",
        [
            ("row", "column", "rows", "columns"),
            ("row", "cols", "n_rows", "n_cols"),
            ("row_idx", "col", "num_rows", "num_cols"),
            ("row", "col", "M", "N"),
        ],
    )
    return Hand(
        pointer=pointer,
        value=value,
        flat=style.pick("flat", ["offsets", "offs", "offset", "idx", "at"]),
        size=style.pick("size", ["n", "n_elements", "numel", "size", "total"]),
        mask=style.pick("mask", ["mask", "mask", "inside", "valid"]),
        block=style.pick("block", ["BLOCK", "BLOCK_SIZE", "BLOCK"]),
        row=row,
        column=column,
        rows=rows,
        columns=columns,
        temporary=style.pick("temporary", ["v", "t", "h", "u"]),
        accumulator=style.pick("accumulator", ["acc", "acc", "total", "accumulator"]),
        tile=style.pick("tile", [("BLOCK_M", "BLOCK_N", "BLOCK_K"), ("BM", "BN", "BK")]),
        extent=style.pick("extent", [("M", "N", "K"), ("m", "n", "k")]),
        kernel=style.pick("kernel", ["{}_kernel", "{}_kernel", "{}", "fused_{}", "_{}_kernel"]),
        comments=style.chance("comments", 0.4),
        start=style.pick("start", ["start", "start", "begin", "first"]),
    )
