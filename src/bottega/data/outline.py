"""The shape of a program: runs of syntax-tree nodes, or of words for C++ and CUDA, hashed into a MinHash signature.

Names and numbers leave no trace, so that two kernels which differ only in these have one shape. Clusters of alike shapes are what the
diversity filter caps, and tasks of one shape never stand on both sides of a split.
"""

from __future__ import annotations

import ast
import re
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bottega.skills.likeness import PERMUTATIONS, likely_pairs

RUN = 5
"""Nodes or words in a row that make one feature."""
ALIKE = 0.8

Runs = NDArray[np.uint64]
Signature = NDArray[np.uint32]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_draw = np.random.default_rng(20260705)
_A = _draw.integers(0, 1 << 63, (PERMUTATIONS, 1), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_B = _draw.integers(0, 1 << 63, (PERMUTATIONS, 1), dtype=np.uint64)
_NATIVE = re.compile(r"//[^\n]*|/\*(?:.*?\*/|.*)|[A-Za-z_]\w*|\d[\w.]*|[^\s\w]", re.S)
_KEPT = frozenset(
    """for if else while return float double int int64_t half void const auto exp expf sqrt sqrtf rsqrtf tanh tanhf log logf fmaxf max min
    pragma omp simd parallel reduction collapse schedule static dynamic blockIdx threadIdx blockDim __syncthreads __shared__
    __shfl_down_sync __shfl_xor_sync atomicAdd""".split()  # noqa: SIM905
)
"""Words of C++ and CUDA that say what is done; other names are one word."""


def words_of(source: str) -> list[str]:
    """A program as a row of words without its names. What does not parse is read as plain words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(_native_words(source))
    return _tree_words(tree)


def _tree_words(tree: ast.AST) -> list[str]:
    """Each node before what is in it. Without recursion: the programs are many and their trees deep."""
    words: list[str] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "{" in node.value and ";" in node.value:
                words.extend(_native_words(node.value))
            continue
        words.append(type(node).__name__)
        if isinstance(node, ast.Attribute):
            words.append(node.attr)
        pending.extend([child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Load | ast.Store)][::-1])
    return words


def _native_words(text: str) -> Iterator[str]:
    for word in _NATIVE.findall(text):
        if word.startswith(("//", "/*")):
            continue
        yield word if word in _KEPT or not (word[0].isalnum() or word[0] == "_") else "0" if word[0].isdigit() else "x"


def runs_of(words: Sequence[str]) -> Runs:
    """A number for every run of words, each once."""
    hashes = np.fromiter((zlib.crc32(word.encode(errors="replace")) for word in words), dtype=np.uint64, count=len(words))
    count = max(1, len(words) - RUN + 1) if words else 0
    runs = hashes[:count].copy()
    for place in range(1, min(RUN, len(words))):
        runs *= _MIX
        runs ^= runs >> _HALF
        runs += hashes[place : place + count]
    return np.unique(runs)


def signature(runs: Runs) -> Signature:
    if not runs.size:
        return np.full(PERMUTATIONS, np.iinfo(np.uint32).max, dtype=np.uint32)
    mixed = runs * _MIX
    mixed ^= mixed >> _HALF
    least: Signature = ((mixed * _A + _B).min(axis=1) >> _HALF).astype(np.uint32)
    return least


def clusters(sources: Sequence[str], alike: float = ALIKE, known: Mapping[str, Runs] | None = None) -> list[int]:
    """For each source the number of its cluster: alike ones are joined, and whatever is alike to those. The first one names it.

    Runs that are `known` already are not made again.
    """
    unique = list(dict.fromkeys(sources))
    if not unique:
        return []
    known = known or {}
    runs = [known[source] if source in known else runs_of(words_of(source)) for source in unique]
    groups = Groups(len(unique))
    # Signatures find the pairs that may be alike; whether they are is counted.
    for one, other, _ in likely_pairs(np.stack([signature(each) for each in runs]), alike):
        if groups.root(one) != groups.root(other) and likeness(runs[one], runs[other]) >= alike:
            groups.join(one, other)
    place = {source: groups.root(number) for number, source in enumerate(unique)}
    names: dict[int, int] = {}
    return [names.setdefault(place[source], len(names)) for source in sources]


def likeness(one: Runs, other: Runs) -> float:
    """How much of what either has both have."""
    shared = np.intersect1d(one, other, assume_unique=True).size
    return shared / max(1, one.size + other.size - shared)


class Groups:
    """Numbers that belong together."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def root(self, number: int) -> int:
        while self._above[number] != number:
            self._above[number] = self._above[self._above[number]]
            number = self._above[number]
        return number

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self.root(one), self.root(other)))
        self._above[second] = first
