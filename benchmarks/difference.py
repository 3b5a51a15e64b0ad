"""A difference of weights in figures: bits a weight under several coders, what steps keep, and the time to add a real file to the base.

PYTHONPATH=src python3 benchmarks/difference.py
PYTHONPATH=src python3 benchmarks/difference.py --file bottega.difference
"""

from __future__ import annotations

import bz2
import lzma
import os
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from bottega.backbone.codec import Levels, packed, rounded, unpacked

LZMA = [{"id": lzma.FILTER_LZMA2, "preset": 1, "lc": 0, "pb": 0}]


def main(
    millions: Annotated[float, typer.Option(help="Draws for the coders.")] = 3.0,
    file: Annotated[Path | None, typer.Option(help="A difference to the embedded model, to be timed.")] = None,
) -> None:
    draw = np.random.default_rng(0)
    shape = (int(millions * 1000), 1000)
    for name, values in (("normal", draw.standard_normal(shape)), ("Laplace", draw.laplace(size=shape))):
        _coders(name, rounded(values.astype(np.float32), 1.0))
        _steps(name, values.astype(np.float32))
    if file is not None:
        _starts(file)


def _coders(name: str, levels: Levels) -> None:
    flat = levels.integers.reshape(-1)
    _, counts = np.unique(flat, return_counts=True)
    share = counts / counts.sum()
    entropy = float(-(share * np.log2(share)).sum())
    symbols = np.minimum(np.abs(flat), 2) * np.sign(flat) + 2  # larger ones cut: a little too good for the foreign coders
    triples = (symbols[0::3] * 36 + symbols[1::3] * 6 + symbols[2::3]).astype(np.uint8).tobytes()
    single = flat.astype(np.int8).tobytes()
    ways: dict[str, Callable[[], int]] = {
        "ours: three to a byte, Huffman": lambda: len(packed(levels)),
        "three to a byte, LZMA preset 1": lambda: len(lzma.compress(triples, lzma.FORMAT_RAW, filters=LZMA)),
        "three to a byte, bz2": lambda: len(bz2.compress(triples)),
        "one to a byte, zlib level 9": lambda: len(zlib.compress(single, 9)),
        "one to a byte, LZMA preset 1": lambda: len(lzma.compress(single, preset=1)),
    }
    table = Table(title=f"{len(flat):,} integers of a {name} distribution, step 1, entropy {entropy:.3f} bits")
    for column in ("coder", "bits a weight", "above the entropy", "seconds"):
        table.add_column(column)
    for way, code in ways.items():
        begun = time.process_time()
        bits = 8 * code() / len(flat)
        table.add_row(way, f"{bits:.3f}", f"{bits / entropy - 1:+.1%}", f"{time.process_time() - begun:.2f}")
    data, begun = packed(levels), time.process_time()
    unpacked(data, levels.integers.shape, levels.top, levels.points).values()
    took = time.process_time() - begun
    table.caption = f"decoded by ours at {len(flat) / took / 1e6:.0f} million weights a second of one core"
    Console().print(table)


def _steps(name: str, values: np.ndarray) -> None:
    table = Table(title=f"what a step keeps, {name}")
    for column in ("step", "dead zone", "bits a weight", "energy kept"):
        table.add_column(column)
    energy = float(np.square(values, dtype=np.float64).sum())
    for step, dead_zone in ((0.5, 0.5), (1.0, 0.5), (1.0, 0.6), (1.25, 0.5), (1.5, 0.5), (1.5, 0.6), (2.0, 0.5)):
        levels = rounded(values, step, dead_zone)
        lost = float(np.square(values - levels.values(), dtype=np.float64).sum())
        table.add_row(f"{step:g}", f"{dead_zone:g}", f"{8 * len(packed(levels)) / values.size:.3f}", f"{1 - lost / energy:.2%}")
    Console().print(table)


def _starts(file: Path) -> None:
    import torch
    import transformers  # noqa: F401  (its own seconds are not ours)

    from bottega.backbone.delta import apply_difference
    from bottega.backbone.embedded import read_embedded
    from bottega.backbone.merged import read_merged

    torch.set_num_threads(1)
    table = Table(title=f"{file.name}, {file.stat().st_size / 1e6:.1f} MB")
    for column in ("what", "seconds of the processor", "seconds"):
        table.add_column(column)

    def timed(what: str, work: Callable[[], Any]) -> Any:
        begun, own = time.monotonic(), time.process_time()
        found = work()
        table.add_row(what, f"{time.process_time() - own:.2f}", f"{time.monotonic() - begun:.2f}")
        return found

    with tempfile.TemporaryDirectory() as folder:
        os.environ["BOTTEGA_CACHE"] = folder
        read_embedded()  # the file comes from the disk, modules are imported
        model, _ = timed("the base", read_embedded)
        timed("the difference added to it", lambda: apply_difference(model, file))
        timed("first start", lambda: read_merged(file))
        timed("second start", lambda: read_merged(file))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
