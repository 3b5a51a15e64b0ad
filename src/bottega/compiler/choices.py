"""What one draft of a task may do otherwise than another: a small typed space that a search walks.

Every choice changes what runs on the device. None says whether it pays: that is for rules where something is known, and for the judge.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers that a backend would else take by its rules."""

    block: int = 1024
    """Elements that one program of an elementwise kernel computes."""
    row_warps: int = 0
    """Warps of a program that holds one row; 0 takes the rule's."""


BY_RULE = Tuning()


@dataclass(frozen=True)
class Choices:
    library: bool = False
    """Heavy operators are calls of the kernel library, whose functions choose by shape. The others are torch's calls."""
    attention: bool = False
    """Whether attention alone is, also where it is written out by hand."""
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
        words = [
            "kernel library" if self.library else "torch products",
            *(["one kernel for attention"] if self.attention else []),
            "fused" if self.fused else "not fused",
            *(["merged"] if self.merged else []),
            *(["graph"] if self.graph else []),
        ]
        words += [f"blocks of {self.tuning.block}"] if self.tuning.block != BY_RULE.block else []
        words += [f"{self.tuning.row_warps} warps a row"] if self.tuning.row_warps else []
        return ", ".join(words)
