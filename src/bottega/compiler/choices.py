"""What one draft of a task may do otherwise than another: a small typed space that a search walks.

Every choice changes what runs on the device. None says whether it pays: that is for rules where something is known, and for the judge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

SHARED_BYTES = 227 << 10
"""Of shared memory that one block may have on Hopper; a tile whose operands take more for its stages does not run."""
Heavy = Literal["product", "short_product", "convolution", "depthwise", "attention", "grouped"]
"""Operators that the vendor's libraries have good kernels for; of products and convolutions all, or those alone where ours seldom lose."""


@dataclass(frozen=True)
class Tile:
    """Of a matrix product."""

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 3

    def within_memory(self, element: int) -> Tile:
        """With fewer stages, then with less depth, where operands of so many bytes an element would not fit."""
        stages, depth = self.stages, self.depth
        a_stage = (self.rows + self.columns) * element
        while stages > 2 and stages * depth * a_stage > SHARED_BYTES:
            stages -= 1
        while depth > 16 and stages * depth * a_stage > SHARED_BYTES:
            depth //= 2
        return replace(self, stages=stages, depth=depth)


@dataclass(frozen=True)
class Tuning:
    """Numbers that a backend would else take by its rules."""

    tile: Tile | None = None
    """Of every matrix product of our own; None takes the rule's."""
    splits: int = 0
    """Pieces of a product's depth; 0 takes the rule's."""
    block: int = 1024
    """Elements that one program of an elementwise kernel computes."""
    row_warps: int = 0
    """Warps of a program that holds one row; 0 takes the rule's."""


BY_RULE = Tuning()


@dataclass(frozen=True)
class Choices:
    own: tuple[Heavy, ...] = ()
    """Heavy operators that are kernels of our own, with what follows them fused in. The others are torch's calls."""
    library: bool = False
    """Heavy operators are calls of the kernel library, whose functions choose by shape."""
    fused: bool = True
    """Whether operators are fused at all."""
    merged: bool = False
    """Whether linear layers over one input are one product of torch's, with weights that are joined once."""
    graph: bool = False
    """Whether the whole module is captured in a CUDA graph."""
    tuning: Tuning = BY_RULE

    @property
    def label(self) -> str:
        """In a few words, for a table."""
        words = [f"own {kind}" for kind in self.own] or ["kernel library" if self.library else "torch products"]
        words += [
            "fused" if self.fused else "not fused",
            *(["merged"] if self.merged else []),
            *(["graph"] if self.graph else []),
        ]
        tile = self.tuning.tile
        words += [f"tile {tile.rows}x{tile.columns}x{tile.depth}"] if tile else []
        words += [f"{self.tuning.splits} splits"] if self.tuning.splits else []
        words += [f"blocks of {self.tuning.block}"] if self.tuning.block != BY_RULE.block else []
        words += [f"{self.tuning.row_warps} warps a row"] if self.tuning.row_warps else []
        return ", ".join(words)
